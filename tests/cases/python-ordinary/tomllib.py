import tomllib

print(tomllib.loads("a = [1, 2]\n[b]\nc = true"))
