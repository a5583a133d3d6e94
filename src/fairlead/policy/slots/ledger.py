"""The ledger of a group: which slot belongs to which pod. Transitions give a new ledger; time is passed in.

All transitions are functions of the ledger and of what is known, so a write that met a newer ledger is
simply applied again to that one. A slot's holder goes by a token, because a pod has no UID and often no
name at admission; an adopted pod's token is its UID.

The subtle thing is when a slot is free. At once when its pod is terminating, finished, or was seen *by
the caller* and is gone (`gone`): another door's word that it was seen is not enough, since our own watch
may be behind. A slot whose pod never showed up expires, counted from when the caller first saw it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import MAXYEAR, UTC, datetime
from typing import Any

from fairlead.kube.decode import convert
from fairlead.kube.meta import Object, ObjectMeta, OwnerReference
from fairlead.policy.groups.member import GroupKey, Member
from fairlead.policy.names import API_VERSION, LEDGERS
from fairlead.policy.rule.split import Tiers
from fairlead.policy.rule.workloads import Workload, name_of
from fairlead.policy.slots.table import SlotTable, assign, claim_of

EXPIRY_S = 60.0
"""How long a slot waits for its pod to show up: other webhooks come after us, of up to 30 s each."""

MOST_SLOTS = 10_000
"""Of how many pods a ledger has room for: an object has 1.5 MB at most, and a slot takes about 100 bytes."""

_NOWHERE = "-"  # no tier is called like that
_SLOT = re.compile(r"[1-9]\d{0,8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Entry:
    """One slot that is taken."""

    slot: int
    tier: str
    """Where its pod was sent or, once it has a node, where it is; empty: nowhere."""
    token: str
    since: float
    """When it was taken, by its writer's clock: for readers of the ledger."""
    pod: str = ""
    """The pod's name, for readers of the ledger, once a door saw it."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The slots of one group.

    Invariant: entries are in order of their slots; no slot and no token occurs twice.
    """

    key: GroupKey
    entries: tuple[Entry, ...] = ()
    owner: OwnerReference | None = None
    """The workload, for garbage collection; only under ``groupBy: workload``."""
    version: str = ""
    """The resourceVersion that a write must still find; empty: the object is to be created."""
    uid: str = ""
    ages: Mapping[str, float] = field(default_factory=dict, repr=False, compare=False)
    """How long ago the caller first saw each token, see `Sightings`; of others their `since` is believed."""
    _by_token: dict[str, Entry] | None = field(default=None, init=False, repr=False, compare=False)
    """Made when first asked for; `take`, which has just asked, hands it on with one more."""

    def counts(self, but: int | None = None) -> dict[str, int]:
        """How many slots each tier holds; `but` is a slot that does not count: it is about to be taken."""
        found: dict[str, int] = {}
        for entry in self.entries:
            if entry.slot != but:
                found[entry.tier] = found.get(entry.tier, 0) + 1
        return found

    def of_token(self, token: str) -> Entry | None:
        """The slot that goes by `token`."""
        return self._index().get(token)

    def again(self, token: str, now: float, after_s: float = EXPIRY_S) -> Entry | None:
        """The slot that an earlier call of the *same* admission took, found by the token on the pod.

        A token whose pod exists, or that is old, was copied with the rest of some pod: it counts for
        nothing, and the pod is given a token and a slot of its own.
        """
        entry = self.of_token(token) if token else None
        young = entry is not None and not entry.pod and self.age(entry, now) <= after_s
        return entry if young else None

    def age(self, entry: Entry, now: float) -> float:
        """For how long a slot has been taken."""
        return self.ages.get(entry.token, now - entry.since)

    @property
    def highest(self) -> int:
        """The highest slot that is taken; 0: none is."""
        return self.entries[-1].slot if self.entries else 0

    def free_slot(self) -> int:
        """The lowest free slot."""
        # Slots are distinct and in order, so they are 1, 2, 3, … up to the first gap and never again.
        dense = bisect_left(range(len(self.entries)), True, key=lambda at: self.entries[at].slot > at + 1)
        return dense + 1

    def take(
        self, token: str, now: float, tier: Callable[[int], str], ordinal: int | None = None
    ) -> tuple[Ledger, Entry]:
        """Take a slot: the ordinal's, or the lowest that is free. Taking again finds the same slot.

        `tier` names the tier that the pod of a slot is sent to. A StatefulSet's ordinal has its slot
        whichever pod held it before: there is never more than one pod of an ordinal.
        """
        index = self._index()
        if token in index:
            return self, index[token]
        if ordinal is not None:
            entry = Entry(ordinal + 1, tier(ordinal + 1), token, now)
            return self._put(entry), entry
        slot = self.free_slot()
        entry = Entry(slot, tier(slot), token, now)
        # Below the lowest free slot all are taken, so it is also the entry's position.
        taken = replace(self, entries=(*self.entries[: slot - 1], entry, *self.entries[slot - 1 :]))
        object.__setattr__(taken, "_by_token", {**index, token: entry})
        return taken, entry

    def seen(self, members: Iterable[Member]) -> Ledger:
        """Take note of pods: those on their way out free their slots, the others name them.

        Of several pods with one token, the one seen first has it: the others were copied.
        """
        holders = self._holders(members)
        entries = []
        for entry in self.entries:
            holder = holders.get(entry.token)
            if holder is None:
                entries.append(entry)
            elif not holder.leaving:
                tier = holder.tier if holder.placed or holder.tier else entry.tier
                same = entry.pod == holder.name and entry.tier == tier
                entries.append(entry if same else replace(entry, pod=holder.name, tier=tier))
        return self._with(entries)

    def gone(self, tokens: Collection[str]) -> Ledger:
        """Free the slots of pods that the caller saw, by slot token or UID, and that are no more."""
        return self._with(entry for entry in self.entries if entry.token not in tokens)

    def expire(
        self,
        members: Iterable[Member],
        now: float,
        after_s: float = EXPIRY_S,
        spare: Collection[str] = (),
    ) -> Ledger:
        """Free slots taken long ago that none of the group's pods holds: `members` are all of them.

        `spare` are tokens whose slots do not expire before their time, however short `after_s` is.
        """
        held = {name for member in members for name in (member.token, member.uid)}
        spared_s = max(after_s, EXPIRY_S)
        return self._with(
            entry
            for entry in self.entries
            if entry.token in held or self.age(entry, now) <= (spared_s if entry.token in spare else after_s)
        )

    def adopt(self, members: Collection[Member], tiers: Tiers, now: float) -> Ledger:
        """Give slots to pods that hold none: admitted while we were away, or older than the policy.

        See `SlotTable`. Where slot and node do not go together, the rebalancer sees it. Only an adopted pod
        changes its slot. Slots stay dense: none is beyond the number of pods that hold or are given one.
        """
        marked = {member.uid for token, member in self._holders(members).items() if token != member.uid}
        pods = {one.uid: one for one in _by_age(members) if not one.leaving and one.uid not in marked}
        if not pods:
            return self
        entries, table = self._index(), SlotTable(tiers)
        index = {tier.name: at for at, tier in enumerate(tiers.tiers)}
        for entry in self.entries:
            table.put(entry.token, entry.slot)
        size = len(entries) + sum(uid not in entries for uid in pods)
        new = []
        for uid, member in pods.items():
            if member.ordinal is not None:
                holder = entries.get(table.holder_of.get(member.ordinal + 1, ""))
                # Else it is that of the pod's successor, which our watch has yet to show.
                if holder is None or holder.token == uid or holder.since <= member.created:
                    table.put(uid, member.ordinal + 1)
            elif uid in entries:
                table.located(uid, index.get(member.tier))
            else:
                new.append((uid, index.get(member.tier)))
        table.settle(size, new)
        return self._with(
            _adopted(slot, pods.get(token), entries.get(token), tiers, now)
            for token, slot in table.slot_of.items()
        )

    @classmethod
    def of_marks(cls, key: GroupKey, members: Iterable[Member], tiers: Tiers, now: float) -> Ledger:
        """What pods' marks amount to where no ledger is stored: under our scheduler and the extender."""
        pods = {one.uid: one for one in members if not one.leaving}
        slots = assign((claim_of(one, tiers.tiers, placed=one.placed) for one in pods.values()), tiers)
        return cls(key)._with(_adopted(slot, pods[uid], None, tiers, now) for uid, slot in slots.items())

    def observe(
        self,
        members: Collection[Member],
        tiers: Tiers,
        now: float,
        *,
        gone: Collection[str] = (),
        after_s: float = EXPIRY_S,
        spare: Collection[str] = (),
    ) -> Ledger:
        """Everything that follows from what is known of a group's pods, all of them, at one moment."""
        ledger = self.seen(members).gone(gone) if gone else self.seen(members)
        return ledger.expire(members, now, after_s, spare).adopt(members, tiers, now)

    def owned_by(self, workload: Workload) -> Ledger:
        """The ledger for this workload: emptied where it was that of an earlier one of the same name.

        A ledger that several workloads may share, by label or policy, is owned by none and stays as it is.
        """
        known = self.owner
        if known is not None and (known.uid, known.api_version) == (workload.uid, workload.api_version):
            return self
        owner = owner_of(workload)
        if owner is None or self.key.name != name_of(workload):
            return self
        same = known is None or known.uid == owner.uid
        return replace(self, owner=owner, entries=self.entries if same else ())

    def same_slots(self, other: Ledger) -> bool:
        """Whether nothing differs that is worth a write: pods' names come along with the next one."""
        return self.owner == other.owner and [(one.slot, one.tier, one.token) for one in self.entries] == [
            (one.slot, one.tier, one.token) for one in other.entries
        ]

    def to_object(self) -> dict[str, Any]:
        """As the API has it."""
        metadata: dict[str, Any] = {"name": self.key.ledger_name, "namespace": self.key.namespace}
        if self.version:
            metadata["resourceVersion"] = self.version
        if self.uid:
            metadata["uid"] = self.uid
        if self.owner is not None:
            metadata["ownerReferences"] = [
                {
                    "apiVersion": self.owner.api_version,
                    "kind": self.owner.kind,
                    "name": self.owner.name,
                    "uid": self.owner.uid,
                }
            ]
        return {
            "apiVersion": API_VERSION,
            "kind": LEDGERS.kind,
            "metadata": metadata,
            "spec": {
                "policy": self.key.policy,
                "group": self.key.name,
                "revision": self.key.revision,
                "slots": [_written(entry) for entry in self.entries],
            },
        }

    @classmethod
    def from_object(cls, data: PlacementLedger | dict[str, Any]) -> Ledger:
        """From the API's object, typed or plain. Of entries with one slot or token, the first counts."""
        read = data if isinstance(data, PlacementLedger) else convert(data, PlacementLedger)
        metadata = read.metadata
        entries: dict[int, Entry] = {}
        tokens: set[str] = set()
        for line in read.spec.slots:
            one = _read(line)
            if one is not None and one.slot not in entries and one.token not in tokens:
                tokens.add(one.token)
                entries[one.slot] = one
        return cls(
            key=read.key,
            entries=tuple(entries[slot] for slot in sorted(entries)),
            owner=next(iter(metadata.owner_references), None),
            version=metadata.resource_version,
            uid=metadata.uid,
        )

    def _index(self) -> dict[str, Entry]:
        index = self._by_token
        if index is None:
            index = {entry.token: entry for entry in self.entries}
            object.__setattr__(self, "_by_token", index)
        return index

    def _with(self, entries: Iterable[Entry]) -> Ledger:
        found = tuple(sorted(entries, key=lambda entry: entry.slot))
        return self if found == self.entries else replace(self, entries=found)

    def _holders(self, members: Iterable[Member]) -> dict[str, Member]:
        """By token that the ledger knows, the pod that holds its slot."""
        found: dict[str, Member] = {}
        for member in _by_age(members):
            for token in (member.token, member.uid):
                entry = self.of_token(token)
                if entry is not None and (token not in found or member.name == entry.pod):
                    found[token] = member
        return found

    def _put(self, entry: Entry) -> Ledger:
        """The entry in its slot, in place of any that held the slot or went by the token before."""
        others = [one for one in self.entries if one.slot != entry.slot and one.token != entry.token]
        return self._with((*others, entry))


