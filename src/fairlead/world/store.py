"""Objects, one increasing resourceVersion, and the history that watches are fed from.

Objects are plain dicts as JSON gives them and are *never changed in place*: readers get the stored
dict itself, without a copy, and writers hand in a new one. The history keeps each change with the
object before and after, so the state at an earlier version is today's with later changes undone;
that is how a paged list stays consistent. History is bounded: what fell out answers 410.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from fairlead.errors import ApiError
from fairlead.kube.decode import convert
from fairlead.world.schema.resources import PODS, Resource

Object = dict[str, Any]
"""A Kubernetes object as JSON gives it. Read-only once stored."""

Objects = list[Object]

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One committed write. A deletion's `object` is the last state with the deletion's version."""

    type: ChangeType
    resource: Resource
    object: Object
    old: Object | None
    rv: int
    encoded: dict[Hashable, bytes] = field(default_factory=dict, repr=False)
    """Frames already encoded for watchers, by representation: each change is encoded once for all."""

    @property
    def key(self) -> str:
        """Where the object is kept: ``namespace/name``, or the name."""
        return key_of(self.object)


T = TypeVar("T")
Changes = list[Change]
Owned = list[tuple[Resource, Object]]
Resources = list[Resource]


def key_of(item: Object) -> str:
    """The storage key of an object; keys sort as etcd's do."""
    metadata = item["metadata"]
    namespace = metadata.get("namespace")
    name: str = metadata["name"]
    return f"{namespace}/{name}" if namespace else name


def gone(rv: int, oldest: int) -> ApiError:
    """The answer to a version that was compacted away."""
    return ApiError.of(410, "Expired", f"too old resource version: {rv} ({oldest})")


_ENCODED = 1000  # latest changes that keep their encoded frames; a watcher further behind encodes again


class _Shelf:
    """One resource's objects in key order, and its part of the history."""

    __slots__ = ("by_key", "changes", "compacted", "keys", "versions")

    def __init__(self) -> None:
        self.by_key: dict[str, Object] = {}
        self.keys: list[str] = []
        self.changes: list[Change] = []
        self.versions: list[int] = []  # of changes, for bisection
        self.compacted = 0  # watches from before this version have missed something


