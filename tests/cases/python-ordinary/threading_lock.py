import threading

total = 0
lock = threading.Lock()

def add():
    global total
    for _ in range(100):
        with lock:
            total += 1

threads = [threading.Thread(target=add) for _ in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(total)
