class Counter:
    def tick(self):
        return 1


add = [].append
add(1)
print(add.__self__, Counter().tick.__self__.tick())
