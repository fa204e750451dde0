import weakref

class Node:
    pass

n = Node()
r = weakref.ref(n)
print(r() is n)
