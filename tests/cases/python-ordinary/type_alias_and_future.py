from __future__ import annotations

from collections.abc import Callable, Iterable

Handler = Callable[[int], str]

def run(handlers: Iterable[Handler], n: int) -> list[str]:
    return [h(n) for h in handlers]

print(run([str, hex], 10))
