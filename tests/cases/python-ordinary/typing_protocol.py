from typing import Protocol, TypeVar, Generic, Optional

T = TypeVar("T")

class Box(Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value

class Named(Protocol):
    name: str

def first(items: list[T]) -> Optional[T]:
    return items[0] if items else None

print(first([1]), Box("x").value)
