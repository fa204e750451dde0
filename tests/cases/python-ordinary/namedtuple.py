from collections import namedtuple

Point = namedtuple("Point", "x y")
p = Point(1, 2)
print(p._replace(y=5), p._asdict())
