"""Reads a cluster's state from files: YAML or JSON, documents or lists, as kubectl prints it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fairlead.errors import BadInput


def read_objects(files: Sequence[str]) -> Iterator[Any]:
    """The objects in the files, in order; ``-`` is standard input. Lists are left to the caller.

    A file without any object is an error: mostly it is a command before the pipe that failed.
    """
    if not files:
        raise BadInput("no state given: name a file with -f, or -f - for standard input")
    for name in files:
        shown = "standard input" if name == "-" else name
        empty = True
        try:
            for document in _documents(shown, read_bytes(name)):
                if document is None:
                    continue
                if not isinstance(document, dict):
                    raise BadInput(f"{shown}: holds {type(document).__name__} where an object should be")
                empty = False
                yield document
        except RecursionError as error:
            raise BadInput(f"{shown}: is nested too deeply, or refers to itself") from error
        if empty:
            raise BadInput(f"no objects in {shown}")


def read_bytes(name: str) -> bytes:
    """A file as it is; ``-`` is standard input."""
    if name == "-":
        return sys.stdin.buffer.read()
    path = Path(name)
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{name}: cannot be read: {error.strerror or error}") from error


def _documents(shown: str, data: bytes) -> Iterator[Any]:
    """The documents' objects; a document may also be a list of them."""
    from fairlead.kube.documents import documents  # YAML takes long to import, and most state is JSON

    data = data.removeprefix(b"\xef\xbb\xbf")
    # JSON is YAML too, but reading it as such takes a hundred times as long.
    found = _json(data) if data.lstrip()[:1] in (b"{", b"[") else None
    for document in documents(data, shown, large=True) if found is None else found:
        yield from document if isinstance(document, list) else [document]


def _json(data: bytes) -> list[Any] | None:
    """The JSON documents one after the other, on lines of their own or not; None: it is not (only) JSON."""
    try:
        return [msgspec.json.decode(data)]
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    found = []
    read = json.JSONDecoder().raw_decode
    try:
        text = data.decode().strip()
        at = 0
        while at < len(text):
            document, at = read(text, at)
            found.append(document)
            while at < len(text) and text[at].isspace():
                at += 1
    except ValueError:
        return None
    return found
