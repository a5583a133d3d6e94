"""Karpenter's NodePools, checked like groups: what each could bring, and whether it may.

A pod that names a label which a NodePool leaves open gets the value that it asks for, as with Karpenter;
everything else is tried on each type by the engine's rules. What hangs on types or labels that are not known
here is never certain, neither way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from fairlead.cloud.doctor.findings import Finding, Verdict
from fairlead.cloud.doctor.pods import Refused, Trial, asked_labels, pod_finding
from fairlead.cloud.karpenter import KWOK_CPUS, KWOK_GIB, KWOK_ZONES
from fairlead.cloud.shell import word
from fairlead.engine.snapshot.requests import requests_of
from fairlead.errors import BadObject
from fairlead.kube.decode import convert
from fairlead.kube.meta import Condition, Object, ObjectMeta
from fairlead.kube.node import Node, NodeSpec, NodeStatus
from fairlead.kube.pod import Pod, Quantities
from fairlead.kube.quantity import QuantityError, nano, value
from fairlead.kube.selectors import Requirement
from fairlead.kube.tolerations import Taint
from fairlead.nodegroups.catalog import FAMILIES, GPU, architecture, instance_type

_NO_TYPES = "NoCompatibleInstanceTypes"
_POOL_LABEL = "karpenter.sh/nodepool"
_NOT_KNOWN = "hangs on instance types or labels of them that are not known here"
_OS = "kubernetes.io/os"
# Left open by every NodePool that does not name them.
_PLACES = {"topology.kubernetes.io/zone", "topology.kubernetes.io/region"}
# What the smallest machine has at least: of types that are not known, more cannot be said.
_LEAST: Quantities = {"cpu": "1", "memory": "512Mi"}
# Resources that nodes have by their node class or by a plugin, not by their type.
_BESIDE_TYPES = ("ephemeral-storage", "vpc.amazonaws.com/")


class _ClassRef(Object, frozen=True, gc=False):
    name: str = ""
    kind: str = ""
    group: str = ""


class _NodeSpec(Object, frozen=True, gc=False):
    node_class_ref: _ClassRef = _ClassRef()
    requirements: tuple[Requirement, ...] = ()
    taints: tuple[Taint, ...] = ()


class _Labelled(Object, frozen=True, gc=False):
    labels: dict[str, str] = {}


class _Template(Object, frozen=True, gc=False):
    metadata: _Labelled = _Labelled()
    spec: _NodeSpec = _NodeSpec()


class _Spec(Object, frozen=True, gc=False):
    template: _Template = _Template()
    limits: Quantities = {}


class _Status(Object, frozen=True, gc=False):
    resources: Quantities = {}
    conditions: tuple[Condition, ...] = ()


class _Pool(Object, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        labels = self.spec.template.metadata.labels.items()
        return (
            *map(_plain, self.spec.template.spec.requirements),
            *(Requirement(key, "In", (value,)) for key, value in labels),
        )


@dataclass(frozen=True, slots=True)
class PoolsFound:
    """What is wrong with NodePools, and which pods they would help."""

    findings: tuple[Finding, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    pods: tuple[Verdict, ...] = ()


@dataclass(frozen=True, slots=True)
class _Offered:
    pool: _Pool
    offers: tuple[Offer, ...]

    def sure(self, offer: Offer, asked: Iterable[str] = ()) -> bool:
        """Whether a type certainly meets the requirements, and what a pod asks for by label."""
        keys = {*(each.key for each in self.pool.requirements), *asked}
        return offer.known and not any(offer.guesses(key) for key in keys)

    @property
    def certain(self) -> bool:
        bought = [each for each in self.pool.requirements if each.key == PURCHASE]
        usual = any(all(each.admits({PURCHASE: way}) for each in bought) for way in ("on-demand", "spot"))
        return usual and any(self.sure(offer) for offer in self.offers)


def check_pools(objects: Sequence[Mapping[str, Any]], waiting: Sequence[Pod], trial: Trial) -> PoolsFound:
    """Everything about a cluster's NodePools; nothing when it has none."""
    pools = [_offered(each) for each in objects if _is_pool(each)]
    if not pools:
        return PoolsFound()
    findings = [finding for each in pools for finding in _check(each, objects)]
    blocked = {each.group for each in findings}
    verdicts = []
    full: dict[str, Finding] = {}
    for pod in waiting:
        verdict, found, limited = _check_pod(pod, pools, blocked, trial)
        verdicts.append(verdict)
        findings += found
        full |= {each.group: each for each in limited}
    if not waiting:
        full = {each.pool.name: tight for each in pools if (tight := _full(each)) is not None}
    findings += full.values()
    shown = tuple(_verdict(each, findings) for each in pools)
    findings = [replace(each, group=f"NodePool {each.group}" if each.group else "") for each in findings]
    return PoolsFound(tuple(findings), shown, tuple(verdicts))


