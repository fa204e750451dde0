def multiply(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]

print(multiply([[1, 2], [3, 4]], [[5, 6], [7, 8]]))
