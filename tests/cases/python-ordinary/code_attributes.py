import dis
import types


def area(width, height=2):
    return width * height


print(area.__code__.co_varnames, area.__code__.co_argcount, area.__defaults__)
print(isinstance(area, types.FunctionType), isinstance(print, types.BuiltinFunctionType))
dis.dis(area)
