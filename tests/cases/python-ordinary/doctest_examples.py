import doctest


def add(a, b):
    """Adds.

    >>> add(1, 2)
    3
    >>> for x in range(2):
    ...     print(add(x, 1))
    1
    2
    """
    return a + b


print(doctest.testmod())
