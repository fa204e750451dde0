import inspect


def greet(name: str, times: int = 1) -> str:
    """Greets."""
    return f"hello {name} " * times


print(inspect.signature(greet), inspect.getdoc(greet), inspect.currentframe().f_code.co_name)
