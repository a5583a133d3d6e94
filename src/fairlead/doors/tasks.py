"""Tasks that end with the block that started them, and which of their errors is the one to go by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

from fairlead.errors import FairleadError

Start = Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]]


@asynccontextmanager
async def beside(*first: type[BaseException]) -> AsyncIterator[Start]:
    """Yields what starts a task beside the block: it ends with the block, and what it raises ends both.

    Of several errors the `worst` is raised.
    """
    tasks: list[asyncio.Task[Any]] = []
    try:
        async with asyncio.TaskGroup() as group:

            def start(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
                tasks.append(group.create_task(work))
                return tasks[-1]

            yield start
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as several:
        raise worst(several, *first) from several


def worst(several: BaseExceptionGroup[BaseException], *first: type[BaseException]) -> BaseException:
    """The one that says what to do next: of the kinds in `first`, the earlier before the later; else a
    defect, for one of our own errors is only what it led to.
    """
    leaves = list(_leaves(several))
    chosen = [error for kind in first for error in leaves if isinstance(error, kind)]
    defects = [error for error in leaves if not isinstance(error, FairleadError)]
    return [*chosen, *defects, *leaves][0]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error
