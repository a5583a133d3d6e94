"""``fairlead explain``: why a pod, a workload or a gang has no node, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.asked import Source, show, since
from fairlead.cli.flags import decision_options, state_options, watch_option
from fairlead.cli.output import show_lines, show_table, show_warnings
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.client.leader_queue import LeaderAnswer
    from fairlead.engine.ask.diagnosis import Diagnosis
    from fairlead.engine.ask.explain import Explanation
    from fairlead.engine.ask.workloads import WorkloadView
    from fairlead.feed.cluster import Cluster
    from fairlead.nodegroups import NodeGroup

_KINDS = {
    "Pod": ("pod", "pods", "po"),
    "Deployment": ("deployment", "deployments", "deploy", "deployment.apps", "deployments.apps"),
    "ReplicaSet": ("replicaset", "replicasets", "rs", "replicaset.apps", "replicasets.apps"),
    "StatefulSet": ("statefulset", "statefulsets", "sts", "statefulset.apps", "statefulsets.apps"),
    "DaemonSet": ("daemonset", "daemonsets", "ds", "daemonset.apps", "daemonsets.apps"),
    "ReplicationController": ("replicationcontroller", "replicationcontrollers", "rc"),
    "Job": ("job", "jobs", "job.batch", "jobs.batch"),
    "gang": ("gang", "gangs", "podgroup", "podgroups", "pg"),
}
_BY_ALIAS = {alias: kind for kind, aliases in _KINDS.items() for alias in aliases}
# More nodes than these are summed up, unless all are asked for.
_NODES_SHOWN = 10
_NAMES_SHOWN = 3
# With one of these an autoscaler might bring a node.
_WANTS_NODES = ("rule", "no-nodes", "gang-room", "policy-tier", "policy-mark", "to-preempt")


@click.command(
    "explain",
    short_help="Why a pod, workload or gang has no node, and what would help.",
    epilog="""Examples:

    \b
    fairlead explain web-1 -n shop
    fairlead explain shop/checkout -f examples/state/shop.yaml
    kubectl get nodes,pods,pvc,pv,sc,csinodes,ns,pdb -A -o yaml | fairlead explain shop/web-1 -f -

    Workloads and gangs, as kubectl spells kinds, and what a file of node groups would bring:

    \b
    fairlead explain deploy/web -n fairlead-spot -f examples/spot/workloads.yaml
    fairlead explain shop/report -f examples/state/shop.yaml --node-groups examples/node-groups.yaml

    As a scheduler with this configuration decides:

    \b
    fairlead explain shop/checkout -f examples/state/shop.yaml --config fairlead.yaml

    Exits with 0 whether or not the pod fits somewhere, with 1 when the cluster cannot be asked, with 2 when
    the input cannot be used or there is no such pod.
    """,
)
@click.argument("subject", metavar="[KIND/]NAME")
@click.option(
    "-n", "--namespace", default="", metavar="NAME", help="Namespace of NAME (default: the context's)."
)
@click.option("-a", "--all", "every_node", is_flag=True, help="Show every node, however many there are.")
@click.option(
    "--node-groups",
    default="",
    metavar="FILE",
    help="The node groups that an autoscaler could bring nodes of.",
)
@click.option(
    "--scheduler-url",
    default="",
    metavar="URL",
    help="The scheduler that leads, for its own queue: http://127.0.0.1:PORT of a kubectl port-forward.",
)
@watch_option
@state_options
@decision_options
def command(
    subject: str,
    *,
    namespace: str,
    every_node: bool,
    node_groups: str,
    scheduler_url: str,
    watch: bool,
    **flags: Any,
) -> None:
    """Say why a pod, workload or gang has no node, the cause first, and what would help.

    Without a KIND (pod, deploy, sts, rs, ds, job, gang) it is a pod; NAMESPACE/NAME is read, too. The words
    are kube-scheduler's where it has some. What would help was tried before it is said. Of a pod that runs it
    says where else it might be. Nothing is changed.
    """
    from fairlead.cli.nodegroups.file import read_given
    from fairlead.client.leader_queue import check_url
    from fairlead.cloud.cluster import scaling_queries

    source = Source.take(flags)
    groups = read_given(node_groups) if node_groups else ()
    if scheduler_url and not source.live:
        raise BadInput("--scheduler-url goes with a live cluster, not with files")
    leader = check_url(scheduler_url) if scheduler_url else ""

    def ask() -> _Answer:
        cluster, default = source.cluster(scaling_queries)
        kind, key = _subject(subject, namespace or default)
        found = _Answer(cluster, kind, key, groups)
        if leader and found.waits_for_us:
            found.leader = source.ask_leader(leader, key)
        return found

    def view(found: _Answer) -> None:
        found.show(every_node=every_node or source.output == "wide")

    show(source, ask, view, watch=watch)


def _subject(text: str, namespace: str) -> tuple[str, str]:
    """The kind and the key that a user means.

    >>> _subject("web-1", "shop"), _subject("deploy/web", "shop"), _subject("shop/web-1", "x")
    (('Pod', 'shop/web-1'), ('Deployment', 'shop/web'), ('Pod', 'shop/web-1'))
    >>> _subject("gang/ml/train", "shop")
    ('gang', 'ml/train')
    """
    first, slash, rest = text.partition("/")
    kind = _BY_ALIAS.get(first.lower()) if slash else "Pod"
    name = text if kind is None or not slash else rest
    if name.count("/") > 1 or not all(name.split("/")):
        raise BadInput(f"{text!r} is no name: give NAME, NAMESPACE/NAME or KIND/NAME")
    return kind or "Pod", name if "/" in name else f"{namespace}/{name}"


class _Answer:
    """The answer about one subject, as data and in words."""

    def __init__(self, cluster: Cluster, kind: str, key: str, groups: tuple[NodeGroup, ...]) -> None:
        self.cluster = cluster
        self.pod: Diagnosis | None = None
        self.workload: WorkloadView | None = None
        self.scaling: list[str] = []
        self.leader: LeaderAnswer | None = None
        show_warnings(cluster.warnings())
        if kind == "Pod":
            if key in cluster.broken and cluster.read_at is None:
                raise cluster.broken[key]  # of files, it is bad input
            self.pod = cluster.diagnose(key)
            cause = self.pod.cause
            if cause is not None and cause.code in _WANTS_NODES:
                self.scaling = list(_scaling(cluster, self.pod.pod, groups))
        else:
            from fairlead.engine.ask.workloads import gang_view, workload_view

            asked = cluster.asked
            self.workload = gang_view(asked, key) if kind == "gang" else workload_view(asked, kind, key)

    @property
    def waits_for_us(self) -> bool:
        """Whether it is a pod that waits for our own scheduler."""
        return self.pod is not None and self.pod.queue is not None

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        if self.workload is not None:
            return self.workload.to_dict()
        assert self.pod is not None
        found = {**self.pod.to_dict(), "autoscaler": self.scaling}
        if self.leader is not None:
            found["leaderQueue"] = self.leader.position or {"unknown": self.leader.unknown}
        return found

    def show(self, *, every_node: bool) -> None:
        """In words."""
        if self.workload is not None:
            self._show_workload(self.workload)
            return
        assert self.pod is not None
        self._show_pod(self.pod, every_node=every_node)

    def _show_workload(self, found: WorkloadView) -> None:
        show_lines(found.headline, style="bold")
        show_table(
            ("PODS", "CAUSE", "OLDEST", "WHY", "FOR EXAMPLE"),
            (
                (
                    str(one.pods),
                    one.kind,
                    since(self.cluster, one.oldest),
                    one.text,
                    ", ".join(each.partition("/")[2] for each in one.examples),
                )
                for one in found.waiting
            ),
        )
        if found.gang is not None:
            show_table(
                ("MEMBER", "NODE"), ((pod, node or ("-", "yellow")) for pod, node in found.gang.members)
            )

    def _show_pod(self, found: Diagnosis, *, every_node: bool) -> None:
        show_lines(found.headline, style="bold")
        show_table(("", ""), self._facts(found), heading=False)
        explained = found.explanation
        if explained is not None:
            _show_nodes(explained, every_node=every_node)
            show_lines(*(f"would help: {suggestion}" for suggestion in explained.suggestions))
        show_lines(*(f"autoscaler: {line}" for line in self.scaling))
        show_lines(*(f"not known: {line}" for line in found.unknown))
        show_lines(*(f"note: {line}" for line in found.notes))

    def _facts(self, found: Diagnosis) -> Iterator[tuple[str, str]]:
        if found.since is not None:
            yield found.state, f"for {since(self.cluster, found.since)}"
        if found.scheduler is not None:
            yield "scheduler", _scheduler(self.cluster, found)
        if found.gang is not None:
            gang = found.gang
            waits = f"; {gang.waits_for}" if gang.waits_for else ""
            whole = "has started" if gang.started else "has not started"
            there = f"{gang.present} of {gang.minimum} members, {gang.running} with a node"
            yield "gang", f"{gang.name}: {there}, {whole}{waits}"
        if found.policy is not None:
            policy = found.policy
            slot = f"slot {policy.slot}, " if policy.slot else ""
            yield "policy", f"{policy.policy}: {slot}tier {policy.tier or '(none)'}; {policy.why}"
            for tier, until, why in policy.marks:
                moment = datetime.fromtimestamp(until, UTC).strftime("%H:%M:%SZ")
                yield "", f"tier {tier} is left alone until {moment}" + (f": {why}" if why else "")
        if found.queue is not None and found.queue.position:
            queue = found.queue
            ahead = f", after {_some(queue.ahead)}" if queue.ahead else ""
            yield "queue", f"place {queue.position}{ahead} (as planned from what was read)"
        if self.leader is not None:
            yield "leader", _as_the_leader_has_it(self.leader, self.cluster)
        if found.queue is not None and found.queue.position:
            queue = found.queue
            if queue.held_back_by:
                yield "", f"without {_some(queue.held_back_by)} there would be room"
        explained = found.explanation
        if explained is not None and explained.feasible:
            number = len(explained.feasible) + len(explained.reasons)
            best = f", {found.best} best" if found.best else ""
            yield "fits", f"on {len(explained.feasible)} of {number} nodes{best}"


def _as_the_leader_has_it(answer: LeaderAnswer, cluster: Cluster) -> str:
    """The leader's own queue, in words."""
    found = answer.position
    if found is None:
        return f"unknown: {answer.unknown}"
    if not found.get("position"):
        return str(found.get("message") or "it is in no queue")
    ahead = found.get("ahead") or []
    said = f"place {found['position']}" + (f", after {_some(ahead)}" if ahead else "")
    if found.get("attempts"):
        said += f"; tried {found['attempts']} {'time' if found['attempts'] == 1 else 'times'}"
    if found.get("retryAt"):
        said += f", again in {max(0.0, found['retryAt'] - cluster.asked.now):.0f}s"
    return said


