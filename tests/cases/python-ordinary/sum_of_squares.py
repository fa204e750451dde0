print(sum(n * n for n in range(10)))
