from dataclasses import dataclass, field, asdict

@dataclass(order=True)
class Item:
    price: float
    name: str = field(compare=False)
    tags: list[str] = field(default_factory=list)

print(sorted([Item(2, "b"), Item(1, "a")]), asdict(Item(3, "c")))
