class Broken(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code

try:
    try:
        int("x")
    except ValueError as error:
        raise Broken(7) from error
except Broken as error:
    print(error, error.code, type(error.__cause__).__name__)
else:
    print("never")
finally:
    print("done")
