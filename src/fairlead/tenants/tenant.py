"""One tenant: its name, type and place, and the parameters that it gives its type's templates.

A parameter is of the kind of its default (number, boolean, text, list, object); one without a default is a
text. So ``--set version=1.10`` is a text where the type's default is one, and no YAML rule decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fairlead.errors import BadInput, BadObject
from fairlead.tenants.names import check_name
from fairlead.tenants.placeholders import BadPlaceholder, fill, text_of
from fairlead.tenants.types import BUILT_IN, TenantType, read_documents

KIND = "Tenants"


@dataclass(frozen=True, slots=True)
class Tenant:
    """Identity: a name, within a namespace. `own_namespace`: the namespace is its own, and goes with it."""

    name: str
    type: str
    namespace: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    own_namespace: bool = False

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def place(kind: TenantType, name: str, namespace: str, *, alone: bool = False) -> tuple[str, bool]:
    """The namespace of a tenant, and whether it is its own; `alone` asks for one whatever the type says."""
    wanted = kind.namespace or alone
    if wanted is False:
        return namespace, False
    own = name if wanted is True else str(fill(wanted, {"name": name, "type": kind.name}))
    check_name(own, f"tenant {name}: namespace")
    return own, True


def values_of(tenant: Tenant, kind: TenantType) -> dict[str, Any]:
    """The value of every parameter, or BadInput that names the tenant, the type and the parameter."""
    built_in: dict[str, Any] = {"name": tenant.name, "namespace": tenant.namespace, "type": kind.name}
    known = kind.parameters
    for name in tenant.parameters:
        if name in BUILT_IN:
            raise BadInput(f"tenant {tenant.name}: parameter {name!r} comes from the tenant itself")
        if name not in known:
            there = f"there are: {', '.join(sorted(known))}" if known else "it has none"
            raise BadInput(f"tenant {tenant.name}: type {kind.name} has no parameter {name!r}; {there}")
    found = dict(built_in)
    for name, default in known.items():
        given = tenant.parameters.get(name)
        if given is None and default is None:
            raise BadInput(
                f"tenant {tenant.name}: type {kind.name} needs the parameter {name!r}: --set {name}=VALUE"
            )
        try:
            usual = fill(default, built_in, f"parameters.{name}")
        except BadPlaceholder as error:
            raise BadObject(kind.called, error.path, error.problem) from error
        called = f"tenant {tenant.name}: parameter {name!r} of type {kind.name}"
        found[name] = usual if given is None else _like(given, usual, called)
    return found


def read_sets(sets: Iterable[str]) -> dict[str, Any]:
    """``--set k=v`` flags; dots go into objects, later ones win.

    >>> read_sets(["a=1", "config.LOG=debug"])
    {'a': '1', 'config': {'LOG': 'debug'}}
    """
    found: dict[str, Any] = {}
    for one in sets:
        key, equals, value = one.partition("=")
        path = key.split(".")
        if not equals or not all(path):
            raise BadInput(f"--set {one!r}: expected NAME=VALUE")
        into: dict[str, Any] = {path[-1]: value}
        for part in reversed(path[:-1]):
            into = {part: into}
        found = merged(found, into)
    return found


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Both, object by object; where they disagree, the second. Lists are taken whole."""
    found = dict(first)
    for key, value in second.items():
        have = found.get(key)
        if isinstance(have, dict) and isinstance(value, dict):
            found[key] = merged(have, value)
        else:
            found[key] = value
    return found


class _Entry(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    name: str
    type: str
    namespace: str = ""
    parameters: dict[str, Any] = {}


class _File(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    api_version: str = ""
    kind: str = ""
    tenants: tuple[_Entry, ...] = ()


def read_tenants(documents: Iterable[object], source: str) -> tuple[Tenant, ...]:
    """The tenants of a file, ``kind: Tenants``; one that says no namespace has an empty one."""
    found: list[Tenant] = []
    for read in read_documents(documents, _File, KIND, source):
        for one in read.tenants:
            check_name(one.name, f"{source}: tenant")
            found.append(Tenant(one.name, one.type, one.namespace, one.parameters))
    if not found:
        # More likely a template that came out empty than the wish that all of them go.
        raise BadInput(f"{source}: has no tenants")
    return tuple(found)


def _like(given: Any, default: Any, called: str) -> Any:
    """The value, of the kind that the default is of."""
    match default:
        case bool():
            if isinstance(given, bool):
                return given
            if given in ("true", "false"):
                return given == "true"
            raise BadInput(f"{called}: {given!r} is neither true nor false")
        case int() | float():
            whole = isinstance(default, int)
            try:
                if isinstance(given, bool) or (whole and isinstance(given, float)):
                    raise TypeError
                return int(given) if whole else float(given)
            except (TypeError, ValueError):
                wanted = "a whole number" if whole else "a number"
                raise BadInput(f"{called}: {given!r} is not {wanted}") from None
        case dict():
            if not isinstance(given, dict):
                raise BadInput(
                    f"{called}: is an object; say --set NAME.MEMBER=VALUE, or give it in a values file"
                )
            return merged(default, given)
        case list():
            if not isinstance(given, list):
                raise BadInput(f"{called}: is a list; give it in a values file")
            return given
    written = text_of(given)
    if written is None:
        raise BadInput(f"{called}: is a text, not a list or an object")
    return written