def _verdict(each: _Offered, findings: Sequence[Finding]) -> Verdict:
    mine = [one for one in findings if one.group == each.pool.name and not one.pod]
    called = f"NodePool {each.pool.name}"
    if mine:
        return Verdict(called, False, "", mine[-1].cause, any(one.certain for one in mine))
    return Verdict(called, True, "", "" if each.certain else _NOT_KNOWN, each.certain)


def _is_pool(thing: Mapping[str, Any]) -> bool:
    return thing.get("kind") == "NodePool" and str(thing.get("apiVersion", "")).startswith("karpenter.sh/")


def _offered(thing: Mapping[str, Any]) -> _Offered:
    pool = convert(dict(thing), _Pool)
    named = [
        value
        for each in pool.requirements
        if each.key == TYPE and each.operator == "In"
        for value in each.values
    ]
    linux = all(each.admits({_OS: "linux"}) for each in pool.requirements if each.key == _OS)
    provider = pool.spec.template.spec.node_class_ref.group
    every = offers_of(provider, named, others=not named or not linux)
    return _Offered(pool, tuple(each for each in every if _admits(pool.requirements, each)))


def _plain(requirement: Requirement) -> Requirement:
    """With Karpenter's own operators said by those of all others."""
    shift = {"Gte": -1, "Lte": 1}.get(requirement.operator)
    if shift is None or len(requirement.values) != 1 or not requirement.values[0].isdecimal():
        return requirement
    return Requirement(requirement.key, requirement.operator[:2], (str(int(requirement.values[0]) + shift),))


def _admits(requirements: Sequence[Requirement], offer: Offer) -> bool:
    return all(_satisfied(each, offer) for each in requirements)


def _satisfied(requirement: Requirement, offer: Offer) -> bool:
    key = requirement.key
    if key in offer.choices:
        return any(requirement.admits({key: value}) for value in offer.choices[key])
    if offer.tells(key):
        return requirement.admits(offer.labels)
    # As with Karpenter, what a type does not speak of cannot contradict the NodePool.
    return requirement.operator != "In" or bool(requirement.values)


