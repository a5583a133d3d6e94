"""Which of several errors that tasks raised together is the one to go by."""

from __future__ import annotations

from fairlead.errors import FairleadError

__all__ = ["worst"]


def worst(several: BaseExceptionGroup[BaseException], *first: type[BaseException]) -> BaseException:
    """The one that says what to do next: of the kinds in `first`, the earlier before the later; else a
    defect, for one of our own errors is only what it led to.
    """
    leaves: list[BaseException] = []
    rest: list[BaseException] = [several]
    while rest:
        error = rest.pop()
        if isinstance(error, BaseExceptionGroup):
            rest += reversed(error.exceptions)
        else:
            leaves.append(error)
    for kind in first:
        for error in leaves:
            if isinstance(error, kind):
                return error
    return next((error for error in leaves if not isinstance(error, FairleadError)), leaves[0])
