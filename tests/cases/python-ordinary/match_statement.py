def describe(value):
    match value:
        case {"type": "point", "x": x, "y": y}:
            return f"{x},{y}"
        case [first, *rest] if rest:
            return f"{first} and {len(rest)}"
        case str() | int() as plain:
            return repr(plain)
        case _:
            return "?"

print(describe({"type": "point", "x": 1, "y": 2}), describe([1, 2]), describe("a"), describe(None))
