from re import compile

print(compile("a+").sub("b", "caat"))
