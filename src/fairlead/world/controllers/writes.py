"""What a controller may ask for, and what it may look at.

A controller is a pure function: it reads a `View` and answers with writes in order; another module
carries them out. The order matters twice: a write that fails ends the list (what follows assumed
it), and the key is looked at again only when its list is done, so no controller ever acts on a
state that lacks its own last writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from fairlead.errors import ApiError
from fairlead.world.objects import Obj, with_status

__all__ = [
    "Again",
    "Batch",
    "Bind",
    "Controller",
    "Create",
    "Delete",
    "Emit",
    "Obj",
    "Patch",
    "Update",
    "View",
    "Write",
    "status_writes",
]


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object; `then` makes further writes of what the API server made of it."""

    object: Obj
    then: Callable[[Obj], Sequence[Write]] | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """Replace an object (or its status); its resourceVersion makes a stale one fail."""

    object: Obj
    subresource: Literal["", "status"] = ""


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch for the object that has this uid."""

    target: Obj
    patch: Mapping[str, Any]
    subresource: Literal["", "status"] = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object that has this uid; gone already is as good."""

    target: Obj
    grace_s: int | None = None
    propagation: Literal["", "Background", "Foreground", "Orphan"] = ""


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind a pod to a node."""

    pod: Obj
    node: str


@dataclass(frozen=True, slots=True)
class Emit:
    """An event about an object, as `kubectl describe` shows it."""

    about: Obj
    reason: str
    message: str
    component: str
    type: Literal["Normal", "Warning"] = "Normal"
    action: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Writes sent side by side. When one fails the others still end, and the list stops here.

    `otherwise` then says what to write about the failure.
    """

    writes: Sequence[Write]
    otherwise: Callable[[ApiError], Sequence[Write]] | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """Look at the key again at this time, even if nothing changes until then."""

    at: datetime


Write = Create | Update | Patch | Delete | Bind | Emit | Batch | Again


def status_writes(obj: Obj, status: Obj, looks: Iterable[datetime] = ()) -> list[Write]:
    """The object's status, if it changed, and another look at the earliest of `looks`."""
    writes: list[Write] = []
    if status != (obj.get("status") or {}):
        writes.append(Update(with_status(obj, status), "status"))
    first = min(looks, default=None)
    return writes if first is None else [*writes, Again(first)]


class View(Protocol):
    """The cluster as controllers read it. Every listing has a fixed order."""

    def get(self, kind: str, namespace: str, name: str) -> Obj | None:
        """An object of a built-in kind, by name; cluster-scoped kinds have the namespace ""."""
        ...

    def all(self, kind: str, namespace: str = "") -> Iterable[Obj]:
        """All objects of a built-in kind, of one namespace or of the cluster."""
        ...

    def dependents(self, uid: str) -> Sequence[Obj]:
        """Objects of any kind that name `uid` among their owners."""
        ...

    def dependent_keys(self, uid: str) -> Sequence[tuple[str, Obj]]:
        """The same, each with its kind as `get` takes it."""
        ...

    def kind(self, item: Obj) -> str:
        """The kind of an object as `get` takes it."""
        ...

    def orphan_pods(self, namespace: str) -> Sequence[Obj]:
        """Pods that no controller owns: what a selector might adopt."""
        ...

    def pods_on(self, node: str) -> Sequence[Obj]:
        """Pods bound to a node, finished ones included."""
        ...

    def owner(self, namespace: str, reference: Mapping[str, Any]) -> Obj | None:
        """The object an owner reference points at, whatever its kind; None unless the uid agrees."""
        ...


class Controller(Protocol):
    """Keeps objects of one kind as their specs want them."""

    @property
    def name(self) -> str:
        """As events and logs call it."""
        ...

    @property
    def watches(self) -> Sequence[str]:
        """The kinds whose changes may concern it; ``*`` is every kind, custom ones included."""
        ...

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """Which keys a change may concern (`old` None: created; `new` None: deleted)."""
        ...

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """What must be written, in order. Nothing to change means no write."""
        ...
