"""A cluster as it was read: every object as plain data, when that was, and which components act on it.

Which of our components run is told by what they leave in the API: the webhook by its registration, the others
by the leases that they hold. An extender leaves nothing: kube-scheduler's own configuration names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from fairlead.engine.ask.objects import opened
from fairlead.engine.planning.settings import Settings
from fairlead.errors import BadInput, BadObject
from fairlead.kube.decode import call_it
from fairlead.nodegroups import NodeGroup
from fairlead.policy.names import LEDGERS, POLICIES
from fairlead.policy.rule.model import PlacementPolicy, read_policies
from fairlead.policy.slots.ledger import Ledger
from fairlead.policy.tiers.marks import Marks
from fairlead.world.objects import parse_time

Obj = dict[str, Any]

SCHEDULER, WEBHOOK, REBALANCER, EXTENDER = "scheduler", "webhook", "rebalancer", "extender"
COMPONENTS = (SCHEDULER, WEBHOOK, REBALANCER, EXTENDER)
"""Our components that a copy can have."""

_WEBHOOK_NAME = "fairlead"
_LEASES = {"fairlead-scheduler": SCHEDULER, "fairlead-rebalancer": REBALANCER}
_GRACE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Contents:
    """See the module. `groups` are what an autoscaler may bring; without any there is no autoscaler."""

    objects: tuple[Obj, ...]
    at: datetime
    settings: Settings = field(default_factory=Settings)
    components: frozenset[str] = frozenset()
    groups: tuple[NodeGroup, ...] = ()

    def of_kind(self, kind: str) -> list[Obj]:
        """The objects of a kind."""
        return [one for one in self.objects if one.get("kind") == kind]

    def policies(self) -> tuple[PlacementPolicy, ...]:
        """The placement policies among the objects."""
        return tuple(read_policies(self.of_kind(POLICIES.kind)))

    def marks(self) -> dict[str, Marks]:
        """By policy, the tiers that it leaves alone for now."""
        found = {}
        status = {one["metadata"]["name"]: one.get("status") or {} for one in self.of_kind(POLICIES.kind)}
        for policy in self.policies():
            if marks := status[policy.name].get("marks"):
                known = Marks.from_plain(marks, policy.spec.fallback.cool_down_s)
                found[policy.name] = known.only(tier.name for tier in policy.spec.tiers)
        return found

    def ledgers(self) -> tuple[Ledger, ...]:
        """Which pod of a group has which slot."""
        return tuple(map(Ledger.from_object, self.of_kind(LEDGERS.kind)))

    def with_policies(self, given: Iterable[Obj]) -> Contents:
        """The same with these policies, each in the place of one of its name, whose status stays."""
        old = {one["metadata"]["name"]: one.get("status") for one in self.of_kind(POLICIES.kind)}
        new = {name: {"status": old.get(name), **one} for one in given if (name := one["metadata"]["name"])}
        kept = [
            one
            for one in self.objects
            if one.get("kind") != POLICIES.kind or one["metadata"]["name"] not in new
        ]
        return replace(self, objects=(*kept, *new.values()))


def share_parts(objects: Iterable[Obj]) -> None:
    """Make parts of pods' specs that are equal one and the same, in place, in objects that were just read.

    A thousand pods of one workload hold their environment and their resources once, not a thousand times.
    """
    known: dict[bytes, Any] = {}

    def shared(value: Any) -> Any:
        return known.setdefault(encode(value), value) if isinstance(value, dict | list) else value

    encode = msgspec.json.Encoder().encode
    for one in objects:
        spec = one.get("spec") if one.get("kind") == "Pod" else None
        if not isinstance(spec, dict):
            continue
        for name, value in spec.items():
            # Names of tokens' volumes differ from pod to pod, so that containers differ as wholes.
            for part in value if isinstance(value, list) else ():
                if isinstance(part, dict):
                    part |= {key: shared(held) for key, held in part.items()}
            spec[name] = shared(value)


def manifests(documents: Iterable[Any]) -> list[Obj]:
    """The objects of documents, lists opened; BadObject for one without a name, which no cluster has."""
    found = list(opened(documents))
    for one in found:
        metadata = one.get("metadata")
        if (
            not isinstance(metadata, Mapping)
            or not isinstance(metadata.get("name"), str)
            or not metadata["name"]
        ):
            raise BadObject(call_it(one), "metadata.name", "is missing")
    return found


def check_components(names: Iterable[str]) -> frozenset[str]:
    """The names of components, or what is wrong with one."""
    found = frozenset(names)
    for name in sorted(found.difference(COMPONENTS)):
        raise BadInput(f"there is no component {name!r}; there are {', '.join(COMPONENTS)}")
    return found


def components_seen(objects: Iterable[Mapping[str, Any]], at: datetime, settings: Settings) -> frozenset[str]:
    """Our components that the objects tell of."""
    found: dict[str, None] = {}
    for one in objects:
        match one.get("kind"):
            case "MutatingWebhookConfiguration":
                if one["metadata"].get("name") == _WEBHOOK_NAME and one.get("webhooks"):
                    found[WEBHOOK] = None
            case "Lease":
                component = _LEASES.get(one["metadata"].get("name", ""))
                if component is not None and _is_held(one.get("spec") or {}, at):
                    found[component] = None
            case "Pod":
                # A pod that names our scheduler is created where it runs, or is about to.
                if (one.get("spec") or {}).get("schedulerName") in settings.scheduler_names:
                    found[SCHEDULER] = None
    return frozenset(found)


def _is_held(spec: Mapping[str, Any], at: datetime) -> bool:
    renewed, holder = spec.get("renewTime"), spec.get("holderIdentity")
    if not holder or not renewed:
        return False
    return parse_time(renewed) + timedelta(seconds=spec.get("leaseDurationSeconds") or 0) + _GRACE >= at
