import struct

print(struct.unpack("<IH", struct.pack("<IH", 7, 9)))
