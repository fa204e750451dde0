def eval(x):
    return x if x < 2 else eval(x - 1) + x


print(eval(5))
