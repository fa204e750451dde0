from itertools import chain, combinations, groupby, accumulate, islice, count

print(list(combinations("abc", 2)))
print(list(accumulate(range(5))), list(islice(count(3), 2)), list(chain([1], [2])))
print([(k, len(list(g))) for k, g in groupby("aabbb")])
