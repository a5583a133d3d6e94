"""The public way in: a cluster from any Kubernetes objects, to be asked what would happen.

Objects are read and kept in `inventory`; the answers are made in `explain`, and in `cluster_plan` for what
looks at all pods at once (plans, preemption).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fairlead.engine.ask.explain import Explanation, explain
from fairlead.engine.ask.inventory import Inventory
from fairlead.engine.planning.budgets import Budgets
from fairlead.engine.planning.priority import ANNOTATION
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.engine.ask.plan import Plan, Preemption
    from fairlead.engine.core.report import QueuePosition


class Cluster(Inventory):
    """A cluster at one instant, made by `from_objects`.

    >>> node = {"kind": "Node", "metadata": {"name": "n1"},
    ...         "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}
    >>> big = {"kind": "Pod", "metadata": {"name": "big"},
    ...        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}}
    >>> cluster = Cluster.from_objects([node])
    >>> found = cluster.explain(big)
    >>> found.message
    '0/1 nodes are available: 1 Insufficient cpu.'
    >>> found.suggestions
    ['1 more CPU on n1']
    >>> big["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1500m"
    >>> cluster.explain(big).feasible
    ['n1']
    """

    def explain(self, pod: str | Mapping[str, Any]) -> Explanation:
        """Why a pod fits, or not, on each node: ``namespace/name`` of a pod here, or a pod not yet here.

        A pod that is here and has a node is explained as if it were to be placed now. Which scheduler
        the pod asks for is not looked at.
        """
        typed, known = self.find(pod)
        if self.policies:
            from fairlead.engine.ask import cluster_plan

            pinned = not known and bool(typed.spec.node_name)
            typed = typed if pinned else cluster_plan.sent(self, typed)
        nominated = [
            (each, self._priority(each).value)
            for each in self.pods.values()
            if each.status.nominated_node_name and not each.spec.node_name and not each.terminal
        ]
        key = typed.metadata.key
        placed = self.snapshot.forget(key) if self.snapshot.placed(key) is not None else None
        try:
            return explain(
                self.snapshot,
                typed,
                priority=self._priority(typed).value,
                nominated=nominated,
                budgets=Budgets(self.budgets) if self.settings.pdb == "respect" else None,
                pinned=not known and bool(typed.spec.node_name),
            )
        finally:
            if placed is not None:
                self.snapshot.restore(placed)

    def preempt(self, pod: str | Mapping[str, Any]) -> Preemption:
        """Where a pod could go if others left, and which: never worse than what kube-scheduler would choose.

        Which scheduler the pod asks for is not looked at. `node` is None when nothing helps, when the
        pod fits as it is, and when it may not preempt.

        >>> node = {"kind": "Node", "metadata": {"name": "n1"},
        ...         "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}
        >>> def pod(name, priority, **spec):
        ...     container = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
        ...     return {"kind": "Pod", "metadata": {"name": name},
        ...             "spec": {"priority": priority, "containers": [container], **spec}}
        >>> found = Cluster.from_objects([node, pod("low", 1, nodeName="n1")]).preempt(pod("high", 2))
        >>> found.node, found.victims, found.pdb_violations
        ('n1', ['default/low'], 0)
        """
        from fairlead.engine.ask import cluster_plan

        return cluster_plan.preempt(self, self.find(pod)[0])

    def plan(self, *, scheduler_names: Iterable[str] = (), now: float | None = None) -> Plan:
        """What Fairlead would do now: bind, evict, hold, until nothing is left to do.

        Pods of other schedulers than `scheduler_names` (none: those of the settings, ``fairlead``) are
        counted, never touched. `now` (seconds since the epoch) is, when not given, a moment after the newest
        object was created.

        >>> node = {"kind": "Node", "metadata": {"name": "n1"},
        ...         "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}
        >>> def member(name):
        ...     container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
        ...     marks = {"pod-group": "train", "pod-group-min-member": "2"}
        ...     return {"kind": "Pod", "metadata": {"name": name, "annotations": marks},
        ...             "spec": {"schedulerName": "fairlead", "containers": [container]}}
        >>> dict(Cluster.from_objects([node, member("a"), member("b")]).plan().binds)
        {'default/a': 'n1', 'default/b': 'n1'}
        >>> Cluster.from_objects([node, member("a")]).plan().holds[0].reason
        'gang default/train: 1 of 2 members are there'
        """
        from fairlead.engine.ask import cluster_plan

        return cluster_plan.plan(self, scheduler_names=self._names(scheduler_names), now=_time(now))

    def queue_position(
        self, pod: str, *, scheduler_names: Iterable[str] = (), now: float | None = None
    ) -> QueuePosition | None:
        """Where a pod that the plan holds stands in the queue, what is ahead, and what holds it back.

        None for a pod that does not wait once the plan is done.
        """
        from fairlead.engine.ask import cluster_plan

        typed, _ = self.find(pod)
        core, _ = cluster_plan.planned(self, scheduler_names=self._names(scheduler_names), now=_time(now))
        return core.queue_position(typed.metadata.key)

    def warnings(self) -> list[str]:
        """Where the annotation ``priority`` of our pods is not taken as it stands, each reason once."""
        found: dict[str, str] = {}
        settings = self.settings
        for key, pod in sorted(self.pods.items()):
            namespace = pod.metadata.namespace
            if (
                ANNOTATION not in pod.metadata.annotations
                or pod.spec.scheduler_name not in settings.scheduler_names
                or (settings.namespaces and namespace not in settings.namespaces)
            ):
                continue
            problem = self._priority(pod).problem
            if settings.priority_annotation.namespace_selector and namespace not in self.snapshot.namespaces:
                problem = (
                    f"annotation {ANNOTATION}: the state has no Namespace {namespace}, whose labels count"
                )
            if problem:
                found.setdefault(problem, key)
        return [f"{key}: {problem}" for problem, key in found.items()]

    def _names(self, given: Iterable[str]) -> tuple[str, ...]:
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise BadInput(f"scheduler_names: {given!r} is not a list of names")
        names = tuple(given)
        if not all(isinstance(name, str) for name in names):
            raise BadInput(f"scheduler_names: {names!r} holds something that is not a name")
        return names or self.settings.scheduler_names


def _time(given: float | None) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise BadInput(f"now: {given!r} is not a number of seconds")
    return float(given)
