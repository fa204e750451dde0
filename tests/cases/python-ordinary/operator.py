from operator import itemgetter, attrgetter, mul

rows = [{"a": 2}, {"a": 1}]
print(sorted(rows, key=itemgetter("a")), mul(2, 3))