class Sightings:
    """When slots were first seen, by the reader's clock: their writers' clocks may be ahead of it.

    Invariant: it remembers exactly the tokens of the ledgers as they were last shown to it.
    """

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: dict[GroupKey, dict[str, float]] = {}

    def of(self, ledger: Ledger, now: float) -> Ledger:
        """The ledger, with the ages of its slots as seen from here."""
        known = self._first.pop(ledger.key, {})
        first = {entry.token: known.get(entry.token, now) for entry in ledger.entries}
        if first:
            self._first[ledger.key] = first
        return replace(ledger, ages={token: now - at for token, at in first.items()})

    def forget(self, key: GroupKey) -> None:
        """A ledger is no more."""
        self._first.pop(key, None)


class LedgerSpec(Object, frozen=True, gc=False):
    """A ledger's content as the API has it."""

    policy: str
    group: str
    revision: str = ""
    slots: tuple[Any, ...] = ()
    """A line for each slot, see `_written`. What is none is passed over: its pod is adopted."""


class PlacementLedger(Object, frozen=True, gc=False):
    """The object that reflectors decode; `Ledger.from_object` makes a ledger of it."""

    spec: LedgerSpec
    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> GroupKey:
        """The group whose ledger it is."""
        return GroupKey(self.spec.policy, self.metadata.namespace, self.spec.group, self.spec.revision)


