"""The Cluster Autoscaler of a cluster: its version, flags and role, as known or given, and what it says
itself, in its log and in the events that it writes on pods.

Log lines carry month, day and time but no year and no zone: only differences between two of them mean
something. Lines in other forms are passed over; they say nothing about scale-up from zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from fairlead.cloud import shell
from fairlead.errors import BadInput
from fairlead.kube.duration import seconds
from fairlead.nodegroups.aws.template import NODE_CACHE, Version

_IMAGE = re.compile(r"(?:^|/)cluster-autoscaler(?:-\w+)?(?:[:@]|$)")
_ROLE = "eks.amazonaws.com/role-arn"


@dataclass(frozen=True, slots=True)
class CaSettings:
    """What is known of the autoscaler. `version` None: not known, taken to be a new one."""

    version: Version | None = None
    flags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    role: str = ""
    namespace: str = "kube-system"
    name: str = "cluster-autoscaler"
    service_account: str = ""
    """``namespace/name``, "" when its Deployment was not found."""

    @property
    def as_version(self) -> Version:
        """Its version, or that of a new one."""
        return self.version or Version()

    @property
    def expire(self) -> timedelta:
        """For how long it remembers a group's last node."""
        given = self.flags.get("node-info-cache-expire-time", ())
        return (go_duration(given[-1]) if given else None) or NODE_CACHE

    @property
    def restart(self) -> str:
        """The command that makes it forget."""
        return (
            f"kubectl -n {shell.word(self.namespace)} rollout restart {shell.word(f'deployment/{self.name}')}"
        )

    def discovers_by(self) -> tuple[Mapping[str, str], ...] | None:
        """The tags that a group must have, each way of discovery for itself; None: flags not known."""
        if "node-group-auto-discovery" not in self.flags and "nodes" not in self.flags:
            return None
        specs = []
        for spec in self.flags.get("node-group-auto-discovery", ()):
            for one in re.split(r";|,(?=asg:)", spec.strip("[]")):
                kind, _, tags = one.partition("tag=")
                if kind == "asg:":
                    specs.append(dict(tag.partition("=")[::2] for tag in tags.split(",") if tag))
        return tuple(specs)

    def names(self) -> tuple[str, ...]:
        """The Auto Scaling groups that are given to it by name (``--nodes=min:max:name``)."""
        return tuple(each.split(":", 2)[2] for each in self.flags.get("nodes", ()) if each.count(":") >= 2)


def find_autoscaler(objects: Iterable[Mapping[str, Any]]) -> CaSettings | None:
    """The autoscaler among a cluster's objects; its role is on its ServiceAccount, if anywhere."""
    listed = list(objects)
    for deployment in listed:
        if deployment.get("kind") != "Deployment":
            continue
        spec = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
        for container in spec.get("containers") or ():
            if not _is_autoscaler(container):
                continue
            metadata = deployment.get("metadata") or {}
            namespace = metadata.get("namespace") or "default"
            account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
            return CaSettings(
                version=_version(str(container.get("image") or "")),
                flags=read_flags([*(container.get("command") or ()), *(container.get("args") or ())]),
                role=_role(listed, namespace, account),
                namespace=namespace,
                name=metadata.get("name") or "",
                service_account=f"{namespace}/{account}",
            )
    return None


