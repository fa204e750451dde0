text = "  Hello, World  "
print(text.strip().lower().replace(",", "").split(), "-".join("abc"), "x".center(5, "*"), text.title())
