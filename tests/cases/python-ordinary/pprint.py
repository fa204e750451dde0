from pprint import pprint

pprint({"k": list(range(30))}, width=40, compact=True)
