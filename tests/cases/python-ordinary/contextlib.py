from contextlib import contextmanager, suppress

@contextmanager
def tag(name):
    print("<" + name + ">")
    yield
    print("</" + name + ">")

with tag("b"), suppress(ZeroDivisionError):
    print(1 / 0)