class Store:
    """All objects of the cluster. Sync, no I/O; invariant: versions strictly increase with each write.

    `history` bounds the changes kept per resource. Subscribers are called synchronously, in order,
    after each commit and must not write from within the call (queue the work instead).
    """

    def __init__(self, history: int = 20_000) -> None:
        self._shelves: dict[Resource, _Shelf] = {}
        self._history = history
        self._rv = 1
        self._compacted = 0
        self._subscribers: list[Callable[[Change], None]] = []
        self._by_owner: dict[str, dict[tuple[Resource, str], Object]] = {}
        self._by_node: dict[str, dict[str, Object]] = {}
        self._typed: dict[str, tuple[Object, Any]] = {}

    def fork(self) -> Store:
        """Another store with the same objects and versions, but no history and no subscribers.

        Costs no copy of any object: objects are shared, and never changed in place by either.
        """
        other = Store(self._history)
        other._rv = other._compacted = self._rv
        for resource, shelf in self._shelves.items():
            copied = other._shelves[resource] = _Shelf()
            copied.by_key, copied.keys = shelf.by_key.copy(), shelf.keys.copy()
        other._by_owner = {uid: held.copy() for uid, held in self._by_owner.items()}
        other._by_node = {node: held.copy() for node, held in self._by_node.items()}
        other._typed = self._typed.copy()
        return other

    @property
    def rv(self) -> int:
        """The version of the latest write."""
        return self._rv

    # Reading

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """The object, or None. `namespace` is empty for cluster-scoped resources."""
        shelf = self._shelves.get(resource)
        if shelf is None:
            return None
        return shelf.by_key.get(f"{namespace}/{name}" if namespace else name)

    def list(self, resource: Resource, namespace: str = "") -> Objects:
        """The objects in key order; of one namespace, or of all."""
        shelf = self._shelves.get(resource)
        if shelf is None:
            return []
        by_key, keys = shelf.by_key, shelf.keys
        if namespace:  # keys are sorted, so a namespace is one run of them; "0" is what follows "/"
            keys = keys[bisect_left(keys, f"{namespace}/") : bisect_left(keys, f"{namespace}0")]
        return [by_key[key] for key in keys]

    def has_any(self, resource: Resource, namespace: str) -> bool:
        """Whether a namespace has objects of a kind; that costs the same however many they are."""
        shelf = self._shelves.get(resource)
        if shelf is None:
            return False
        first = bisect_left(shelf.keys, f"{namespace}/")
        return first < len(shelf.keys) and shelf.keys[first].startswith(f"{namespace}/")

    def count(self, resource: Resource) -> int:
        """How many objects of a resource there are."""
        shelf = self._shelves.get(resource)
        return len(shelf.by_key) if shelf else 0

    def resources(self) -> Resources:
        """The resources that hold at least one object, in a fixed order."""
        return sorted(resource for resource, shelf in self._shelves.items() if shelf.by_key)

    def owned_by(self, uid: str) -> Owned:
        """What names `uid` among its owners, in a fixed order."""
        held = self._by_owner.get(uid, {})
        return [(key[0], held[key]) for key in sorted(held)]

    def pods_on(self, node: str) -> Objects:
        """Pods with that ``spec.nodeName``, in key order."""
        held = self._by_node.get(node, {})
        return [held[key] for key in sorted(held)]

    def typed(self, item: Object, kind: type[T]) -> T:
        """A stored object as typed data, converted once for all its readers; BadObject where it cannot be."""
        uid = item["metadata"]["uid"]
        held = self._typed.get(uid)
        if held is None or held[0] is not item or type(held[1]) is not kind:
            held = self._typed[uid] = item, convert(item, kind)
        made: T = held[1]
        return made

    def at(self, resource: Resource, rv: int, namespace: str = "") -> Objects:
        """The list as it was at version `rv`; 410 when the history no longer reaches back."""
        later = self.changes(resource, rv)
        if not later:
            return self.list(resource, namespace)
        prefix = f"{namespace}/" if namespace else ""
        state = {key_of(item): item for item in self.list(resource, namespace)}
        for change in reversed(later):
            key = change.key
            if not key.startswith(prefix):
                continue
            if change.old is None:
                state.pop(key, None)
            else:
                state[key] = change.old
        return [state[key] for key in sorted(state)]

    def changes(self, resource: Resource, since: int) -> Changes:
        """The changes after version `since`, oldest first; 410 when some were compacted away."""
        shelf = self._shelves.get(resource)
        compacted = max(self._compacted, shelf.compacted if shelf else 0)
        if since < compacted:
            raise gone(since, compacted)
        if shelf is None:
            return []
        return shelf.changes[bisect_right(shelf.versions, since) :]

    # Writing

    def put(self, resource: Resource, item: Object) -> Object:
        """Store a new or replaced object under the next version; returns what is now stored.

        The store takes over `item`: the caller must not change it afterwards.
        """
        self._rv += 1
        item["metadata"]["resourceVersion"] = str(self._rv)
        key = key_of(item)
        shelf = self._shelves.get(resource)
        if shelf is None:
            shelf = self._shelves[resource] = _Shelf()
        old = shelf.by_key.get(key)
        shelf.by_key[key] = item
        if old is None:
            insort(shelf.keys, key)
        self._index(resource, key, old, item)
        self._commit(shelf, Change("ADDED" if old is None else "MODIFIED", resource, item, old, self._rv))
        return item

    def remove(self, resource: Resource, namespace: str, name: str) -> Object:
        """Take an object away; returns its last state, under the version of the deletion."""
        shelf = self._shelves[resource]
        key = f"{namespace}/{name}" if namespace else name
        old = shelf.by_key.pop(key)
        del shelf.keys[bisect_left(shelf.keys, key)]
        self._index(resource, key, old, None)
        self._typed.pop(old["metadata"].get("uid", ""), None)
        self._rv += 1
        last = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self._rv)}}
        self._commit(shelf, Change("DELETED", resource, last, old, self._rv))
        return last

    def compact(self, rv: int | None = None) -> None:
        """Forget the history up to `rv` (default: all of it), as etcd's compaction does."""
        rv = self._rv if rv is None else rv
        self._compacted = max(self._compacted, rv)
        for shelf in self._shelves.values():
            cut = bisect_right(shelf.versions, rv)
            del shelf.changes[:cut], shelf.versions[:cut]

    # Following

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call `listener` after each commit; the answer ends the subscription."""
        self._subscribers.append(listener)

        def stop() -> None:
            if listener in self._subscribers:
                self._subscribers.remove(listener)

        return stop

    def _commit(self, shelf: _Shelf, change: Change) -> None:
        shelf.changes.append(change)
        shelf.versions.append(change.rv)
        if len(shelf.changes) > _ENCODED:
            shelf.changes[-_ENCODED - 1].encoded.clear()
        if len(shelf.changes) > 2 * self._history:  # in halves, so that trimming costs nothing per write
            cut = len(shelf.changes) - self._history
            shelf.compacted = shelf.versions[cut - 1]
            del shelf.changes[:cut], shelf.versions[:cut]
        for listener in tuple(self._subscribers):
            listener(change)

    def _index(self, resource: Resource, key: str, old: Object | None, new: Object | None) -> None:
        before, after = _owners(old), _owners(new)
        for uid in before:
            if uid not in after:
                held = self._by_owner[uid]
                del held[(resource, key)]
                if not held:
                    del self._by_owner[uid]
        for uid in after:
            assert new is not None
            self._by_owner.setdefault(uid, {})[(resource, key)] = new
        if resource == PODS:
            was, now = _node_of(old), _node_of(new)
            if was and was != now:
                del self._by_node[was][key]
                if not self._by_node[was]:
                    del self._by_node[was]
            if now:
                assert new is not None
                self._by_node.setdefault(now, {})[key] = new


def _owners(item: Object | None) -> Iterable[str]:
    if item is None:
        return ()
    references = item["metadata"].get("ownerReferences")
    return [owner["uid"] for owner in references] if references else ()


def _node_of(item: Object | None) -> str:
    node: str = item.get("spec", {}).get("nodeName", "") if item else ""
    return node
