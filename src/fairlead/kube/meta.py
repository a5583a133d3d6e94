"""Object metadata, how an object is called in messages, and the numbers and times that objects are made of.

Numbers are bounded as the API bounds them, because arithmetic goes on in 64 bits; times must say their
zone, because one without is another moment on every machine.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Natural32 = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Time = Annotated[datetime, msgspec.Meta(tz=True)]


class Object(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all our Kubernetes structs: camelCase on the wire, unknown fields ignored.

    ``gc=False``: objects hold only plain data and never form cycles, and a cluster has millions of
    them; the collector need not walk them.
    """


class ObjectReference(Object, frozen=True, gc=False):
    """Points at another object."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class OwnerReference(Object, frozen=True, gc=False):
    """An owner of an object; `controller` is the one that recreates it."""

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
    last_transition_time: Time | None = None


class ObjectMeta(Object, frozen=True, gc=False):
    """The parts of metadata that some rule, door or message reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    generate_name: str = ""
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
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
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None
