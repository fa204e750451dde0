import copy

a = {"x": [1]}
b = copy.deepcopy(a)
b["x"].append(2)
print(a, b)
