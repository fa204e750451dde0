from array import array

a = array("i", [1, 2, 3])
print(a.tolist(), memoryview(b"abc")[1:].tobytes(), bytearray(b"x") + b"y")
