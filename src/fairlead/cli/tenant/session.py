"""What the commands of ``fairlead tenant`` have in common: the cluster, the types, the files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fairlead.cli.cluster import call_cluster
from fairlead.cli.flags import duration_s
from fairlead.cli.state import read_objects
from fairlead.client.api import Client
from fairlead.errors import BadInput
from fairlead.tenants.names import check_name
from fairlead.tenants.types import TenantType, default_types, read_types

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Session:
    """A cluster, and the namespace that is meant when none is said."""

    client: Client
    namespace: str


def run(
    kubeconfig: str, context: str, call: Callable[[Session], Awaitable[T]], *, changes: bool = False
) -> T:
    """Await `call` with a session on the cluster that the flags name; `changes`: see `call_cluster`."""
    return call_cluster(
        kubeconfig,
        context,
        lambda connection, target: call(Session(Client(connection), target.namespace)),
        changes=changes,
    )


def types_of(file: str) -> dict[str, TenantType]:
    """The types of a file, or the default ones."""
    if not file:
        return default_types()
    return read_types(read_objects([file]), "standard input" if file == "-" else file)


def type_called(types: dict[str, TenantType], name: str) -> TenantType:
    """The type of that name; BadInput lists the existing ones."""
    if name not in types:
        source = next(iter(types.values())).source
        raise BadInput(f"there is no tenant type {name!r}; {source} has: {', '.join(sorted(types))}")
    return types[name]


def check_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of tenants as they were given, each checked, none twice."""
    if not names:
        raise BadInput("name at least one tenant: --name NAME")
    for name in names:
        check_name(name)
        if names.count(name) > 1:
            raise BadInput(f"tenant {name!r} is named twice")
    return names


def timeout_s(timeout: str) -> float:
    """The seconds of --timeout."""
    return duration_s("--timeout", timeout)


def count(number: int, word: str) -> str:
    """``1 tenant``, ``2 tenants``."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def plain_values(file: str) -> dict[str, Any]:
    """One object of parameters from a file."""
    found: dict[str, Any] = {}
    for document in read_objects([file]):
        found |= document
    return found
