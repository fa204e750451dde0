import shlex

print(shlex.split("a 'b c' d"), shlex.quote("x y"))
