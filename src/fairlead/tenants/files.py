"""Documents of one kind, as files of tenants and of tenant types have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from fairlead.errors import BadObject
from fairlead.kube.decode import convert
from fairlead.policy.names import API_VERSION

__all__ = ["read_documents"]

T = TypeVar("T")


def read_documents(documents: Iterable[object], shape: type[T], kind: str, source: str) -> Iterator[T]:
    """Each document, typed; BadObject names the file and the field."""
    for document in documents:
        for said, wanted in (("apiVersion", API_VERSION), ("kind", kind)):
            if isinstance(document, dict) and document.get(said) != wanted:
                raise BadObject(source, said, f"{document.get(said)!r} is not {wanted!r}")
        try:
            read = convert(document, shape)
        except BadObject as error:
            raise BadObject(source, error.field, error.problem) from error
        yield read
