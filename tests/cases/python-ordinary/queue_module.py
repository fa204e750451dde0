import queue

q = queue.PriorityQueue()
for n in (3, 1, 2):
    q.put(n)
print([q.get() for _ in range(3)])