def read_flags(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Flags with all their values, in the order they are given.

    >>> read_flags(["./cluster-autoscaler", "--v=4", "--nodes=0:3:a", "--nodes", "0:2:b", "--x"])
    {'v': ('4',), 'nodes': ('0:3:a', '0:2:b'), 'x': ('true',)}
    """
    found: dict[str, tuple[str, ...]] = {}
    for index, each in enumerate(words):
        if not each.startswith("-"):
            continue
        name, equals, value = each.lstrip("-").partition("=")
        if not equals:
            after = words[index + 1] if index + 1 < len(words) else "-"
            value = "true" if after.startswith("-") else after
        found[name] = (*found.get(name, ()), value)
    return found


def go_duration(text: str) -> timedelta | None:
    """A duration as Go spells it; None when it is none.

    >>> go_duration("87600h0m0s").days, go_duration("soon")
    (3650, None)
    """
    try:
        return timedelta(seconds=seconds(text))
    except ValueError:
        return None


def _is_autoscaler(container: Mapping[str, Any]) -> bool:
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return bool(_IMAGE.search(str(container.get("image") or ""))) or any(
        str(word).rpartition("/")[2] == "cluster-autoscaler" for word in words[:1]
    )


def _version(text: str) -> Version | None:
    try:
        return Version.read(text)
    except BadInput:
        return None  # an image by digest, or a build of one's own, named otherwise


def _role(objects: Sequence[Mapping[str, Any]], namespace: str, account: str) -> str:
    for each in objects:
        metadata = each.get("metadata") or {}
        named = (metadata.get("namespace") or "default", metadata.get("name"))
        if each.get("kind") == "ServiceAccount" and named == (namespace, account):
            return str((metadata.get("annotations") or {}).get(_ROLE, ""))
    return ""


_TIME = re.compile(r"^[IWEF](\d{2})(\d{2}) (\d{2}):(\d{2}):(\d{2})(?:\.\d+)?\s")
_REFUSED = re.compile(
    r"Pod (?P<pod>\S+?) can't be scheduled on (?P<group>\S+?), "
    r"predicate (?:checking error|failed): (?P<said>.*)"
)
_PREDICATE = re.compile(r"predicateName=(\w+)|predicate \"(\w+)\"|^(\w+) predicate mismatch")
_REASONS = re.compile(r"predicateReasons=\[([^\]]*)\]|reasons?: (.*?)(?:; debugInfo=|, taints on node|$)")
_DEBUG = re.compile(r"debugInfo=(.*?)\)?$")
_ASKED = re.compile(
    r"Failed to (?:query the managed nodegroup (?P<name>\S+) for the cluster \S+ "
    r"while looking for \S+ (?P<why>.*)"
    r"|get (?:labels|taints|tags) from EKS DescribeNodegroup API for nodegroup (?P<name2>\S+) in cluster \S+ "
    r"because (?P<why2>.*))"
)
_MAX = re.compile(r"Skipping node group (?P<group>\S+) - max size reached")
_BACKOFF = re.compile(r"Node group (?P<group>\S+) is not ready for scale-?up(?: - (?P<why>.*))?")
_UNKNOWN_TYPE = re.compile(r'ASG "(?P<group>[^"]+)" uses the unknown EC2 instance type "(?P<type>[^"]+)"')
_STARTED = re.compile(r"\] Cluster Autoscaler (\d+\.\d+\.\d+\S*)")
_FLAG = re.compile(r"\] FLAG: --([\w-]+)=\"(.*)\"")
# EKS names a managed group's Auto Scaling group eks-NAME-UUID.
_EKS_NAME = re.compile(r"eks-(.+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_DENIED = ("AccessDenied", "not authorized", "UnauthorizedOperation", "403")
_EVENT = "NotTriggerScaleUp"
_EVENT_REASON = re.compile(r"(\d+) ([^,]+)")
# A refusal that persists is repeated within seconds in the log, within five minutes in events.
RECENT = timedelta(minutes=10)
FULL = "max node group size reached"
BACKOFF = "in backoff"
# Reasons to pass over a group without a look at its template.
_PASSED_OVER = (FULL, BACKOFF, "not ready for scale-up", "max cluster")
# Of these, one group may give several at once.
_OF_SIZE = ("Insufficient", "Too many pods")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A pod that the autoscaler did not see fit on a group's template, or on those of several.

    An event names no group (`group` is ""), but counts them for each reason; its `at` has a zone.
    """

    pod: str
    group: str
    rule: str
    reasons: str
    debug: str = ""
    at: datetime | None = None
    line: str = ""
    counts: tuple[tuple[int, str], ...] = ()

    @property
    def by_templates(self) -> int:
        """How many groups at least an event says have refused the pod for what their nodes are like."""
        told = [(n, why) for n, why in self.counts if not why.startswith(_PASSED_OVER)]
        of_size = max((n for n, why in told if why.startswith(_OF_SIZE)), default=0)
        return of_size + sum(n for n, why in told if not why.startswith(_OF_SIZE))

    def said(self, reason: str) -> int:
        """For how many groups an event gives a reason that begins so."""
        return sum(n for n, why in self.counts if why.startswith(reason))

    def __str__(self) -> str:
        """In short: an empty debugInfo is worth saying, it means that the template had nothing to show."""
        if not self.group:
            return self.line
        debug = self.debug or "empty"
        return f"log: {self.pod} can't be scheduled on {self.group}: {self.reasons}; debugInfo {debug}"


@dataclass(frozen=True, slots=True)
class AskFailed:
    """A call of ``eks:DescribeNodegroup`` that failed."""

    nodegroup: str
    why: str
    at: datetime | None

    @property
    def denied(self) -> bool:
        """Whether IAM refused, rather than the call failing."""
        return any(word in self.why for word in _DENIED)


@dataclass(slots=True)
class Evidence:
    """All that was read. `last` is when the log ends, `now` the moment that events are looked at."""

    refusals: list[Refusal] = field(default_factory=list)
    asked: list[AskFailed] = field(default_factory=list)
    at_max: dict[str, str] = field(default_factory=dict)
    backoff: dict[str, str] = field(default_factory=dict)
    unknown_types: dict[str, str] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    version: Version | None = None
    last: datetime | None = None
    now: datetime | None = None

    def is_recent(self, refusal: Refusal) -> bool:
        """Whether a refusal may still stand; one that was not repeated since does not."""
        if refusal.group:
            ago = self.ago(refusal.at)
        else:
            ago = self.now - refusal.at if self.now and refusal.at else None
        return ago is None or ago <= RECENT

    def failed(self, nodegroup: str) -> AskFailed | None:
        """The last failed question about a managed node group."""
        return next((each for each in reversed(self.asked) if each.nodegroup == nodegroup), None)

    def ago(self, at: datetime | None) -> timedelta | None:
        """How long before the end of the log something was; None when not known."""
        if at is None or self.last is None:
            return None
        passed = self.last - at
        # No year is said: what seems to lie ahead was in the year before.
        return passed if passed >= timedelta() else passed + timedelta(days=366)


def without_suffix(asg: str) -> str:
    """The managed node group that the name of an Auto Scaling group speaks of, "" if none.

    >>> without_suffix("eks-large-56c9efb8-09b4-a2a8-50c7-7a370d197f3a")
    'large'
    """
    found = _EKS_NAME.fullmatch(asg)
    return found[1] if found else ""


def read_log(text: str, into: Evidence | None = None) -> Evidence:
    """What a log of Cluster Autoscaler tells.

    >>> line = "I1219 17:02:40.780094 1 orchestrator.go:594] Pod a/b can't be scheduled on eks-x, " + (
    ...     "predicate checking error: node(s) had untolerated taint(s); predicateName=TaintToleration; "
    ...     "reasons: node(s) had untolerated taint(s); debugInfo=")
    >>> [(each.pod, each.group, each.rule) for each in read_log(line).refusals]
    [('a/b', 'eks-x', 'TaintToleration')]
    """
    found = into or Evidence()
    refusals: dict[tuple[str, str], Refusal] = {(each.pod, each.group): each for each in found.refusals}
    for line in text.splitlines():
        at = _time(line)
        if at is not None:
            found.last = at
        if said := _REFUSED.search(line):
            refusal = _refusal(said["pod"], said["group"], said["said"], at, line.strip())
            # The same again every ten seconds: the last one counts.
            refusals[refusal.pod, refusal.group] = refusal
        elif asked := _ASKED.search(line):
            name, why = asked["name"] or asked["name2"], asked["why"] or asked["why2"] or ""
            found.asked.append(AskFailed(name, why.rstrip("."), at))
        elif full := _MAX.search(line):
            found.at_max[full["group"]] = line.strip()
        elif waits := _BACKOFF.search(line):
            found.backoff[waits["group"]] = waits["why"] or "not ready for scale-up"
        elif unknown := _UNKNOWN_TYPE.search(line):
            found.unknown_types[unknown["group"]] = unknown["type"]
        elif flag := _FLAG.search(line):
            found.flags[flag[1]] = flag[2]
        elif started := _STARTED.search(line):
            found.version = _version(started[1])
    found.refusals = list(refusals.values())
    return found


def read_events(
    objects: Iterable[Mapping[str, Any]], into: Evidence | None = None, now: datetime | None = None
) -> Evidence:
    """What events of kind NotTriggerScaleUp tell: reasons with the number of groups that gave them.

    Without `now`, as with files of some day, it is when the last of all events was.
    """
    found = into or Evidence()
    events = [each for each in objects if each.get("kind") == "Event"]
    moments = [at for each in events if (at := _moment(each)) is not None]
    found.now = now or max(moments, default=None)
    for event in events:
        if event.get("reason") != _EVENT:
            continue
        about = event.get("involvedObject") or event.get("regarding") or {}
        message = str(event.get("message") or event.get("note") or "")
        pod = f"{about.get('namespace') or 'default'}/{about.get('name')}"
        _, colon, said = message.partition(": ")
        told = _EVENT_REASON.findall(said if colon else message)
        counts = tuple((int(number), reason.strip()) for number, reason in told)
        reasons = "; ".join(reason for _, reason in counts)
        line = f"event {_EVENT}: {message}"
        found.refusals.append(Refusal(pod, "", "", reasons, at=_moment(event), line=line, counts=counts))
    return found


def _moment(event: Mapping[str, Any]) -> datetime | None:
    """When an event was last seen; None where nothing says it in a form that can be read."""
    series, metadata = event.get("series") or {}, event.get("metadata") or {}
    keys = ("lastTimestamp", "deprecatedLastTimestamp", "eventTime")
    said = (series.get("lastObservedTime"), *map(event.get, keys), metadata.get("creationTimestamp"))
    first = next((each for each in said if each), None)
    try:
        # YAML has moments of its own.
        at = first if isinstance(first, datetime) else datetime.fromisoformat(str(first))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _refusal(pod: str, group: str, said: str, at: datetime | None, line: str) -> Refusal:
    rule = _PREDICATE.search(said)
    reasons = _REASONS.search(said)
    debug = _DEBUG.search(said)
    return Refusal(
        pod=pod if "/" in pod else f"default/{pod}",
        group=group,
        rule=next((each for each in rule.groups() if each), "") if rule else "",
        reasons=(next((each for each in reasons.groups() if each), "") if reasons else "") or said,
        debug=debug[1] if debug else "",
        at=at,
        line=line,
    )


def _time(line: str) -> datetime | None:
    found = _TIME.match(line)
    if found is None:
        return None
    month, day, hour, minute, second = (int(part) for part in found.groups())
    try:
        # A leap year, so that every day there is can be parsed.
        return datetime(2024, month, day, hour, minute, second)
    except ValueError:
        return None
