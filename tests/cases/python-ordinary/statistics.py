import statistics

data = [2.5, 3.1, 4.7, 5.0]
print(statistics.mean(data), statistics.median(data), round(statistics.stdev(data), 3))
