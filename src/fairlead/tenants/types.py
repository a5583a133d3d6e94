"""Tenant types: what tenants of one kind are made of. Data in a file, ``kind: TenantTypes``.

A type is a template: its texts may hold ``${parameter}``, so it is only when a tenant's values are filled
in that its fields have to make sense. What can be said before, is: misspelt fields, wrong kinds of values
and malformed placeholders are found when the file is read, whichever type is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, TypeVar

import msgspec
import yaml

from fairlead.errors import BadInput, BadObject
from fairlead.kube.decode import convert
from fairlead.policy.names import API_VERSION
from fairlead.tenants.names import check_name
from fairlead.tenants.placeholders import BadPlaceholder, fill, placeholders

KIND = "TenantTypes"

# Parameters that every tenant has by being one.
BUILT_IN = ("name", "namespace", "type")


class Port(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A port of the tenant's Service, and of its container (`targetPort`, the same unless it is said)."""

    port: int
    target_port: int = 0
    name: str = ""
    protocol: str = "TCP"


class Shape(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A type whose placeholders are filled: what the objects of one tenant are made from.

    Values of maps of texts may be numbers or booleans here; objects get them written out.
    """

    image: str
    replicas: int | None = 1
    """None: an autoscaler of the type's own sets it."""
    node_labels: dict[str, Any] = {}
    tolerations: tuple[str | dict[str, Any], ...] = ()
    exclusive: bool = False
    scheduler_name: str = ""
    resources: dict[str, Any] = {}
    ports: tuple[Port, ...] = ()
    config: dict[str, Any] = {}
    secret: dict[str, Any] = {}
    quota: dict[str, Any] = {}
    network: dict[str, Any] = {}
    # A budget that lets nothing go would block every drain of a tenant with one pod.
    disruption: dict[str, Any] = msgspec.field(default_factory=lambda: {"maxUnavailable": 1})
    strategy: dict[str, Any] = {}
    pod: dict[str, Any] = {}
    container: dict[str, Any] = {}
    objects: tuple[dict[str, Any], ...] = ()
    depends_on: dict[str, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class TenantType:
    """A type as the file has it. `source` is the file, for messages."""

    name: str
    template: Mapping[str, Any]
    """The fields of `Shape`, placeholders and all."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Defaults; None where a tenant has to say. They may name built-in parameters."""
    namespace: bool | str = False
    """Whether tenants have a namespace of their own: False, True (called like the tenant), or its name."""
    source: str = ""

    @property
    def called(self) -> str:
        """How messages call it."""
        return f"{self.source}: tenant type {self.name}"

    @property
    def required(self) -> tuple[str, ...]:
        """The parameters that every tenant has to give."""
        return tuple(name for name, default in self.parameters.items() if default is None)


class _File(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    api_version: str = ""
    kind: str = ""
    types: tuple[dict[str, Any], ...] = ()


def read_types(documents: Iterable[object], source: str) -> dict[str, TenantType]:
    """The types of a file's documents, by name; errors name the file, the type and the field.

    >>> types = read_types([{"apiVersion": "fairlead.dev/v1alpha1", "kind": "TenantTypes",
    ...     "types": [{"name": "small", "image": "${image}", "nodeLabels": {"size": "small"}}]}], "a.yaml")
    >>> types["small"].required
    ('image',)
    """
    found: dict[str, TenantType] = {}
    for read in read_documents(documents, _File, KIND, source):
        for index, each in enumerate(read.types):
            one = _read(each, source, f"types[{index}]")
            if one.name in found:
                raise BadInput(f"{source}: there are two tenant types {one.name!r}")
            found[one.name] = one
    if not found:
        raise BadInput(f"{source}: has no tenant types")
    return found


def default_text() -> str:
    """The types that are used when no file is given, as YAML."""
    return (resources.files("fairlead.tenants") / "tenant-types.yaml").read_text(encoding="utf-8")


def default_types() -> dict[str, TenantType]:
    """The types that are used when no file is given."""
    return read_types(yaml.safe_load_all(default_text()), "the default tenant-types.yaml")


def _read(data: dict[str, Any], source: str, where: str) -> TenantType:
    name = data.get("name")
    if not isinstance(name, str):
        raise BadObject(source, f"{where}.name", "is missing" if name is None else "is not a text")
    check_name(name, f"{source}: tenant type")
    called = f"{source}: tenant type {name}"
    template = {key: value for key, value in data.items() if key not in ("name", "parameters", "namespace")}
    known = {one.encode_name for one in msgspec.structs.fields(Shape)}
    for key in template:
        if key not in known:
            others = ", ".join(sorted({*known, "name", "parameters", "namespace"}))
            raise BadObject(called, str(key), f"there is no such field; there are: {others}")
    namespace = data.get("namespace") or False
    if not isinstance(namespace, bool | str):
        raise BadObject(called, "namespace", "is neither true, false nor a name")
    try:
        parameters = _parameters(data.get("parameters"), called)
        for used, path in placeholders({**template, "namespace": namespace}):
            if path == "namespace" and used not in ("name", "type"):
                raise BadPlaceholder(path, f"only ${{name}} and ${{type}} may be used here, not ${{{used}}}")
            if used not in BUILT_IN:
                parameters.setdefault(used, None)
        found = TenantType(name, template, parameters, namespace, source)
        _check_early(found)
    except BadPlaceholder as error:
        raise BadObject(called, error.path, error.problem) from error
    return found


def _parameters(data: object, called: str) -> dict[str, Any]:
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise BadObject(called, "parameters", f"expected an object, got {type(data).__name__}")
    for name, default in data.items():
        path = f"parameters.{name}"
        # What cannot be written as a placeholder could never be used.
        if not isinstance(name, str) or list(placeholders(f"${{{name}}}", path)) != [(name, path)]:
            raise BadObject(called, path, "is not a parameter's name: letters, digits, _ and -")
        if name in BUILT_IN:
            raise BadObject(called, path, "every tenant has this parameter by itself")
        for used, where in placeholders(default, path):
            if used not in BUILT_IN:
                raise BadObject(
                    called, where, f"a default may use {', '.join(BUILT_IN)}, not the parameter {used!r}"
                )
    return dict(data)


def _check_early(found: TenantType) -> None:
    """Fields that do not wait for a tenant's word must make sense already."""
    samples: dict[str, Any] = dict.fromkeys(BUILT_IN, "example")
    samples |= {name: default for name, default in found.parameters.items() if default is not None}
    ready = {
        key: fill(value, samples, key)
        for key, value in found.template.items()
        if not any(name in found.required for name, _ in placeholders(value))
    }
    if "image" not in found.template:
        raise BadObject(found.called, "image", "is missing")
    read_shape({"image": "", **ready}, found.called)


def read_shape(data: Mapping[str, Any], called: str) -> Shape:
    """The filled fields of a type, checked; texts are taken for the numbers and booleans they spell."""
    # No number of replicas is an answer, too.
    stripped = {key: value for key, value in data.items() if value is not None or key == "replicas"}
    try:
        shape = msgspec.convert(stripped, Shape, strict=False)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$.")
        raise BadObject(called, path.rstrip("`"), problem) from error
    if shape.replicas is not None and shape.replicas < 0:
        raise BadObject(called, "replicas", f"{shape.replicas} is negative")
    for index, port in enumerate(shape.ports):
        for field_name, number in (("port", port.port), ("targetPort", port.target_port or port.port)):
            if not 1 <= number <= 65535:
                raise BadObject(
                    called, f"ports[{index}].{field_name}", f"{number} is not between 1 and 65535"
                )
    return shape


T = TypeVar("T")


def read_documents(documents: Iterable[object], shape: type[T], kind: str, source: str) -> Iterator[T]:
    """Each document, typed; BadObject names the file and the field."""
    for document in documents:
        for said, wanted in (("apiVersion", API_VERSION), ("kind", kind)):
            if isinstance(document, dict) and document.get(said) != wanted:
                raise BadObject(source, said, f"{document.get(said)!r} is not {wanted!r}")
        yield convert(document, shape, source)
