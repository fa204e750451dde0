data = list(range(10))
print(data[::2], data[-3:], data[5:2:-1], data[slice(1, 4)])
del data[2:5]
print(data)
