from typing import Annotated, Literal, Optional

mode: Literal["exec(1)", "read"] = "read"
size: Annotated[int, "eval the size later"] = 1


class Node:
    next: Optional["Node"] = None

    def last(self, seen: "list[Node] | None" = None) -> "Node":
        return self.next.last() if self.next else self


print(Node().last().next, mode, size)
