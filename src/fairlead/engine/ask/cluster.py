"""The public way in: a cluster from any Kubernetes objects, to be asked what would happen.

Objects are read and kept in `inventory`; the answers are made in `explain`, and in `cluster_plan` for what
looks at all pods at once (plans, preemption).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fairlead.engine.ask.explain import Explanation, explained
from fairlead.engine.ask.inventory import Inventory
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.engine.ask.capacity import NodeFill
    from fairlead.engine.ask.cost import Cost, Price
    from fairlead.engine.ask.diagnosis import Diagnosis, Diagnostician, GangView
    from fairlead.engine.ask.plan import Plan, Preemption
    from fairlead.engine.ask.survey import QueueEntry, Survey
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
        return explained(self, pod)

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

    @cached_property
    def asked(self) -> Diagnostician:
        """Answers about the cluster as it stands; what they all need is worked out once."""
        from fairlead.engine.ask.diagnosis import Diagnostician

        return Diagnostician(self)

    def diagnose(self, pod: str) -> Diagnosis:
        """Why a pod that is here (``namespace/name``) is where it is, or has no node: the cause first.

        >>> lonely = {"kind": "Pod", "metadata": {"name": "web"},
        ...           "spec": {"schedulerName": "fairlaed", "containers": [{"name": "c"}]}}
        >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "10"}}}
        >>> found = Cluster.from_objects([node, lonely]).diagnose("web")
        >>> found.cause.code
        'no-scheduler'
        >>> print(found.headline)
        default/web is pending: no scheduler answers to the name fairlaed: it has placed no pod and holds no \
lease; the nearest name is fairlead
        """
        return self.asked.diagnose(pod)

    def survey(self) -> Survey:
        """The cluster at one glance: fill, what waits and why, gangs, policies, the last decisions.

        >>> node = {"kind": "Node", "metadata": {"name": "n1"},
        ...         "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}
        >>> big = {"kind": "Pod", "metadata": {"name": "big"},
        ...        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}}
        >>> [(one.kind, one.pods) for one in Cluster.from_objects([node, big]).survey().waiting]
        [('NodeResourcesFit', 1)]
        """
        from fairlead.engine.ask.survey import survey

        return survey(self.asked, self.pods.values())

    def queue(self) -> list[QueueEntry]:
        """The units that wait for our scheduler, in the order in which they are tried, and why."""
        from fairlead.engine.ask.survey import queue

        return queue(self.asked)

    def gangs(self) -> list[GangView]:
        """Every gang: how many of its minimum are there, and what keeps it from starting."""
        from fairlead.engine.ask.survey import gangs

        return gangs(self.asked)

    def nodes(self) -> list[NodeFill]:
        """Every node: what it has, what pods have asked for, what is left.

        >>> node = {"kind": "Node", "metadata": {"name": "n1"},
        ...         "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}
        >>> Cluster.from_objects([node]).nodes()[0].free("cpu")
        2000
        """
        from fairlead.engine.ask.capacity import nodes_of

        return nodes_of(self)

    def cost(self, prices: Sequence[Price] = ()) -> Cost:
        """What the nodes cost per hour, by tier, namespace, workload and tenant, and what is idle.

        >>> priced = {"name": "n1", "labels": {"fairlead.dev/price-per-hour": "0.1"}}
        >>> node = {"kind": "Node", "metadata": priced,
        ...         "status": {"allocatable": {"cpu": "2", "memory": "4Gi"}}}
        >>> found = Cluster.from_objects([node]).cost()
        >>> found.per_hour, found.idle
        (0.1, 0.1)
        """
        from fairlead.engine.ask.cost import cost_of

        return cost_of(self, prices)

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
