import bisect

marks = [60, 70, 80, 90]
print(["FDCBA"[bisect.bisect(marks, m)] for m in (55, 65, 90)])
