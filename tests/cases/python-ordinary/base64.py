import base64

print(base64.b64encode(b"hello").decode(), base64.urlsafe_b64decode("aGVsbG8="))
