"""``PlacementPolicy``: an ordered list of tiers of nodes with min and max, for groups of pods.

The same object comes from the cluster and from a file. Misspelt fields are errors, and every error
names the field: a policy that silently does something else is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from fairlead.errors import BadInput, BadObject
from fairlead.kube.decode import call_it, convert
from fairlead.kube.duration import Duration, seconds
from fairlead.kube.meta import Condition, ObjectMeta
from fairlead.kube.tolerations import Toleration
from fairlead.policy.names import API_VERSION, POLICIES

Amount = int | str
"""A number of pods, a percentage of them (``30%``), or ``pdb``: what the workload's budget demands."""

_PERCENT = re.compile(r"(\d{1,3})%")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A part of a policy."""


class Match(_Part, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Which pods: all that is said must hold; what is not said matches all. `labels` are the pods'."""

    namespaces: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    kinds: tuple[str, ...] = ()


class ByLabel(_Part, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Pods with the same value of a label are one group; so are, together, those that lack it."""

    label: str


class Tier(_Part, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Nodes by label or by name. With neither, it is every node that no other tier claims."""

    name: str
    nodes: dict[str, str] = {}
    names: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    min: Amount = 0
    max: Amount | None = None
    volatile: bool = False
    """Whether its nodes can all be taken away at once (spot)."""
    spread: tuple[str, ...] = ()
    """Topology keys over which its pods are spread."""
    exclusive: bool = False
    fallback: bool = False
    """Whether even its min may be passed on to other tiers."""

    @property
    def rest(self) -> bool:
        """Whether it is the nodes that no other tier claims."""
        return not self.nodes and not self.names


class SingleReplica(_Part, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Where a workload of one replica goes; without `otherwise` (``else``) nowhere but there."""

    tier: str
    otherwise: str = msgspec.field(name="else", default="")


class Fallback(_Part, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """When a tier that cannot take its pods passes them on, and for how long it is left alone."""

    after: Duration = "2m"
    cool_down: Duration = "1m"

    @property
    def after_s(self) -> float:
        """Seconds a pod must be Unschedulable."""
        return seconds(self.after)

    @property
    def cool_down_s(self) -> float:
        """Seconds of the first cool-down; each further one doubles."""
        return seconds(self.cool_down)


class Rebalance(_Part, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """How fast pods are brought back. `perMinute` counts per group; Job pods move only by opt-in."""

    min_pod_age: Duration = "5m"
    per_minute: int = 2
    stabilize: Duration = "5m"
    jobs: bool = False
    probe: Literal["whenScalable", "always", "never"] = "whenScalable"
    """Whether a pod is moved to a tier without nodes, so that an autoscaler brings one."""

    @property
    def min_pod_age_s(self) -> float:
        """Seconds a pod is left where it is after it was created."""
        return seconds(self.min_pod_age)

    @property
    def stabilize_s(self) -> float:
        """Seconds without moves after the desired number changed."""
        return seconds(self.stabilize)


class PolicySpec(_Part, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """What is asked for."""

    tiers: tuple[Tier, ...]
    match: Match = Match()
    group_by: Literal["workload", "policy"] | ByLabel = "workload"
    single_replica: str | SingleReplica | None = None
    enforce: Literal["required", "preferred"] = "required"
    fallback: Fallback = Fallback()
    rebalance: Rebalance = Rebalance()

    @property
    def single(self) -> SingleReplica | None:
        """Where a single replica goes, however it was spelt."""
        if isinstance(self.single_replica, str):
            return SingleReplica(self.single_replica)
        return self.single_replica

    def tier(self, name: str) -> Tier | None:
        """The tier of that name."""
        return next((tier for tier in self.tiers if tier.name == name), None)


class PlacementPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """A policy; cluster-scoped. Its status is written and read by `fairlead.policy.report.status`."""

    metadata: ObjectMeta
    spec: PolicySpec
    conditions: tuple[Condition, ...] = ()

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name


def read_policy(data: object) -> PlacementPolicy:
    """A policy from plain data, checked.

    >>> read_policy({"apiVersion": "fairlead.dev/v1alpha1", "kind": "PlacementPolicy",
    ...     "metadata": {"name": "web"}, "spec": {"tiers": [{"name": "all"}]}}).spec.tiers[0].rest
    True
    """
    called = call_it(data, POLICIES.kind)
    if isinstance(data, dict):
        for field, wanted in (("apiVersion", API_VERSION), ("kind", POLICIES.kind)):
            if data.get(field) != wanted:
                raise BadObject(called, field, f"{data.get(field)!r} is not {wanted!r}")
    policy = convert(data, PlacementPolicy)
    if not policy.name:
        raise BadObject(called, "metadata.name", "is missing")
    _check(policy.spec, called)
    return policy


def read_policies(data: Iterable[object]) -> tuple[PlacementPolicy, ...]:
    """Policies of one source, in the order of their names; two of one name are an error."""
    found: dict[str, PlacementPolicy] = {}
    for each in data:
        policy = read_policy(each)
        if policy.name in found:
            raise BadInput(f"PlacementPolicy {policy.name}: there are two of that name")
        found[policy.name] = policy
    return tuple(found[name] for name in sorted(found))


def _check(spec: PolicySpec, called: str) -> None:
    def refuse(field: str, problem: str) -> BadObject:
        return BadObject(called, f"spec.{field}", problem)

    if not spec.tiers:
        raise refuse("tiers", "at least one is needed")
    names: list[str] = []
    for index, tier in enumerate(spec.tiers):
        where = f"tiers[{index}]"
        if _NAME.fullmatch(tier.name) is None:
            raise refuse(f"{where}.name", f"{tier.name!r} is not a name of lower case letters, digits and -")
        if tier.name in names:
            raise refuse(f"{where}.name", f"there are two tiers of the name {tier.name!r}")
        names.append(tier.name)
        _check_amount(tier.min, refuse, f"{where}.min", pdb=True)
        if tier.max is not None:
            _check_amount(tier.max, refuse, f"{where}.max", pdb=False)
        for number, toleration in enumerate(tier.tolerations):
            for field, said, choices in (
                ("operator", toleration.operator, ("", "Exists", "Equal")),
                ("effect", toleration.effect, ("", "NoSchedule", "PreferNoSchedule", "NoExecute")),
            ):
                if said not in choices:
                    wanted = ", ".join(choice for choice in choices if choice)
                    raise refuse(f"{where}.tolerations[{number}].{field}", f"{said!r} is none of {wanted}")
        if isinstance(tier.min, int) and isinstance(tier.max, int) and tier.min > tier.max:
            raise refuse(f"{where}.min", f"{tier.min} is more than max, {tier.max}")
        if tier.min == "pdb" and tier.volatile:
            raise refuse(f"{where}.min", "pdb keeps pods off volatile tiers, so it cannot be one's min")
    if sum(tier.rest for tier in spec.tiers) > 1:
        raise refuse("tiers", "only one tier may leave out nodes and names: it is all other nodes")
    if sum(tier.min == "pdb" for tier in spec.tiers) > 1:
        raise refuse("tiers", "only one tier may have min: pdb")
    if (single := spec.single) is not None:
        for field, name in (("tier", single.tier), ("else", single.otherwise)):
            if name not in names and (name or field == "tier"):
                raise refuse("singleReplica", f"there is no tier {name!r}")
    for field, duration in (
        ("fallback.after", spec.fallback.after),
        ("fallback.coolDown", spec.fallback.cool_down),
        ("rebalance.minPodAge", spec.rebalance.min_pod_age),
        ("rebalance.stabilize", spec.rebalance.stabilize),
    ):
        try:
            seconds(duration)
        except ValueError as error:
            raise refuse(field, str(error)) from None
    if spec.rebalance.per_minute < 0:
        raise refuse("rebalance.perMinute", "must not be negative")
    if isinstance(spec.group_by, ByLabel) and not spec.group_by.label:
        raise refuse("groupBy.label", "is empty")


def _check_amount(amount: Amount, refuse: Callable[[str, str], BadObject], where: str, *, pdb: bool) -> None:
    if isinstance(amount, int):
        if not 0 <= amount <= 2**31 - 1:
            raise refuse(where, f"{amount} is not between 0 and {2**31 - 1}")
        return
    if pdb and amount == "pdb":
        return
    found = _PERCENT.fullmatch(amount)
    if found is None or int(found[1]) > 100:
        wanted = "a number, a percentage up to 100%" + (" or pdb" if pdb else "")
        raise refuse(where, f"{amount!r} is not {wanted}")