def _check(each: _Offered, objects: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    pool = each.pool
    if problem := _class_problem(pool, objects):
        reference = pool.spec.template.spec.node_class_ref
        yield Finding(
            "node-class-not-ready",
            f"NodePool {pool.name}: {reference.kind} {reference.name} is not ready.",
            f"kubectl describe {word(reference.kind.lower())} {word(reference.name)}",
            group=pool.name,
            evidence=(problem,),
        )
    event = next((one for one in objects if _is_no_types(one, pool.name)), None)
    if not each.offers or event is not None:
        yield _without_types(each, str(event.get("message", "")) if event else "")


def _without_types(each: _Offered, event: str) -> Finding:
    pool = each.pool
    every = offers_of(pool.spec.template.spec.node_class_ref.group, ())
    alone = [one for one in pool.requirements if not any(_satisfied(one, offer) for offer in every)]
    guilty = alone or pool.spec.template.spec.requirements
    shown = "; ".join(f"{one.key} {one.operator} {list(one.values)}" for one in guilty)
    return Finding(
        "nodepool-without-types",
        f"NodePool {pool.name}: no instance type meets {'' if alone else 'all of '}{shown}.",
        f"kubectl edit nodepool {word(pool.name)}: widen spec.template.spec.requirements",
        group=pool.name,
        evidence=(f"event {_NO_TYPES}: {event}" if event else "none of the provider's types is left",),
        seen=bool(event),
    )


def _class_problem(pool: _Pool, objects: Sequence[Mapping[str, Any]]) -> str:
    for condition in pool.status.conditions:
        if condition.type == "NodeClassReady" and condition.status != "True":
            return (
                f"condition NodeClassReady={condition.status}: {condition.reason} {condition.message}".strip()
            )
    reference = pool.spec.template.spec.node_class_ref
    kin = [each for each in objects if reference.kind and each.get("kind") == reference.kind]
    own = next((each for each in kin if (each.get("metadata") or {}).get("name") == reference.name), None)
    if own is None:
        return f"there is no {reference.kind} {reference.name}" if kin else ""
    for condition in (own.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") != "True":
            return f"condition Ready={condition.get('status')}: {condition.get('message') or ''}".strip()
    return ""


def _is_no_types(event: Mapping[str, Any], pool: str) -> bool:
    if event.get("kind") != "Event" or event.get("reason") != _NO_TYPES:
        return False
    return (event.get("involvedObject") or event.get("regarding") or {}).get("name") == pool


def _full(each: _Offered) -> Finding | None:
    """When not even the smallest of its types is within its limits any more."""
    pool = each.pool
    known = [offer.capacity for offer in each.offers if offer.known]
    unknown = [_LEAST] * (len(known) < len(each.offers))
    tight: dict[str, str] = {}
    for capacity in known or unknown or [{}]:
        over = _over(pool, {**capacity, "nodes": "1"})
        if not over:
            return None
        tight |= over
    shown = ", ".join(f"{name}: {said}" for name, said in sorted(tight.items()))
    limits = ",".join(f'"{name}": MORE' for name in sorted(tight))
    return Finding(
        "nodepool-limit-reached",
        f"NodePool {pool.name} is at its limits: {shown}.",
        f'kubectl patch nodepool {pool.name} --type merge -p \'{{"spec": {{"limits": {{{limits}}}}}}}\'',
        group=pool.name,
        evidence=(f"status.resources {dict(sorted(pool.status.resources.items()))}",),
        certain=all(_over(pool, {**capacity, "nodes": "1"}) for capacity in unknown),
    )


def _over(pool: _Pool, more: Quantities) -> dict[str, str]:
    found = {}
    for name, limit in pool.spec.limits.items():
        try:
            used = nano(pool.status.resources.get(name, 0))
            if used + nano(more.get(name, 0)) > nano(limit):
                found[name] = f"{pool.status.resources.get(name, 0)} of {limit} in use"
        except QuantityError as error:
            raise BadObject(f"NodePool {pool.name}", f"spec.limits.{name}", str(error)) from error
    return found


def _check_pod(
    pod: Pod, pools: Sequence[_Offered], blocked: set[str], trial: Trial
) -> tuple[Verdict, list[Finding], list[Finding]]:
    key = pod.metadata.key
    if home := trial.at_home(pod):
        return Verdict(key, True, home, "fits on a node that is there"), [], []
    refusals: list[tuple[str, Node, Refused]] = []
    limited: list[Finding] = []
    willing: list[str] = []
    perhaps: list[Verdict] = []
    for each in pools:
        name = each.pool.name
        refused: tuple[Node, Refused] | None = None
        for node, sure in _nodes(each, pod):
            no = trial.refused(pod, node)
            if no is None:
                willing.append(name)
                full = _full(each)
                if full is not None:
                    limited.append(full)
                elif name not in blocked and sure:
                    return Verdict(key, True, f"NodePool {name}"), [], []
                elif name not in blocked:
                    perhaps.append(Verdict(key, True, f"NodePool {name}", _NOT_KNOWN, certain=False))
                break
            if refused is None or no.far >= refused[1].far:
                refused = node, no
        else:
            if refused is not None:
                refusals.append((name, *refused))
    if perhaps:
        return perhaps[0], [], []
    if willing:
        causes = ", ".join(f"NodePool {name}" for name in willing)
        return Verdict(key, False, causes, "see there"), [], limited
    if not refusals:
        return Verdict(key, False, "", "no NodePool has a type"), [], limited
    nearest, node, why = max(refusals, key=lambda one: one[2].far)
    said = "; ".join(f"NodePool {name}: {no.words}" for name, _, no in refusals)
    finding = pod_finding(pod, node, why, where=f"NodePool {nearest}")
    return Verdict(key, False, "", said), [replace(finding, evidence=(said,))], limited


def _nodes(each: _Offered, pod: Pod) -> list[tuple[Node, bool]]:
    """The nodes that a NodePool could bring for a pod, one for each type; whether it surely could."""
    asked = asked_labels(pod)
    open_keys = {one.key for one in each.pool.requirements} | _PLACES
    found = []
    for offer in each.offers:
        labels = {**offer.labels, _POOL_LABEL: each.pool.name}
        guessed = {key for key in asked if offer.guesses(key)}
        for key in sorted(open_keys | offer.choices.keys() | guessed):
            if key in offer.labels:
                continue
            mine = [one for one in each.pool.requirements if one.key == key]
            options = [
                *asked.get(key, ()),
                *(value for one in mine if one.operator == "In" for value in one.values),
            ]
            options += offer.choices.get(key, ())
            allowed = [
                option
                for option in options
                if all(one.admits({key: option}) for one in mine)
                and (key not in offer.choices or option in offer.choices[key])
            ]
            if allowed:
                labels[key] = allowed[0]
        labels["kubernetes.io/hostname"] = f"new-{each.pool.name}-{offer.name}"
        more = _guessed_resources(offer, pod)
        capacity = {**offer.capacity, **more}
        node = Node(
            metadata=ObjectMeta(name=labels["kubernetes.io/hostname"], labels=labels),
            spec=NodeSpec(taints=each.pool.spec.template.spec.taints),
            status=NodeStatus(allocatable=capacity, capacity=capacity),
        )
        sure = each.sure(offer, asked) and not more and labels.get(PURCHASE) != RESERVED
        found.append((node, sure))
    return sorted(found, key=lambda one: not one[1])


def _guessed_resources(offer: Offer, pod: Pod) -> Quantities:
    """As much as a pod asks for of what it is not known whether a type has it."""
    return {
        name: str(amount)
        for name, amount in requests_of(pod).amounts
        if name not in offer.capacity
        and (not offer.known or (offer.unsaid and name.startswith(_BESIDE_TYPES)))
    }


TYPE = "node.kubernetes.io/instance-type"
PURCHASE = "karpenter.sh/capacity-type"
# Only to be had where the account has reserved it, and the node class selects the reservation.
RESERVED = "reserved"
_AWS = "karpenter.k8s.aws/instance-"
_KWOK = "karpenter.kwok.sh/instance-"
_HUGE: Quantities = {"cpu": "100000", "memory": "1000Ti", "pods": "10000"}
_EC2_PURCHASES: dict[str, tuple[str, ...]] = {PURCHASE: ("on-demand", "spot", RESERVED)}
_OF_EC2 = ("karpenter.k8s.aws/", "topology.k8s.aws/")
_OF_TYPES = (*_OF_EC2, "karpenter.kwok.sh/", "node.kubernetes.io/", "kubernetes.io/")
# What Karpenter says of a type without GPUs is that it has none of these.
_GPUS = frozenset(_AWS + each for each in ("gpu-count", "gpu-name", "gpu-manufacturer", "gpu-memory"))


@dataclass(frozen=True, slots=True)
class Offer:
    """A type to be had. `choices`: labels that may take one of several values, e.g. the zone.

    Not `known`: how large it is and what other labels it has cannot be known. Of a label whose key begins
    like one of `unsaid` it may have any value, unless it is in `lacks`: those it certainly has not.
    """

    name: str
    labels: dict[str, str]
    capacity: Quantities
    choices: dict[str, tuple[str, ...]]
    known: bool = True
    unsaid: tuple[str, ...] = ()
    lacks: frozenset[str] = frozenset()

    def tells(self, key: str) -> bool:
        """Whether it is known what value it has of a label, if any."""
        return key in self.labels or key in self.choices or key in self.lacks

    def guesses(self, key: str) -> bool:
        """Whether it may have any value of a label, or none."""
        return key.startswith(self.unsaid) and not self.tells(key)


def offers_of(provider: str, named: Iterable[str], *, others: bool = False) -> tuple[Offer, ...]:
    """All types of a provider, by the API group of its node class, the best known first.

    `others`: whether types that are neither in the catalogue nor `named` will do, too.
    """
    if provider == "karpenter.kwok.sh":
        return _kwok()
    if provider == "karpenter.k8s.aws":
        known = {each.name for each in _aws()}
        unknown = [_unknown(name) for name in named if name not in known]
        return (*_aws(), *unknown, *([_OTHER] if others else []))
    return (Offer("any", {}, _HUGE, {}, known=False, unsaid=_OF_TYPES),)


@cache
def _aws() -> tuple[Offer, ...]:
    return tuple(_of_aws(f"{family}.{size}") for family, sizes in FAMILIES.items() for size in sizes)


def _of_aws(name: str) -> Offer:
    kind = instance_type(name)
    assert kind is not None
    family, _, size = name.partition(".")
    parts = re.match(r"([a-z]+)(\d+)", family)
    memory = value(kind.capacity["memory"]) // 2**20
    labels = {
        TYPE: name,
        "kubernetes.io/arch": kind.architecture,
        "kubernetes.io/os": "linux",
        _AWS + "category": parts[1] if parts else "",
        _AWS + "generation": parts[2] if parts else "",
        _AWS + "family": family,
        _AWS + "size": size,
        _AWS + "cpu": str(kind.capacity["cpu"]),
        _AWS + "memory": str(memory),
        **({_AWS + "gpu-count": str(kind.capacity[GPU])} if GPU in kind.capacity else {}),
    }
    lacks = frozenset[str]() if GPU in kind.capacity else _GPUS
    return Offer(name, labels, kind.capacity, _EC2_PURCHASES, unsaid=_OF_EC2, lacks=lacks)


def _unknown(name: str) -> Offer:
    labels = {TYPE: name, "kubernetes.io/arch": architecture(name)}
    return Offer(name, labels, _HUGE, _EC2_PURCHASES, known=False, unsaid=_OF_TYPES)


_OTHER = Offer("another", {}, _HUGE, _EC2_PURCHASES, known=False, unsaid=_OF_TYPES)


@cache
def _kwok() -> tuple[Offer, ...]:
    families = dict(zip(KWOK_GIB, "csm", strict=True))
    return tuple(
        Offer(
            f"{family}-{cpus}x-{arch}-linux",
            {
                TYPE: f"{family}-{cpus}x-{arch}-linux",
                "kubernetes.io/arch": arch,
                "kubernetes.io/os": "linux",
                _KWOK + "cpu": str(cpus),
                _KWOK + "memory": f"{cpus * gib}Gi",
                _KWOK + "family": family,
                _KWOK + "size": f"{cpus}x",
            },
            {"cpu": str(cpus), "memory": f"{cpus * gib}Gi", "pods": str(min(cpus * 16, 1024))},
            {
                PURCHASE: ("on-demand", "spot"),
                "topology.kubernetes.io/zone": KWOK_ZONES,
            },
        )
        for cpus in KWOK_CPUS
        for gib, family in families.items()
        for arch in ("amd64", "arm64")
    )
