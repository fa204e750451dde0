import re

pattern = re.compile(r"(\w+)@(\w+)\.org")
print(pattern.findall("a@b.org, c@d.org"))
