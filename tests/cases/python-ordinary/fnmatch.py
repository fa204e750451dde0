import fnmatch

print(fnmatch.filter(["a.py", "b.txt"], "*.py"))
