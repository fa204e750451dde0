import codecs
import string

print("".join(chr(ord(c) + 1) for c in "HAL"), bytes(x ^ 1 for x in b"abc"))
print("%c%c" % (72, 105), "{:c}".format(33), f"{63:c}", codecs.encode("hello", "rot13"))
print("".join(string.ascii_uppercase[i] for i in [0, 1, 2]), string.digits[-1])
