path, _, name = "a/b/c.txt".rpartition("/")
key, value = "colour = red".split(" = ")
words = ["to", "be"]
words += ["or"]
line = "so"
line += " on"
for word in words:
    line += " " + word
print(path, name, key, value, line, "x-y".split("-")[1], "prefix_name".removeprefix("prefix_"))
