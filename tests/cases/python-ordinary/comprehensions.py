matrix = [[1, 2], [3, 4]]
print([[row[i] for row in matrix] for i in range(2)], {x: x ** 2 for x in range(3)}, {c for c in "aab"})
