"""What placement costs: nodes' prices, shared out to the pods that request them, and what is idle.

A node's price is halved between its cpu and its memory, and each half goes to pods by what they ask for; what
no pod asks for is idle. That is an assumption, and it is said beside the numbers. What a policy saves is
against the same pods at the price that its other tiers' nodes have for the same amounts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from fairlead.engine.ask.inventory import Inventory
from fairlead.engine.ask.policy_groups import group_index
from fairlead.engine.snapshot.nodes import CPU_ROW, MEMORY_ROW
from fairlead.engine.snapshot.placed import Placed
from fairlead.errors import BadInput
from fairlead.nodegroups import GROUP_LABEL, NodeGroup
from fairlead.policy.groups.index import GroupIndex
from fairlead.policy.groups.owners import KnownOwners
from fairlead.policy.rule.model import PlacementPolicy, read_policies
from fairlead.policy.rule.workloads import workload_of
from fairlead.policy.tiers.tier_nodes import TierNodes

PRICE_LABEL = "fairlead.dev/price-per-hour"
TENANT_LABEL = "fairlead.dev/tenant"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
HOURS_PER_MONTH = 730
ASSUMPTIONS = (
    "a node's price is shared half by cpu and half by memory, by what pods ask for",
    f"a month has {HOURS_PER_MONTH} hours",
)


@dataclass(frozen=True, slots=True)
class Price:
    """What a node with all these labels costs per hour."""

    labels: Mapping[str, str]
    per_hour: Decimal


def _money(per_hour: float) -> dict[str, float]:
    return {"perHour": round(per_hour, 6), "perMonth": round(per_hour * HOURS_PER_MONTH, 2)}


@dataclass(frozen=True, slots=True)
class Line:
    """What one tier, namespace, workload or tenant costs per hour, and by how many pods."""

    name: str
    per_hour: float
    pods: int

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"name": self.name, **_money(self.per_hour), "pods": self.pods}


@dataclass(frozen=True, slots=True)
class Saving:
    """What a policy's volatile tiers save per hour against the same pods on its other tiers."""

    policy: str
    per_hour: float
    pods: int

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"policy": self.policy, **_money(self.per_hour), "pods": self.pods}


@dataclass(frozen=True, slots=True)
class Cost:
    """All of it. `by` has the lines of each way to share it out, dearest first."""

    per_hour: float
    idle: float
    nodes: int
    unpriced: tuple[str, ...]
    """Nodes whose price nothing says: they count as nothing."""
    by: Mapping[str, tuple[Line, ...]]
    savings: tuple[Saving, ...] = ()
    assumptions: tuple[str, ...] = ASSUMPTIONS

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            **_money(self.per_hour),
            "idlePerHour": round(self.idle, 6),
            "nodes": self.nodes,
            "unpricedNodes": list(self.unpriced),
            "by": {way: [line.to_dict() for line in lines] for way, lines in self.by.items()},
            "savings": [one.to_dict() for one in self.savings],
            "assumptions": list(self.assumptions),
        }


def read_prices(data: Iterable[Any], called: str) -> tuple[Price, ...]:
    """Prices from the documents of a file: each ``{labels: {...}, pricePerHour: "0.04"}``, or a list of such
    under ``prices``.

    >>> read_prices([{"prices": [{"labels": {"size": "large"}, "pricePerHour": "0.2"}]}], "f")[0].per_hour
    Decimal('0.2')
    """
    found = []
    for document in data:
        listed = (
            document.get("prices") if isinstance(document, Mapping) and "prices" in document else [document]
        )
        if not isinstance(listed, list):
            raise BadInput(f"{called}: prices: is not a list")
        for number, each in enumerate(listed):
            found.append(_price(each, f"{called}: prices[{number}]"))
    return tuple(found)


def _price(each: Any, where: str) -> Price:
    labels = each.get("labels") if isinstance(each, Mapping) else None
    if not isinstance(labels, Mapping) or not labels:
        raise BadInput(f"{where}: labels: say which nodes it is for")
    try:
        per_hour = Decimal(str(each.get("pricePerHour")))
    except InvalidOperation:
        per_hour = Decimal("NaN")
    if not per_hour.is_finite() or per_hour < 0:
        raise BadInput(f"{where}: pricePerHour: {each.get('pricePerHour')!r} is not a price")
    return Price({str(key): str(value) for key, value in labels.items()}, per_hour)


def prices_of_groups(groups: Iterable[NodeGroup]) -> tuple[Price, ...]:
    """The prices that a file of node groups says."""
    found = []
    for group in groups:
        for kind in group.instance_types:
            if kind.price_per_hour:
                labels = {GROUP_LABEL: group.name}
                if kind.name:
                    found.append(Price({**labels, INSTANCE_TYPE: kind.name}, kind.price_per_hour))
        if group.price_per_hour:
            found.append(Price({GROUP_LABEL: group.name}, group.price_per_hour))
    return tuple(found)


