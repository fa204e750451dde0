import time

print(time.strftime("%Y-%m-%d", time.gmtime(0)))
