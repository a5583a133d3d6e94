"""What the autoscaler takes the next node of each group to be, which need not be what the cloud brings.

A group that stands on an Auto Scaling group is known to it only by that group's tags, by what EKS answers
and by nodes it has seen, as on AWS: wrong tags, and it expects a node that no pod will ever want. A group
that stands on none is expected to be what it says of itself.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from fairlead.errors import BadObject
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.nodegroups import GROUP_LABEL, NodeGroup, template_of
from fairlead.nodegroups.aws import AutoScalingGroup, Memory, Version, good_example, template_from
from fairlead.nodegroups.aws.tags import discovery_tags
from fairlead.world.autoscaler_log import AutoscalerLog
from fairlead.world.controllers.writes import Obj, View
from fairlead.world.objects import labels_of
from fairlead.world.pools import Pools

_HOSTNAME = "kubernetes.io/hostname"
_UNANSWERED = "eks:DescribeNodegroup: "


class Expected:
    """The templates of one running autoscaler. What it remembers between looks is lost with it."""

    def __init__(self, pools: Pools, memory: Memory, version: Version | None, log: AutoscalerLog) -> None:
        self._pools = pools
        self._memory = memory
        self._version = version
        self._log = log

    def look(self, view: View, now: datetime) -> dict[str, Node]:
        """The template of every group that the autoscaler knows of; others it does not know."""
        found = {}
        for name, group in self._pools.groups.items():
            asg = self._pools.asg(name)
            if asg is None:
                found[name] = template_of(group, name)
            elif self._discovers(asg):
                found[name] = self._on_aws(view, group, asg, now)
        return found

    def lost(self, node: Obj, now: datetime) -> None:
        """A node is gone. An autoscaler that looks all the time has known it well, if it was worth it."""
        asg = self._pools.asg(labels_of(node).get(GROUP_LABEL, ""))
        if asg is not None and self._discovers(asg) and (typed := _example(node, now)) is not None:
            self._memory.nodes[asg.name] = (typed, now)

    def _discovers(self, asg: AutoScalingGroup) -> bool:
        return discovery_tags(self._pools.account.cluster).keys() <= asg.tags.keys()

    def _on_aws(self, view: View, group: NodeGroup, asg: AutoScalingGroup, now: datetime) -> Node:
        template = template_from(
            asg,
            self._pools.account.answer_for(asg),
            now=now,
            version=self._version,
            memory=self._memory,
            live=self._live(view, group.name, now),
            kind=group.instance_type,
        )
        # Of all that goes wrong on the way, the real one tells only this.
        for problem in template.said:
            if problem.startswith(_UNANSWERED):
                self._log.not_told(asg, problem.removeprefix(_UNANSWERED), now)
        return template.node

    def _live(self, view: View, group: str, now: datetime) -> Node | None:
        for name in self._pools.nodes(group):
            node = view.get("Node", "", name)
            if node is not None and (typed := _example(node, now)) is not None:
                return typed
        return None


def named(template: Node, name: str) -> Node:
    """A template as one node of many: each has its own name, and with it its own hostname."""
    labels = {**template.metadata.labels, _HOSTNAME: name}
    metadata = msgspec.structs.replace(template.metadata, name=name, labels=labels)
    return msgspec.structs.replace(template, metadata=metadata)


def _example(node: Obj, now: datetime) -> Node | None:
    try:
        typed = convert(node, Node)
    except BadObject:
        return None  # the reader of nodes for placement (`Mirror`) keeps what is wrong with it
    return typed if good_example(typed, now) else None
