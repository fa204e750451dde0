from functools import partial, reduce
from operator import attrgetter, methodcaller


class Leaf:
    value = 3


class Tree:
    leaf = Leaf()


print(reduce(getattr, ["leaf", "value"], Tree()), reduce(getattr, "leaf.value".split("."), Tree()))
print(attrgetter("leaf.value")(Tree()), methodcaller("upper")("x"), partial(getattr, Tree())("leaf").value)
