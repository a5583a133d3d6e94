"""``FairleadConfiguration``: everything that can be told to a scheduler, in one versioned file.

Flags win over the file. Every mistake names the field. Durations are spelt as Kubernetes users do
(``90s``, ``10m``, ``1h30m``), plain numbers are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from fairlead.doors.address import check_address
from fairlead.engine.planning.priority import HIGHEST, LOWEST, PriorityAnnotation
from fairlead.engine.planning.settings import QueueOrder, RankingOrder, Settings
from fairlead.errors import BadInput, BadObject
from fairlead.kube.documents import documents
from fairlead.kube.duration import seconds
from fairlead.kube.selectors import LabelSelector, check_selector

API_VERSION = "fairlead.dev/v1alpha1"
KIND = "FairleadConfiguration"


class Seconds(float):
    """A duration as the file spells it (``90s``, ``1h30m``), read."""


class _Section(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A part of the file: misspelt fields are errors, not silence."""


class QueueSection(_Section, frozen=True):
    """Which pods are tried when."""

    order: QueueOrder = "smallest"
    reserve_after: Seconds = Seconds(600)
    backoff: Seconds = Seconds(1)
    backoff_max: Seconds = Seconds(10)


class GangSection(_Section, frozen=True):
    """When a gang's size is believed, and how long it may be bound in part."""

    settle: Seconds = Seconds(5)
    commit_timeout: Seconds = Seconds(60)


class PreemptionSection(_Section, frozen=True):
    """How others make room."""

    evict: Literal["api", "delete"] = "api"
    pdb: Literal["respect", "best-effort"] = "respect"
    others: bool = False
    timeout: Seconds = Seconds(300)
    retry: Seconds = Seconds(5)


class Selector(LabelSelector, frozen=True, forbid_unknown_fields=True):
    """A label selector in which misspelt fields are errors too: an empty one selects every namespace."""


class PriorityAnnotationSection(_Section, frozen=True):
    """Where the annotation ``priority`` is honoured, and how high it may reach."""

    namespace_selector: Selector | None = None
    max: int = HIGHEST

    def limits(self) -> PriorityAnnotation:
        """The same, as the engine takes it."""
        given = self.namespace_selector
        selector = LabelSelector(given.match_labels, given.match_expressions) if given is not None else None
        return PriorityAnnotation(selector, self.max)


class LeaderElectionSection(_Section, frozen=True):
    """Several replicas, one of which works."""

    enabled: bool = True
    lease_name: str = "fairlead-scheduler"
    lease_duration: Seconds = Seconds(15)
    renew_deadline: Seconds = Seconds(10)
    retry_period: Seconds = Seconds(2)


class RecordSection(_Section, frozen=True):
    """A recording of every decision's inputs; no file: none."""

    file: str = ""
    segment_bytes: int = 256 * 1024 * 1024
    segments: int = 4


class RebuildSection(_Section, frozen=True):
    """The last resort: forget everything and list again."""

    delay: Seconds = Seconds(10)
    interval: Seconds = Seconds(30)


class DriftSection(_Section, frozen=True):
    """How often what we know is compared with the API (0: never), and how much may differ."""

    interval: Seconds = Seconds(300)
    settle: Seconds = Seconds(5)
    tolerated: int = 100


class Configuration(_Section, frozen=True):
    """The whole file."""

    kubeconfig: str = ""
    context: str = ""
    scheduler_names: tuple[str, ...] = ("fairlead",)
    namespaces: tuple[str, ...] = ()
    system_namespace: str = ""
    capacity: Literal["resources", "exclusive"] = "resources"
    listen: str = ""
    policies: str = ""
    in_flight: int = 64
    ranking: RankingOrder = "spread"
    queue: QueueSection = QueueSection()
    gangs: GangSection = GangSection()
    preemption: PreemptionSection = PreemptionSection()
    priority_annotation: PriorityAnnotationSection = PriorityAnnotationSection()
    leader_election: LeaderElectionSection = LeaderElectionSection()
    record: RecordSection = RecordSection()
    rebuild: RebuildSection = RebuildSection()
    drift: DriftSection = DriftSection()

    def settings(self) -> Settings:
        """What of it the engine must know."""
        return Settings(
            scheduler_names=self.scheduler_names,
            namespaces=self.namespaces,
            preempt_others=self.preemption.others,
            pdb=self.preemption.pdb,
            capacity=self.capacity,
            order=self.queue.order,
            ranking=self.ranking,
            priority_annotation=self.priority_annotation.limits(),
            settle_s=float(self.gangs.settle),
            reserve_after_s=float(self.queue.reserve_after),
            backoff_s=float(self.queue.backoff),
            backoff_max_s=float(self.queue.backoff_max),
            preemption_timeout_s=float(self.preemption.timeout),
            commit_timeout_s=float(self.gangs.commit_timeout),
            eviction_retry_s=float(self.preemption.retry),
        )


