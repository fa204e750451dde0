from graphlib import TopologicalSorter

print(list(TopologicalSorter({"d": {"b", "c"}, "b": {"a"}, "c": {"a"}}).static_order()))
