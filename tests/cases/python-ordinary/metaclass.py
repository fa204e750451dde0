class Registry(type):
    known = {}

    def __new__(mcs, name, bases, namespace):
        cls = super().__new__(mcs, name, bases, namespace)
        mcs.known[name] = cls
        return cls

class Plugin(metaclass=Registry):
    pass

print(Registry.known, Plugin.__dict__.keys())
