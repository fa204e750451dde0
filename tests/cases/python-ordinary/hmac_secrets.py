import hmac
import secrets

key = secrets.token_bytes(16)
print(hmac.compare_digest(hmac.digest(key, b"m", "sha256"), hmac.digest(key, b"m", "sha256")))
