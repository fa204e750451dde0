raw = "naïve café".encode("utf-8")
print(raw, raw.decode(), raw.hex(" "), int.from_bytes(b"\x01\x02", "big"))
