try:
    raise ExceptionGroup("two", [ValueError(1), TypeError(2)])
except* ValueError as group:
    print(group.exceptions)
except* TypeError as group:
    print(group.exceptions)
