from functools import lru_cache, partial, reduce

@lru_cache(maxsize=None)
def ways(n):
    return 1 if n < 2 else ways(n - 1) + ways(n - 2)

print(ways(50), partial(pow, 2)(10), reduce(lambda a, b: a * b, range(1, 6)))
