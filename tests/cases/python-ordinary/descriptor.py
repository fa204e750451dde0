class Positive:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return getattr(instance, self.name)

    def __set__(self, instance, value):
        if value <= 0:
            raise ValueError(value)
        setattr(instance, self.name, value)

class Order:
    amount = Positive()

o = Order()
o.amount = 3
print(o.amount)
