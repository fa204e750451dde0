names, ages = ["a", "b"], [1, 2]
for i, (name, age) in enumerate(zip(names, ages, strict=True), start=1):
    print(i, name, age)
else:
    print("all")
