import timeit
from timeit import Timer

print(timeit.timeit('"-".join(str(n) for n in range(100))', number=10) > 0)
print(timeit.repeat("sorted(xs)", setup="xs = list(range(10))", number=5, repeat=2)[0] >= 0)
print(Timer("pass").timeit(number=1) >= 0)
