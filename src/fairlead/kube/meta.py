"""Object metadata, and how an object is called in messages."""

from __future__ import annotations

from datetime import datetime

import msgspec

__all__ = ["Condition", "Object", "ObjectMeta", "OwnerReference"]


class Object(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all our Kubernetes structs: camelCase on the wire, unknown fields ignored.

    ``gc=False``: objects hold only plain data and never form cycles, and a cluster has millions of
    them; the collector need not walk them.
    """


class OwnerReference(Object, frozen=True, gc=False):
    """Who owns an object; `controller` is the one that recreates it."""

    kind: str
    name: str
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class Condition(Object, frozen=True, gc=False):
    """One entry of a status' conditions."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class ObjectMeta(Object, frozen=True, gc=False):
    """The parts of metadata that some rule, door or message reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    generate_name: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``, or the bare name of a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that recreates this object, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)
