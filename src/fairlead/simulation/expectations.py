"""What a question is expected to come to: ``pending==0``, ``cost<=12.5``, ``evicted<placed``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from fairlead.errors import BadInput
from fairlead.simulation.outcome import Outcome

_VALUES: dict[str, Callable[[Outcome], float | None]] = {
    "placed": lambda found: found.placed,
    "pending": lambda found: found.pending,
    "evicted": lambda found: found.evicted,
    "moved": lambda found: found.moved,
    "nodes": lambda found: found.nodes,
    "cost": lambda found: found.cost,
}
NAMES = tuple(_VALUES)
"""What can be compared."""

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_SHAPE = re.compile(r"\s*([a-z]+)\s*(==|!=|<=|>=|<|>)\s*([a-z]+|\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True, slots=True)
class Expectation:
    """A comparison of two values, of which the right one may be a number."""

    text: str
    left: str
    comparison: str
    right: str

    @classmethod
    def read(cls, text: str) -> Expectation:
        """The expectation that a text says; BadInput where it says none.

        >>> Expectation.read("pending==0").right
        '0'
        """
        found = _SHAPE.fullmatch(text)
        names = ", ".join(NAMES)
        if found is None or found[1] not in _VALUES or (found[3].isalpha() and found[3] not in _VALUES):
            raise BadInput(
                f"--expect {text!r}: write VALUE OPERATOR NUMBER, such as pending==0; values are {names}"
            )
        return cls(text.strip(), found[1], found[2], found[3])

    def failure(self, outcome: Outcome) -> str:
        """Why an outcome is not as expected; "" where it is."""
        left, right = _value(self.left, outcome), _value(self.right, outcome)
        if left is None or right is None:
            return f"expected {self.text}, but no node has a price"
        if _COMPARISONS[self.comparison](left, right):
            return ""
        return f"expected {self.text}, but {self.left} is {left:g}" + (
            f" and {self.right} {right:g}" if self.right in _VALUES else ""
        )


def _value(name: str, outcome: Outcome) -> float | None:
    return _VALUES[name](outcome) if name in _VALUES else float(name)