def price_of(labels: Mapping[str, str], prices: Sequence[Price] = ()) -> float | None:
    """What a node with these labels costs per hour: its own label wins, then the first price whose labels it
    has all; None where nothing says.

    >>> price_of({PRICE_LABEL: "0.1"}), price_of({PRICE_LABEL: "cheap"})
    (0.1, None)
    """
    text = labels.get(PRICE_LABEL)
    if text is not None:
        try:
            price = Decimal(text)
        except InvalidOperation:
            price = Decimal("NaN")
        if price.is_finite() and price >= 0:
            return float(price)
    for one in prices:
        if one.labels.items() <= labels.items():
            return float(one.per_hour)
    return None


def cost_of(cluster: Inventory, prices: Sequence[Price] = ()) -> Cost:
    """What the cluster's nodes cost per hour, by whom; see `price_of`."""
    return _Sharing(cluster, prices).cost()


@dataclass(slots=True)
class _Share:
    per_hour: float = 0.0
    pods: int = 0


@dataclass(slots=True)
class _Sharing:
    """One sharing out. Idle is a node's price less the shares of its pods, never below nothing."""

    cluster: Inventory
    prices: Sequence[Price]
    shares: dict[str, dict[str, _Share]] = field(default_factory=dict)

    def cost(self) -> Cost:
        """See `cost_of`."""
        nodes = self.cluster.snapshot.nodes
        policies = read_policies(self.cluster.policies)
        tiers = [_tiers(policy, self.cluster) for policy in policies]
        index = group_index(self.cluster)
        total = idle = 0.0
        unpriced = []
        spent: dict[str, tuple[float, float]] = {}  # node → per cpu (in thousandths) and per byte of memory
        for slot in nodes.slots():
            node = nodes.node(slot)
            price = price_of(node.metadata.labels, self.prices)
            if price is None:
                unpriced.append(node.metadata.name)
                continue
            total += price
            cpu, memory = int(nodes.alloc[CPU_ROW, slot]), int(nodes.alloc[MEMORY_ROW, slot])
            # What is overcommitted shares the price by what is asked for.
            per_cpu = price / 2 / max(cpu, int(nodes.used[CPU_ROW, slot]), 1)
            per_byte = price / 2 / max(memory, int(nodes.used[MEMORY_ROW, slot]), 1)
            spent[node.metadata.name] = per_cpu, per_byte
            tier = next((one for find in tiers if (one := find(node.metadata.name))), "(no tier)")
            rest = price
            for placed in self.cluster.snapshot.pods_on(slot):
                asked = dict(placed.usage.amounts)
                part = asked.get("cpu", 0) * per_cpu + asked.get("memory", 0) * per_byte
                rest -= part
                self._add(placed, part, tier, index.owners)
            idle += max(0.0, rest)
        by = {
            way: tuple(
                sorted(
                    (Line(name, one.per_hour, one.pods) for name, one in shares.items()),
                    key=lambda line: (-line.per_hour, line.name),
                )
            )
            for way, shares in self.shares.items()
        }
        savings = tuple(
            saving
            for policy, find in zip(policies, tiers, strict=True)
            if (saving := self._saving(policy, find, spent, index)) is not None
        )
        return Cost(total, idle, nodes.count, tuple(sorted(unpriced)), by, savings)

    def _add(self, placed: Placed, part: float, tier: str, owners: KnownOwners) -> None:
        pod = placed.pod
        workload = workload_of(pod.metadata, owners)
        names = {
            "tier": tier,
            "namespace": pod.metadata.namespace,
            "workload": f"{workload.namespace}/{workload.kind}/{workload.name}",
        }
        if tenant := pod.metadata.labels.get(TENANT_LABEL):
            names["tenant"] = tenant
        for way, name in names.items():
            share = self.shares.setdefault(way, {}).setdefault(name, _Share())
            share.per_hour += part
            share.pods += 1

    def _saving(
        self,
        policy: PlacementPolicy,
        find: Callable[[str], str],
        spent: Mapping[str, tuple[float, float]],
        index: GroupIndex,
    ) -> Saving | None:
        """What its pods on volatile tiers' nodes cost less than they would at the others' average."""
        volatile = {f"{policy.name}/{tier.name}" for tier in policy.spec.tiers if tier.volatile}
        firm = [rates for node, rates in spent.items() if (tier := find(node)) and tier not in volatile]
        if not volatile or not firm:
            return None
        per_cpu = sum(rates[0] for rates in firm) / len(firm)
        per_byte = sum(rates[1] for rates in firm) / len(firm)
        saved, pods = 0.0, 0
        for node, (own_cpu, own_byte) in spent.items():
            if find(node) not in volatile:
                continue
            for placed in self.cluster.snapshot.pods_on(self.cluster.snapshot.nodes.slot(node)):
                grouped = index.get(placed.pod.metadata.uid)
                if grouped is None or grouped.policy.name != policy.name:
                    continue
                asked = dict(placed.usage.amounts)
                saved += asked.get("cpu", 0) * (per_cpu - own_cpu)
                saved += asked.get("memory", 0) * (per_byte - own_byte)
                pods += 1
        return Saving(policy.name, saved, pods)


def _tiers(policy: PlacementPolicy, cluster: Inventory) -> Callable[[str], str]:
    nodes = TierNodes(policy, cluster.each_node())

    def find(node: str) -> str:
        """The tier that a node is of, with its policy's name; "" for none."""
        tier = nodes.tier_of.get(node)
        return "" if tier is None else f"{policy.name}/{policy.spec.tiers[tier].name}"

    return find
