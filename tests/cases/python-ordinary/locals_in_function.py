def area(width, height):
    total = width * height
    return dict(locals())


def shown(a, b):
    for name, value in locals().items():
        print(name, value)


print(area(2, 3))
shown(1, 2)
