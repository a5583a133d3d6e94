"""The cloud behind the node groups: brings each group to its target, a boot time later.

An autoscaler or a test sets targets but makes no nodes; this does, and replaces those that are
taken away. A group may be short of supply (spot): what cannot be had is waited for. A group may stand on an
Auto Scaling group of an AWS account: then that says how many nodes there may be, and no other thing about
them: what boots is what the group is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from fairlead.nodegroups import GROUP_LABEL, NodeGroup, node_of
from fairlead.nodegroups.aws import AutoScalingGroup, CloudState
from fairlead.world.controllers.writes import Again, Create, Obj, View, Write
from fairlead.world.objects import labels_of


@dataclass(frozen=True, slots=True)
class Order:
    """A node that was asked for and is not there yet; `ready_at` is None while the cloud has none."""

    node: str
    number: int
    asked_at: datetime
    ready_at: datetime | None


class Pools:
    """Targets, orders and supply of all groups. Invariant: nodes there + orders = target, after a look.

    `wake` is called with a group's name when its target changed.
    """

    name = "cloud"
    watches = ("Node",)

    def __init__(self, groups: Iterable[NodeGroup], account: CloudState | None = None) -> None:
        self.groups: dict[str, NodeGroup] = {}
        self.account = account or CloudState()
        self.wake: Callable[[str], None] = lambda group: None
        self._targets: dict[str, int] = {}
        self._supply: dict[str, int] = {}
        self._orders: dict[str, dict[str, Order]] = {}
        self._there: dict[str, dict[str, None]] = {}
        self._numbers: dict[str, int] = {}
        self._begun: dict[str, None] = {}
        for group in groups:
            self.add(group)

    # For those who decide

    def add(self, group: NodeGroup) -> None:
        """One more group, whose name no other has; what it starts with is there at once."""
        name = group.name
        asg = self.asg(name)
        if asg is not None:
            group = _bounded(group, asg)
        self.groups[name] = group
        self._targets[name] = max(group.min, group.desired)
        self._orders[name], self._there[name], self._numbers[name] = {}, {}, 0
        self.wake(name)

    def set_account(self, account: CloudState) -> None:
        """The account has changed. How many nodes there are to be stays, within the new bounds."""
        self.account = account
        for name, group in self.groups.items():
            asg = self.asg(name)
            if asg is not None:
                self.groups[name] = _bounded(group, asg)
                self.set_target(name, self._targets[name])

    def asg(self, group: str) -> AutoScalingGroup | None:
        """The Auto Scaling group that a group stands on: its managed node group is called so, or itself."""
        found = self.account.auto_scaling_groups
        managed = (asg for asg in found if asg.nodegroup == group and asg.nodegroup)
        return next(managed, None) or next((asg for asg in found if asg.name == group), None)

    def target(self, group: str) -> int:
        """How many nodes the group is to have."""
        return self._targets[group]

    def set_target(self, group: str, nodes: int) -> None:
        """Ask for another number of nodes, within the group's bounds."""
        bounds = self.groups[group]
        self._targets[group] = max(bounds.min, min(bounds.max, nodes))
        self.wake(group)

    def set_supply(self, group: str, nodes: int | None) -> None:
        """How many nodes of the group can be had at all; None for no limit. Takes none away itself."""
        if nodes is None:
            self._supply.pop(group, None)
        else:
            self._supply[group] = nodes
        self.wake(group)

    def nodes(self, group: str) -> list[str]:
        """The nodes that are there, in the order they came."""
        return list(self._there[group])

    def orders(self, group: str) -> Sequence[Order]:
        """The nodes that are on their way, in the order they were asked for."""
        return list(self._orders[group].values())

    def cancel(self, group: str, node: str) -> None:
        """Give up on an order: the target goes down with it."""
        if self._orders[group].pop(node, None) is not None:
            self._targets[group] = max(self.groups[group].min, self._targets[group] - 1)
            self.wake(group)

    # As a controller

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """A node's group, when the node came or went."""
        item = new or old
        assert item is not None
        group = labels_of(item).get(GROUP_LABEL, "")
        if group not in self.groups or (old is not None and new is not None):
            return []
        name = item["metadata"]["name"]
        if new is None:
            self._there[group].pop(name, None)
        else:
            self._there[group][name] = None
            self._orders[group].pop(name, None)
        return [group]

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Order what is missing, drop what is too much, hand over what has booted."""
        group, orders, there = self.groups[key], self._orders[key], self._there[key]
        # What a group has from the start was there before the story begins.
        boot = timedelta(seconds=group.boot_s) if key in self._begun else timedelta()
        self._begun[key] = None
        while len(there) + len(orders) < self._targets[key]:
            self._numbers[key] += 1
            number = self._numbers[key]
            name = f"{key}-{number}"
            if view.get("Node", "", name) is None:  # a cluster that goes on here may have nodes called so
                orders[name] = Order(name, number, now, None)
        for name in reversed(list(orders)):
            if len(there) + len(orders) > self._targets[key]:
                del orders[name]
        free = (0 if self._halted(key) else self._supply.get(key, group.max)) - len(there)
        for name, order in orders.items():
            if free > 0 and order.ready_at is None:
                orders[name] = Order(order.node, order.number, order.asked_at, now + boot)
            elif free <= 0 and order.ready_at is not None:
                orders[name] = Order(order.node, order.number, order.asked_at, None)
            free -= 1
        due = [order for order in orders.values() if order.ready_at is not None]
        writes: list[Write] = [
            Create(node_of(group, order.node, order.number - 1))
            for order in due
            if order.ready_at is not None and order.ready_at <= now
        ]
        later = [order.ready_at for order in due if order.ready_at is not None and order.ready_at > now]
        return [*writes, Again(min(later))] if later else writes

    def _halted(self, group: str) -> bool:
        asg = self.asg(group)
        return asg is not None and "Launch" in asg.suspended


def _bounded(group: NodeGroup, asg: AutoScalingGroup) -> NodeGroup:
    return msgspec.structs.replace(group, min=asg.min, desired=asg.desired, max=asg.max)
