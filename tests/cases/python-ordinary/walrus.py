data = [3, 8, 12]
print([half for n in data if (half := n / 2) > 3])
