import functools
import time

def timed(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            print(function.__name__, time.perf_counter() - start < 5)
    return inner

@timed
def work(n=3):
    return list(range(n))

print(work())
