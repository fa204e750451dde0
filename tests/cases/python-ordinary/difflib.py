import difflib

print("\n".join(difflib.unified_diff(["a", "b"], ["a", "c"], lineterm="")))
