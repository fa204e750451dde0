import re

print(re.sub(r"\d+", lambda m: str(int(m.group()) * 2), "a1 b22"))
