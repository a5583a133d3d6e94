"""Which changes of a collection never reached us, by comparing versions with the API server's.

A frame that never came leaves no trace in a stream. One that is only on its way looks the same, so what is
found here is a suspicion: each comes with what tells, some time later, whether it holds.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import msgspec

from fairlead.client.view import View
from fairlead.client.wire import Page, version_number
from fairlead.kube.decode import decoder

__all__ = ["Suspect", "suspects"]

Suspect = Callable[[int | None], bool]
"""Asked with the version that is known by then, None for none: whether a change was missed."""


async def suspects(view: View[Any, Any], listing: AsyncGenerator[Page, None]) -> dict[str, Suspect]:
    """Keys where we may have missed something, going by a listing of now. Closes the listing."""
    unlisted = view.versions()
    found: dict[str, Suspect] = {}
    async with aclosing(listing) as pages:
        async for page in pages:
            for item in page.items:
                meta = _read_versioned(bytes(item)).metadata
                version = version_number(meta.resource_version)
                if not version:
                    return {}  # not comparable: the stream is all there is
                key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
                unlisted.pop(key, None)
                if (view.version(key) or 0) < version:
                    found[key] = functools.partial(_older, version)
    for key, version in unlisted.items():
        found[key] = functools.partial(_same, version)
    return found


class _VersionedMeta(msgspec.Struct, rename="camel", frozen=True):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Versioned(msgspec.Struct):
    metadata: _VersionedMeta = _VersionedMeta()


_read_versioned = decoder(_Versioned)


def _older(wanted: int, known: int | None) -> bool:
    """The API server has it at `wanted`. Unknown by now may also mean deleted since: listing will tell."""
    return known is None or known < wanted


def _same(before: int, known: int | None) -> bool:
    """The API server does not have it, yet it is known as it was."""
    return known == before
