"""A shorter history that ends in the same violation, found by leaving out actions and playing what is left.

Each try is a run of its own and takes minutes, so there are only as many as were asked for: halves first,
then quarters, and so on. What comes before a quiet point (opening nodes, taking away what is too much) is
never left out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tools.soak.actions import Action

Fails = Callable[[Sequence[Action]], Awaitable[bool]]


async def shortest(history: Sequence[Action], fails: Fails, tries: int) -> list[Action]:
    """The shortest history found in so many tries; the whole, if none of them fails again."""
    last = max((action.at for action in history), default=0.0)
    best = list(history)
    parts = 2
    while tries > 0:
        free = [action for action in best if action.at < last]
        if len(free) < parts:
            return best
        size = -(-len(free) // parts)
        for begin in range(0, len(free), size):
            if tries == 0:
                return best
            without = free[begin : begin + size]
            rest = [action for action in best if action not in without]
            tries -= 1
            if await fails(rest):
                best, parts = rest, max(2, parts - 1)
                break
        else:
            if parts >= len(free):
                return best
            parts = min(len(free), 2 * parts)
    return best
