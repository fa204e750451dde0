from collections import ChainMap, OrderedDict

print(ChainMap({"a": 1}, {"b": 2})["b"], OrderedDict(a=1))
