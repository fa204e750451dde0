from enum import Enum, auto, Flag

class Colour(Enum):
    RED = auto()
    BLUE = auto()

class Mode(Flag):
    READ = auto()
    WRITE = auto()

print(list(Colour), Mode.READ | Mode.WRITE)
