import hashlib

print(hashlib.sha256(b"kazma").hexdigest())
