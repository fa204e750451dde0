first, *rest = [1, 2, 3]
(a, b), c = (1, 2), 3
for index, (left, right) in enumerate([(1, 2), (3, 4)]):
    print(index, left, right)
for x, y in [(1, 2), (3, 4)]:
    print(x * y)
match {"kind": "circle", "r": 2, "unit": "cm"}:
    case {"kind": kind, **others}:
        print(kind, others)
print(first, rest, a, b, c)