def read_configuration(file: str | None, flags: Mapping[str, Any]) -> Configuration:
    """The configuration of a file, if there is one, with flags over it."""
    return merged(load(file) if file else {}, flags, where=file or "flags")


def load(path: str | Path) -> dict[str, Any]:
    """The fields of a configuration file, as plain data, checked."""
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: {error}") from error
    found = [document for document in documents(text, str(path)) if document is not None]
    if len(found) > 1:
        raise BadInput(f"{path}: has {len(found)} documents, not one")
    if not found or not isinstance(found[0], dict):
        raise BadInput(f"{path}: is not a {KIND}")
    fields = dict(found[0])
    for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        said = fields.pop(name, None)
        if said != wanted:
            raise BadInput(f"{path}: {name}: {said!r} is not {wanted!r}")
    merged(fields, {}, where=str(path))
    return fields


def merged(fields: Mapping[str, Any], flags: Mapping[str, Any], *, where: str = "flags") -> Configuration:
    """The configuration of a file's fields with flags over them; `flags` may name ``section.field``."""
    plain = dict(fields)
    for name, value in flags.items():
        section, _, field = name.rpartition(".")
        if section:
            plain[section] = {**(plain.get(section) or {}), field: value}
        else:
            plain[field] = value
    try:
        found = msgspec.convert(plain, Configuration, dec_hook=_read_seconds)
    except msgspec.ValidationError as error:
        raise BadInput(f"{where}: {_readable(str(error))}") from None
    _check(found, where)
    return found


def _check(found: Configuration, where: str) -> None:
    if not found.scheduler_names or not all(found.scheduler_names):
        raise BadInput(f"{where}: schedulerNames: at least one name is needed, none may be empty")
    if found.in_flight < 1:
        raise BadInput(f"{where}: inFlight: must be at least 1")
    election = found.leader_election
    if not election.lease_duration > election.renew_deadline > election.retry_period > 0:
        raise BadInput(
            f"{where}: leaderElection: leaseDuration must be more than renewDeadline, "
            "and that more than retryPeriod"
        )
    try:
        check_selector(
            where, "priorityAnnotation.namespaceSelector", found.priority_annotation.namespace_selector
        )
    except BadObject as error:
        raise BadInput(str(error)) from None
    highest = found.priority_annotation.max
    if not LOWEST <= highest <= HIGHEST:
        raise BadInput(
            f"{where}: priorityAnnotation.max: {highest} is not between {LOWEST} and {HIGHEST}, "
            "the highest value of a PriorityClass that is not Kubernetes' own"
        )
    if found.listen:
        check_address(found.listen, f"{where}: listen")
    if found.record.segment_bytes < 4096:
        raise BadInput(f"{where}: record.segmentBytes: must be at least 4096")


def _read_seconds(_: type, duration: Any) -> Seconds:
    """Of all fields only durations are of a type that msgspec does not know."""
    if isinstance(duration, bool) or not isinstance(duration, str | int | float):
        raise ValueError(f"{duration!r} is not a duration like 90s, 10m or 1h30m")
    return Seconds(seconds(duration))


def _readable(message: str) -> str:
    """What msgspec says, ``Expected `int`, got `str` - at `$.queue.max``` with the field in front."""
    text, _, path = message.partition(" - at `$.")
    if path:
        return f"{path.rstrip('`')}: {text}"
    return text
