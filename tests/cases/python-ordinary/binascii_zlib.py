import binascii
import zlib

packed = zlib.compress(b"a" * 100)
print(len(packed), binascii.crc32(b"x"), zlib.decompress(packed)[:3])