def _scheduler(cluster: Cluster, found: Diagnosis) -> str:
    scheduler = found.scheduler
    assert scheduler is not None
    if scheduler.runs is False:
        return f"{scheduler.name} does not run: {scheduler.why}"
    if scheduler.holder:
        return f"{scheduler.name}, led by {scheduler.holder} for {since(cluster, scheduler.since)}"
    return scheduler.name + (f"; {scheduler.why}" if scheduler.why else "")


def _show_nodes(found: Explanation, *, every_node: bool) -> None:
    nodes = sorted((*found.feasible, *found.reasons))
    if every_node or len(nodes) <= _NODES_SHOWN:
        show_table(
            ("NODE", "FITS", "RULE", "REASON"),
            ((node, _fits(found, node), *_refusal(found, node)) for node in nodes),
        )
        return
    alike: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        alike.setdefault(_refusal(found, node), []).append(node)
    show_table(
        ("NODES", "FITS", "RULE", "REASON", "FOR EXAMPLE"),
        (
            (str(len(held)), _fits(found, held[0]), rule, reason, _some(held))
            for (rule, reason), held in sorted(alike.items(), key=lambda item: (-len(item[1]), item[0]))
        ),
    )


def _fits(found: Explanation, node: str) -> tuple[str, str]:
    return ("no", "red") if node in found.reasons else ("yes", "green")


