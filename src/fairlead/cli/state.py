"""A cluster's state from files: YAML or JSON, one or many documents, ``kubectl get ... -o yaml`` as it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fairlead.errors import BadInput

__all__ = ["read_objects"]


def read_objects(files: Sequence[str]) -> Iterator[Any]:
    """The objects in the files, in order; ``-`` is standard input. Lists are left to whoever reads on."""
    if not files:
        raise BadInput("no state given: name a file with -f, or -f - for standard input")
    for name in files:
        yield from _documents(name, _read(name))


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    path = Path(name)
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{name}: cannot be read: {error.strerror or error}") from error


def _documents(name: str, data: bytes) -> Iterator[Any]:
    shown = "standard input" if name == "-" else name
    if data.lstrip()[:1] in (b"{", b"["):
        # JSON is YAML too, but reading it as such takes a hundred times as long.
        try:
            found = msgspec.json.decode(data)
        except msgspec.DecodeError:
            pass
        else:
            yield from found if isinstance(found, list) else [found]
            return
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for document in yaml.load_all(data, Loader=loader):
            if document is None:
                continue
            if isinstance(document, list):
                yield from document
            elif isinstance(document, dict):
                yield document
            else:
                raise BadInput(f"{shown}: holds {type(document).__name__} where an object should be")
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(f"{shown}: is neither YAML nor JSON: {error}") from error
    except RecursionError as error:
        raise BadInput(f"{shown}: is nested too deeply, or refers to itself") from error
