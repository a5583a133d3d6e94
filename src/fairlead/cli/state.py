"""A cluster's state from files: YAML or JSON, one or many documents, ``kubectl get ... -o yaml`` as it is.

Nothing here may be trusted to be small because the file is: YAML's anchors and merge keys can spell more
than any memory holds, so what they unfold to is bounded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fairlead.errors import BadInput
from fairlead.kube.decode import unfolded_size

if TYPE_CHECKING:
    from yaml.nodes import MappingNode

__all__ = ["read_bytes", "read_objects"]

# A document may hold its anchors' content this many times over in all; the largest clusters have less.
_UNFOLDED = 50_000_000
# The keys that a mapping may take over from others.
_MERGED = 10_000


def read_objects(files: Sequence[str]) -> Iterator[Any]:
    """The objects in the files, in order; ``-`` is standard input. Lists are left to whoever reads on.

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
    data = data.removeprefix(b"\xef\xbb\xbf")
    # JSON is YAML too, but reading it as such takes a hundred times as long.
    found = _json(data) if data.lstrip()[:1] in (b"{", b"[") else None
    for document in _yaml(shown, data) if found is None else found:
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


def _yaml(shown: str, data: bytes) -> Iterator[Any]:
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # C where there is it
        def flatten_mapping(self, node: MappingNode) -> None:
            """Bound what merge keys take over: merged mappings may merge others, ten times each."""
            for key, value in node.value:
                if key.tag != "tag:yaml.org,2002:merge":
                    continue
                taken = 0
                for merged in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if isinstance(merged, yaml.MappingNode):
                        self.flatten_mapping(merged)
                        taken += len(merged.value)
                    if taken > _MERGED:
                        raise BadInput(f"{shown}: its merge keys (<<) unfold to too much")
            super().flatten_mapping(node)

    try:
        for document in yaml.load_all(data, Loader=Loader):
            if unfolded_size(document) > _UNFOLDED:
                raise BadInput(f"{shown}: its anchors unfold to too much")
            yield document
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(f"{shown}: is neither YAML nor JSON: {error}") from error
    except ValueError as error:
        # Values that YAML gives a meaning of their own: a date that is none, a number too long.
        raise BadInput(f"{shown}: has a value that cannot be read: {error}") from error
