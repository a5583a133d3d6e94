"""Memory of large bodies goes back to the system as soon as it is free.

glibc learns from the first large block that is freed: from then on it takes blocks of that size from its
heap, where whatever is allocated above one keeps the hole of it resident. A fixed threshold ends that. It is
above the columns of a large cluster, which are better off in the heap.
"""

from __future__ import annotations

import ctypes

__all__ = ["return_large_blocks"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_LARGE = 1024 * 1024


def return_large_blocks() -> bool:
    """Have every block of a MiB or more be mapped by itself; False: another C library, left alone."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    # Setting one turns the learning off for both: the heap keeps what it would have kept.
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGE) and mallopt(_M_TRIM_THRESHOLD, 2 * _LARGE))
