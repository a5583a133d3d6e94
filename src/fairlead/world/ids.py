"""Where uids and generated name suffixes come from: counted in virtual time, random on the wall clock.

A counted source makes two runs of a simulation give the same names, so their recordings can be
compared byte by byte.
"""

from __future__ import annotations

import hashlib
import secrets
import uuid
from typing import Protocol

# What generateName draws from: no vowels and no look-alikes, so that no words appear.
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class IdSource(Protocol):
    """Gives ids that were not given before."""

    def uid(self) -> str:
        """A new uid, in the shape of a UUID."""

    def suffix(self) -> str:
        """Five characters for a generated name; may repeat, the caller tries again."""


class RandomIds:
    """Ids of a cluster that lives on the wall clock."""

    def uid(self) -> str:
        """A random UUID."""
        return str(uuid.uuid4())

    def suffix(self) -> str:
        """Five random characters."""
        return "".join(secrets.choice(ALPHABET) for _ in range(5))


class CountedIds:
    """Ids that depend only on the seed and on how many were drawn before.

    >>> a, b = CountedIds("x"), CountedIds("x")
    >>> a.uid() == b.uid(), a.suffix() == b.suffix(), a.uid() == a.uid()
    (True, True, False)
    """

    def __init__(self, seed: str = "") -> None:
        self._seed = seed.encode()
        self._drawn = 0

    def uid(self) -> str:
        """The next uid."""
        digest = self._next()
        return str(uuid.UUID(bytes=digest[:16], version=4))

    def suffix(self) -> str:
        """The next suffix."""
        return "".join(ALPHABET[byte % len(ALPHABET)] for byte in self._next()[:5])

    def _next(self) -> bytes:
        self._drawn += 1
        return hashlib.blake2b(b"%d" % self._drawn, digest_size=16, key=self._seed[:64]).digest()
