"""What is wrong in a scenario's file: each mistake with file, line, field and what is allowed there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairlead.errors import BadInput


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One mistake. `field` is the path of a field, "" for the file as a whole."""

    file: str
    line: int
    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.field + ': ' if self.field else ''}{self.problem}"


class BadScenario(BadInput):
    """A scenario that cannot be played: all that was found, in the order of its lines."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(dict.fromkeys(sorted(mistakes, key=lambda one: (one.file, one.line))))
        super().__init__("\n".join(map(str, self.mistakes)))

    def __reduce__(self) -> tuple[type[BadScenario], tuple[tuple[Mistake, ...]]]:
        """For another process, which makes the text from the mistakes again."""
        return type(self), (self.mistakes,)


def together(errors: Iterable[BadInput]) -> BadInput:
    """Several errors as one; where one has no lines to be ordered by, in the order given."""
    given = list(errors)
    found = [one for each in given if isinstance(each, BadScenario) for one in each.mistakes]
    if all(isinstance(each, BadScenario) for each in given):
        return BadScenario(found)
    return BadInput("\n".join(dict.fromkeys(map(str, given))))
