"""What a watch has shown so far: frames in, events out. No I/O.

Built to stay right when frames come twice, late, or not at all: per object the resourceVersion
decides (Kubernetes makes them comparable integers; others are taken as they come), a listing ends
with a diff that finds missed deletions, and what cannot be judged ends in `Distrust`: list again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, cast

import msgspec

from fairlead.client.lines import TooLong
from fairlead.client.wire import status_error, version_number
from fairlead.errors import BadObject, FairleadError
from fairlead.kube.decode import call_it
from fairlead.kube.meta import ObjectMeta


class HasMeta(Protocol):
    """Any of our structs for a whole object."""

    @property
    def metadata(self) -> ObjectMeta:
        """Its metadata."""


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", bound=HasMeta)
    K = TypeVar("K", default=Any)  # what is kept of an object
else:
    from typing import TypeVar

    T = TypeVar("T", bound=HasMeta)
    K = TypeVar("K")


class Added(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object that was not there before."""

    key: str
    object: T


class Modified(msgspec.Struct, Generic[T, K], frozen=True, gc=False):
    """A known object in a newer state; `old` is what was kept of the one before."""

    key: str
    object: T
    old: K


class Deleted(msgspec.Struct, Generic[T, K], frozen=True, gc=False):
    """A known object is gone.

    `last` is what was kept of it. `final` is its state when it went, None when the deletion itself was
    missed: then anything may have happened to it in between.
    """

    key: str
    uid: str
    last: K | None
    final: T | None = None


class Synced(msgspec.Struct, frozen=True, gc=False):
    """A listing is complete: everything that existed at `resource_version` has been delivered."""

    resource_version: str


class Spoiled(msgspec.Struct, Generic[K], frozen=True, gc=False):
    """An object exists that we cannot read. `last` is what was kept of it, now stale; None if never read.

    Not a deletion: whatever it holds in the cluster, it still holds. `body` is what came, or its start.
    """

    key: str
    last: K | None
    error: BadObject
    body: bytes = b""


Event = Added[T] | Modified[T, K] | Deleted[T, K] | Synced | Spoiled[K]


class Distrust(FairleadError):  # noqa: N818 (reads as what happened)
    """The stream showed something that cannot be right; only a new listing can tell what is."""


class _Entry(msgspec.Struct, Generic[K], gc=False):
    uid: str
    version: int  # 0: not comparable
    value: K | None
    readable: bool = True  # at least once: there is a last known state
    error: BadObject | None = None


