from collections import deque

queue = deque([1, 2, 3], maxlen=3)
queue.append(4)
queue.rotate(1)
print(queue)
