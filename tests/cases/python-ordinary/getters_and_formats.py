from operator import attrgetter, itemgetter, methodcaller
import logging
import string

log = logging.getLogger("x")
rows = [{"os": "linux", "code": 3}, {"os": "mac", "code": 1}]
print(sorted(rows, key=itemgetter("code")))
print(methodcaller("upper")("a"), attrgetter("real")(3))
print("{0[os]} {1.real}".format(rows[0], 2), f"{rows[1]['os']}/data.db")
print(string.ascii_letters, "a" + "b" + ".db")
match rows[0]:
    case {"os": name, "code": code}:
        print(name, code)
