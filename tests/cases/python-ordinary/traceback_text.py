import traceback

try:
    [][1]
except IndexError:
    print(traceback.format_exc().splitlines()[-1])
