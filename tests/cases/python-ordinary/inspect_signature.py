import inspect

def f(a, b=2, *args, key, **rest) -> int:
    """Doc."""

print(inspect.signature(f), inspect.getdoc(f))
