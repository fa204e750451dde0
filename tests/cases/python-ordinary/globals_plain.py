value = 5
print(globals()["value"], locals().get("value"))
