text = "مرحبا بالعالم"
print(text[::-1], len(text.split()))
