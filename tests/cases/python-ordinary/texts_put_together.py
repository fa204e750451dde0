parts = ["a", "b"]
name = "na" + "me"
print("".join(parts), "%s=%d" % (name, 3), "{:>5}|{x}".format(1, x=2), "-" * 40)
print(f"{name!r:>10} {'x' * 3}", "abc"[::-1], name[1:3], "A".lower().upper().strip())
print(b"x".decode(), bytes.fromhex("6162").decode(), "".join(map(chr, [72, 105])))


class Row:
    name = "r"


print(getattr(Row, name), [getattr(Row, field, None) for field in ("name", "missing")])
