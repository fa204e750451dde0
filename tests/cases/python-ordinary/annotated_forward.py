from __future__ import annotations

import typing
from dataclasses import dataclass, field


@dataclass
class Node:
    value: int
    next: "Node | None" = None
    children: "list[Node]" = field(default_factory=list)

    def add(self, child: "Node") -> "Node":
        self.children.append(child)
        return self


print(Node(1).add(Node(2)), typing.get_type_hints(Node.add))
