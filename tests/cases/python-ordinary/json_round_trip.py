import json

data = {"name": "kazma", "n": [1, 2, 3]}
text = json.dumps(data, indent=2, sort_keys=True)
print(text)
assert json.loads(text) == data
