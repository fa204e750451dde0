import csv

rows = list(csv.DictReader("a,b\n1,2\n3,4\n".splitlines()))
print(sum(int(row["b"]) for row in rows))
