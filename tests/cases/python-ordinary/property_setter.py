class Celsius:
    def __init__(self, degrees=0):
        self._degrees = degrees

    @property
    def fahrenheit(self):
        return self._degrees * 9 / 5 + 32

    @fahrenheit.setter
    def fahrenheit(self, value):
        self._degrees = (value - 32) * 5 / 9

    @classmethod
    def freezing(cls):
        return cls(0)

    @staticmethod
    def name():
        return "C"

c = Celsius.freezing()
c.fahrenheit = 212
print(c._degrees, Celsius.name())