class View(Generic[T, K]):
    """The objects of one watch.

    Invariant: what was emitted, applied in order, gives exactly `items()`; and `resume` is a point up
    to which every frame of a faithful stream has been taken in (None: list first).
    """

    def __init__(
        self,
        kind: str,
        decode: Callable[[bytes], T],
        keep: Callable[[T], K],
        on_bad: Callable[[BadObject], None],
    ) -> None:
        self.resume: str | None = None
        self._kind = kind
        self._decode = decode
        self._keep = keep
        self._on_bad = on_bad
        self._known: dict[str, _Entry[K]] = {}
        self._newest = 0  # the highest version that this stream has shown
        # While listing: the versions seen, gone objects included; whatever is not in it was deleted.
        self._listed: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def get(self, key: str) -> K | None:
        """What is kept of an object; None when unknown or never readable."""
        entry = self._known.get(key)
        return entry.value if entry is not None else None

    def items(self) -> Iterator[tuple[str, K]]:
        """All readable objects; spoiled ones in their last readable state."""
        return ((key, cast(K, entry.value)) for key, entry in self._known.items() if entry.readable)

    def spoiled(self) -> dict[str, BadObject]:
        """The objects whose current state we cannot read, and why."""
        return {key: entry.error for key, entry in self._known.items() if entry.error is not None}

    def version(self, key: str) -> int | None:
        """The version known of an object; None when unknown, 0 when not comparable."""
        entry = self._known.get(key)
        return entry.version if entry is not None else None

    def versions(self) -> dict[str, int]:
        """The versions of all that is known, spoiled or not."""
        return {key: entry.version for key, entry in self._known.items()}

    def begin(self) -> None:
        """A listing begins: every object will be delivered, and then `end`."""
        self.resume = None
        self._newest = 0
        self._listed = {}

    def end(self, resource_version: str, batch: list[Event[T, K]]) -> None:
        """The listing is complete as of `resource_version`; what it did not show is gone."""
        listed = self._listed or {}
        self._listed = None
        for key in [key for key in self._known if key not in listed]:
            entry = self._known.pop(key)
            batch.append(Deleted(key, entry.uid, entry.value))
        self._reach(resource_version)
        batch.append(Synced(resource_version))

    def frame(self, line: bytes | TooLong, batch: list[Event[T, K]]) -> None:
        """Take in one line of a watch. Raises the ApiError of an ERROR frame, or Distrust.

        Whatever it raises, the events put in `batch` before have happened.
        """
        if isinstance(line, TooLong):
            if line.start.startswith(b'{"type":"DELETED"'):
                self._drop(line.start, batch)
                return
            self._spoil(line.start, BadObject(self._kind, "", f"{line.size} bytes are too long"), batch)
            return
        kind, body = _split(line)
        if kind in ("ADDED", "MODIFIED"):
            self.take(body, batch)
        elif kind == "DELETED":
            self._drop(body, batch)
        elif kind == "BOOKMARK":
            self._bookmark(body, batch)
        elif kind == "ERROR":
            raise status_error(body, 500)
        else:
            raise Distrust(f"a watch of {self._kind} showed a frame of unknown type {kind!r}")

    def take(self, body: bytes, batch: list[Event[T, K]]) -> None:
        """Take in an object as a listing or a frame shows it."""
        try:
            obj = self._decode(body)
            meta = obj.metadata
            if not meta.name:
                raise BadObject(call_it(None, self._kind), "metadata.name", "missing")
        except (BadObject, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._spoil(body, error, batch)
            return
        key = meta.key
        version = version_number(meta.resource_version)
        known = self._known.get(key)
        if not self._is_news(key, version, known):
            return
        value = self._keep(obj)
        if known is None:
            self._known[key] = _Entry(meta.uid, version, value)
            batch.append(Added(key, obj))
        elif known.uid != meta.uid:
            self._known[key] = _Entry(meta.uid, version, value)
            batch.append(Deleted(key, known.uid, known.value))
            batch.append(Added(key, obj))
        else:
            batch.append(Modified(key, obj, cast(K, known.value)) if known.readable else Added(key, obj))
            known.value, known.version, known.readable, known.error = value, version, True, None
        self._reach(meta.resource_version)

    def mend(self, body: bytes, batch: list[Event[T, K]]) -> None:
        """Take in an object that was read apart from the stream; the point to resume from stays.

        While a listing runs nothing is done: it will show the object.
        """
        if self._listed is not None:
            return
        resume, newest = self.resume, self._newest
        self._newest = 0  # older than what the stream has shown is no reason for distrust here
        try:
            self.take(body, batch)
        finally:
            self.resume, self._newest = resume, newest

    def lose(self, key: str, version: int, batch: list[Event[T, K]]) -> None:
        """An object turned out to be gone; nothing is done when it has changed since `version`."""
        known = self._known.get(key)
        if self._listed is None and known is not None and known.version == version:
            del self._known[key]
            batch.append(Deleted(key, known.uid, known.value))

    def _is_news(self, key: str, version: int, known: _Entry[K] | None) -> bool:
        if self._listed is not None:
            if version and self._listed.get(key, 0) >= version:
                return False  # twice or late within one listing
            self._listed[key] = version
            # A listing is the truth even where it is older: the cluster may have been restored.
            return known is None or not version or known.version != version or known.error is not None
        if known is not None:
            return not version or version > known.version
        if version and version < self._newest:
            # Late, of an object that we do not know: never seen, or gone since? It cannot be known.
            raise Distrust(f"a watch of {self._kind} showed {key} at {version} after {self._newest}")
        return True

    def _drop(self, body: bytes, batch: list[Event[T, K]]) -> None:
        final: T | None
        try:
            final = self._decode(body)
            meta = final.metadata
        except (BadObject, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            final, meta = None, salvage(body)  # to know which one is gone is all that is needed
        if not meta.name:
            raise Distrust(f"a watch of {self._kind} showed the deletion of an object without a name")
        key, version = meta.key, version_number(meta.resource_version)
        if self._listed is not None:
            if version and self._listed.get(key, 0) > version:
                return
            self._listed[key] = version
        self._reach(meta.resource_version)
        known = self._known.get(key)
        if known is None or (version and known.version > version):
            return  # delivered before, or the deletion of a former object of this name
        del self._known[key]
        batch.append(Deleted(key, known.uid, known.value, final if known.uid == meta.uid else None))

    def _bookmark(self, body: bytes, batch: list[Event[T, K]]) -> None:
        meta = salvage(body)
        self._reach(meta.resource_version)
        if self._listed is not None and meta.annotations.get("k8s.io/initial-events-end") == "true":
            self.end(meta.resource_version, batch)

    def _spoil(self, body: bytes, error: Exception, batch: list[Event[T, K]]) -> None:
        meta = salvage(body)
        if isinstance(error, BadObject):
            field, problem = error.field, error.problem
        else:
            field, problem = "", str(error) or type(error).__name__
        name = meta.key or "(no name)"
        bad = BadObject(f"{self._kind} {name}", field, problem)
        self._on_bad(bad)
        if not meta.name:
            return
        key, version = meta.key, version_number(meta.resource_version)
        known = self._known.get(key)
        if not self._is_news(key, version, known):
            return
        if known is not None and known.uid != meta.uid and meta.uid:
            batch.append(Deleted(key, known.uid, known.value))
            known = None
        if known is None:
            known = self._known[key] = _Entry(meta.uid, version, None, readable=False)
        known.version, known.error = version, bad
        batch.append(Spoiled(key, known.value, bad, body))
        self._reach(meta.resource_version)

    def _reach(self, resource_version: str) -> None:
        """The stream has come to this point; while a listing runs, there is none to resume from."""
        if self._listed is not None:
            return
        version = version_number(resource_version)
        if not version:
            self.resume = resource_version or self.resume
        elif version > self._newest:
            self._newest = version
            self.resume = resource_version


class _Frame(msgspec.Struct):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


_read_frame = msgspec.json.Decoder(_Frame).decode
# As Go's encoder spells a frame; looking for it saves reading the line twice.
_HEADS = tuple((kind, f'{{"type":"{kind}","object":'.encode()) for kind in ("MODIFIED", "ADDED", "DELETED"))


def _split(line: bytes) -> tuple[str, bytes]:
    """The type and the object of a frame."""
    for kind, head in _HEADS:
        if line.startswith(head) and line.endswith(b"}}"):
            return kind, line[len(head) : -1]
    try:
        frame = _read_frame(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Distrust(f"a watch showed a line that is no frame: {error}") from error
    return frame.type, bytes(frame.object)


class _Salvage(msgspec.Struct):
    metadata: Any = None


_read_salvage = msgspec.json.Decoder(_Salvage).decode
_FIELDS = {
    field: re.compile(rb'"%b"\s*:\s*"([^"\\]{1,512})"' % field.encode())
    for field in ("name", "namespace", "uid", "resourceVersion")
}


def salvage(body: bytes) -> ObjectMeta:
    """Whatever can be made out of an object's metadata, so that a bad object can be named.

    A truncated or unreadable body is searched for the fields as Kubernetes' encoder puts them: the
    object's own metadata comes before any other name.
    """
    try:
        metadata = _read_salvage(body).metadata
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        start = body.find(b'"metadata"')
        matches = {field: pattern.search(body, max(start, 0)) for field, pattern in _FIELDS.items()}
        metadata = {field: match[1].decode(errors="replace") for field, match in matches.items() if match}
    found = _texts(metadata)
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return ObjectMeta(
        name=found.get("name", ""),
        namespace=found.get("namespace", ""),
        uid=found.get("uid", ""),
        resource_version=found.get("resourceVersion", ""),
        annotations=_texts(annotations),
    )


def _texts(members: Any) -> dict[str, str]:
    if not isinstance(members, dict):
        return {}
    return {key: value for key, value in members.items() if isinstance(value, str)}
