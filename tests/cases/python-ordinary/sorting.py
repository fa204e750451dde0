people = [("Ann", 30), ("Bob", 25)]
people.sort(key=lambda p: (-p[1], p[0]))
print(people, sorted("bca", reverse=True), min(people, key=lambda p: p[1]))
