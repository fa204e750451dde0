def averager():
    total, count, average = 0.0, 0, None
    while True:
        value = yield average
        total += value
        count += 1
        average = total / count

g = averager()
next(g)
print(g.send(10), g.send(20))
