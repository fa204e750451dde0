name, value = "pi", 3.14159
width = 10
print(f"{name!r:>{width}} = {value:.2f} {value=} {{}}")