def _refusal(found: Explanation, node: str) -> tuple[str, str]:
    return found.rules.get(node, ""), "; ".join(found.reasons.get(node, []))


def _some(names: Iterable[str]) -> str:
    """The first few names, and how many more there are.

    >>> _some("abcde")
    'a, b, c and 2 more'
    """
    listed = list(names)
    more = len(listed) - _NAMES_SHOWN
    return ", ".join(listed[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _scaling(cluster: Cluster, pod: str, groups: tuple[NodeGroup, ...]) -> Iterator[str]:
    """Whether an autoscaler would bring the pod a node, in the doctor's words."""
    from fairlead.cloud.doctor import diagnose

    pools = cluster.of_kind("NodePool")
    if not groups and not pools:
        yield "nothing is known of any: there is no NodePool; name the node groups with --node-groups FILE"
        return
    report = diagnose(groups, None, cluster.others, pod=pod, cluster=cluster)
    verdict = next((one for one in report.pods if one.name == pod), None)
    if verdict is None:
        yield "nothing is known"
    elif verdict.works:
        why = verdict.why.replace("--aws", "fairlead nodegroups doctor --aws")
        yield f"would bring a node of {verdict.where}" + (f": {why}" if why else "")
    else:
        sure = "brings no node" if verdict.certain else "may bring no node"
        yield f"{sure}: {verdict.why}"
    yield from (f"{one.says} Fix: {one.fix}" for one in report.findings if one.pod == pod)
