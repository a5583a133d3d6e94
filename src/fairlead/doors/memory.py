"""The memory of a process: when it looks for garbage, and what becomes of large blocks once they are free.

Collector and allocator are the process', not a door's: `run_doors` makes one `Memory` for all of its doors,
sets it up once, and doors only say what they do. What they load stays until they load again, so it is set
aside: the collector does not walk through it again and again.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_LARGE = 1024 * 1024


class Memory:
    """One for all doors of a process.

    Invariant: the collector rests exactly while a door loads.
    """

    def __init__(self) -> None:
        self._loads = 0

    def set_up(self, *, takes_bodies: bool, garbage: int) -> None:
        """What holds for as long as the process runs; to be called once.

        `takes_bodies`: requests may bring large bodies. `garbage` is how many objects more than there were it
        takes until the collector looks; 0: as many as Python thinks right.
        """
        if takes_bodies:
            return_large_blocks()
        if garbage:
            gc.set_threshold(garbage)

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Loading makes only things that stay: collecting garbage then is time wasted."""
        self._loads += 1
        gc.disable()
        try:
            yield
        finally:
            self._loads -= 1
            if not self._loads:
                gc.enable()
                gc.freeze()

    def settle(self) -> None:
        """A door has loaded what it answers from: set that aside, but not the garbage that came with it."""
        gc.collect()
        gc.freeze()

    def start_over(self) -> None:
        """What a door loaded before may go, whether it was set aside or not; the rest stays set aside."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()


def return_large_blocks() -> bool:
    """Have every block of a MiB or more be mapped by itself; False: another C library, left alone.

    glibc learns from the first large block that is freed: from then on it takes blocks of that size from its
    heap, where whatever is allocated above one keeps the hole of it resident. A fixed threshold ends that. It
    is above the columns of a large cluster, which are better off in the heap.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    # Setting one turns the learning off for both: the heap keeps what it would have kept.
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGE) and mallopt(_M_TRIM_THRESHOLD, 2 * _LARGE))
