"""What the commands of ``fairlead tenant`` have in common: the cluster, the types, the files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fairlead.cli.state import read_objects
from fairlead.client.api import Client
from fairlead.client.config import load
from fairlead.client.connection import Connection
from fairlead.errors import BadInput
from fairlead.kube.duration import seconds
from fairlead.tenants.names import check_name
from fairlead.tenants.types import TenantType, default_types, read_types

__all__ = ["Session", "check_names", "count", "plain_values", "run", "timeout_s", "type_called", "types_of"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Session:
    """A cluster, and the namespace that is meant when none is said."""

    client: Client
    namespace: str


def run(kubeconfig: str, context: str, call: Callable[[Session], Awaitable[T]]) -> T:
    """Call it with a connection that is open."""
    from fairlead.doors.running import configure_logging, event_loop

    target = load(kubeconfig or None, context=context or None)
    configure_logging("auto", "warning")

    async def connected() -> T:
        async with Connection(target) as connection:
            return await call(Session(Client(connection), target.namespace))

    with event_loop() as runner:
        return runner.run(connected())


def types_of(file: str) -> dict[str, TenantType]:
    """The types of a file, or the default ones."""
    if not file:
        return default_types()
    return read_types(read_objects([file]), "standard input" if file == "-" else file)


def type_called(types: dict[str, TenantType], name: str) -> TenantType:
    """The type of that name; BadInput names those there are."""
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
    try:
        return seconds(timeout)
    except ValueError as error:
        raise BadInput(f"--timeout: {error}") from error


def count(number: int, word: str) -> str:
    """``1 tenant``, ``2 tenants``."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def plain_values(file: str) -> dict[str, Any]:
    """One object of parameters from a file."""
    found: dict[str, Any] = {}
    for document in read_objects([file]):
        found |= document
    return found