def owner_of(workload: Workload) -> OwnerReference | None:
    """The reference by which a ledger goes when its workload does; None while its UID is not known."""
    if not workload.uid or workload.bare:
        return None
    return OwnerReference(workload.kind, workload.name, workload.uid, workload.api_version)


def _written(entry: Entry) -> str:
    """A slot as the API has it: its number, tier, token, time and, once seen, its pod, in one line.

    One line and not an object of five members, because an API server validates every member of every slot
    on every write: that is most of what giving out a slot costs.

    >>> _written(Entry(3, "spot", "5f3c9ab0", 1.5, "web-1"))
    '3 spot 5f3c9ab0 1970-01-01T00:00:01.500000Z web-1'
    """
    since = datetime.fromtimestamp(entry.since, UTC).isoformat(timespec="microseconds")[: -len("+00:00")]
    return f"{entry.slot} {entry.tier or _NOWHERE} {entry.token} {since}Z {entry.pod}".rstrip()


def _read(line: Any) -> Entry | None:
    """The slot in a line; None when it is not what `_written` writes."""
    match line.split(" ") if isinstance(line, str) else ():
        case [slot, tier, token, since, *pod] if len(pod) < 2 and _SLOT.fullmatch(slot) and tier and token:
            try:
                taken = datetime.fromisoformat(since)
            except ValueError:
                return None
            if taken.tzinfo != UTC or taken.year == MAXYEAR:
                return None  # it could not be written as it was read
            return Entry(int(slot), "" if tier == _NOWHERE else tier, token, taken.timestamp(), *pod)
    return None


def _by_age(members: Iterable[Member]) -> list[Member]:
    return sorted(members, key=lambda member: (member.created, member.name, member.uid))


def _adopted(slot: int, member: Member | None, held: Entry | None, tiers: Tiers, now: float) -> Entry:
    """The entry of a slot's holder: as it was, or of a pod that is given the slot."""
    if held is not None and (held.slot == slot or member is None):
        return held
    assert member is not None  # a holder without an entry is a pod
    tier = member.tier
    if not (tier or member.placed or member.slot == slot) and (own := tiers.of_slot(slot)) is not None:
        tier = tiers.tiers[own].name
    return Entry(slot, tier, member.uid, now if held is None else held.since, member.name)
