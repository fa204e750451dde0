import unicodedata

print(unicodedata.normalize("NFKD", "é"), unicodedata.name("ش"))
