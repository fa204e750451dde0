def do_add(a, b):
    return a + b


def do_sub(a, b):
    return a - b


for name in ("add", "sub"):
    print(name, globals()[f"do_{name}"](5, 3))
print("do_add" in globals(), sorted(k for k in globals() if k.startswith("do_")))
