class A:
    x = 1

print(getattr(A, "x"), getattr(A, "y", None), hasattr(A, "z"), vars(A)["x"], dir(A)[:1])
