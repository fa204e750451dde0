a, b = {1, 2, 3}, {3, 4}
print(a | b, a & b, a - b, a ^ b, frozenset(a) >= {1})
