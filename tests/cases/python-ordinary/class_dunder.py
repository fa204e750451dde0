class Vector:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __eq__(self, other):
        return (self.x, self.y) == (other.x, other.y)

    def __repr__(self):
        return f"{type(self).__name__}({self.x}, {self.y})"

print(Vector(1, 2) + Vector(3, 4), Vector.__name__, Vector.__mro__, Vector(0, 0).__class__)
