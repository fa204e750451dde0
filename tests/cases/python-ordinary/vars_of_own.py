class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __repr__(self):
        return ", ".join(f"{k}={v}" for k, v in self.__dict__.items())


print(Point(1, 2), sorted(vars(Point(3, 4)).items()))
