from types import SimpleNamespace, MappingProxyType

print(SimpleNamespace(a=1).a, MappingProxyType({"b": 2})["b"])
