"""``FairleadConfiguration``: everything that can be told to a scheduler, in one versioned file.

Flags win over the file. Every mistake names the field. Durations are spelt as Kubernetes users do
(``90s``, ``10m``, ``1h30m``), plain numbers are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from fairlead.doors.address import check_address
from fairlead.engine.order import QueueOrder
from fairlead.engine.priority import HIGHEST, LOWEST, PriorityAnnotation
from fairlead.engine.settings import Settings
from fairlead.errors import BadInput, BadObject
from fairlead.kube.documents import documents
from fairlead.kube.duration import Duration, seconds
from fairlead.kube.selectors import LabelSelector, check_selector

if TYPE_CHECKING:
    # It brings the HTTP client, which commands that answer from files do without.
    from fairlead.client.election import Terms

__all__ = ["API_VERSION", "KIND", "Configuration", "load", "merged", "read_configuration"]

API_VERSION = "fairlead.dev/v1alpha1"
KIND = "FairleadConfiguration"


class _Section(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A part of the file: misspelt fields are errors, not silence."""


class QueueSection(_Section, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Who is tried when."""

    order: QueueOrder = "smallest"
    reserve_after: Duration = "10m"
    backoff: Duration = "1s"
    backoff_max: Duration = "10s"


class GangSection(_Section, frozen=True, rename="camel", forbid_unknown_fields=True):
    """When a gang's size is believed, and how long it may be bound in part."""

    settle: Duration = "5s"
    commit_timeout: Duration = "60s"


class PreemptionSection(_Section, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How others make room."""

    evict: Literal["api", "delete"] = "api"
    pdb: Literal["respect", "best-effort"] = "respect"
    others: bool = False
    timeout: Duration = "5m"
    retry: Duration = "5s"


class Selector(LabelSelector, frozen=True, rename="camel", forbid_unknown_fields=True, gc=False):
    """A label selector in which misspelt fields are errors too: an empty one selects every namespace."""


class PriorityAnnotationSection(_Section, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Where the annotation ``priority`` is honoured, and how high it may reach."""

    namespace_selector: Selector | None = None
    max: int = HIGHEST

    def limits(self) -> PriorityAnnotation:
        """The same, as the engine takes it."""
        given = self.namespace_selector
        selector = LabelSelector(given.match_labels, given.match_expressions) if given is not None else None
        return PriorityAnnotation(selector, self.max)


class LeaderElectionSection(_Section, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Several replicas, one of which works."""

    enabled: bool = True
    lease_name: str = "fairlead-scheduler"
    lease_duration: Duration = "15s"
    renew_deadline: Duration = "10s"
    retry_period: Duration = "2s"


class RecordSection(_Section, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A recording of every decision's inputs; no file: none."""

    file: str = ""
    segment_bytes: int = 256 * 1024 * 1024
    segments: int = 4


class RebuildSection(_Section, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The last resort: forget everything and list again."""

    delay: Duration = "10s"
    interval: Duration = "30s"


class DriftSection(_Section, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How often what we know is compared with the API (0: never), and how much may differ."""

    interval: Duration = "5m"
    settle: Duration = "5s"
    tolerated: int = 100


class Configuration(_Section, frozen=True, rename="camel", forbid_unknown_fields=True):
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
            priority_annotation=self.priority_annotation.limits(),
            settle_s=seconds(self.gangs.settle),
            reserve_after_s=seconds(self.queue.reserve_after),
            backoff_s=seconds(self.queue.backoff),
            backoff_max_s=seconds(self.queue.backoff_max),
            preemption_timeout_s=seconds(self.preemption.timeout),
            commit_timeout_s=seconds(self.gangs.commit_timeout),
            eviction_retry_s=seconds(self.preemption.retry),
        )

    def terms(self) -> Terms:
        """The times of leader election."""
        from fairlead.client.election import Terms

        election = self.leader_election
        return Terms(
            lease_s=seconds(election.lease_duration),
            renew_s=seconds(election.renew_deadline),
            retry_s=seconds(election.retry_period),
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
    plain: dict[str, Any] = {
        key: dict(value) if isinstance(value, dict) else value for key, value in fields.items()
    }
    for name, value in flags.items():
        section, _, field = name.rpartition(".")
        if section:
            plain[section] = {**(plain.get(section) or {}), field: value}
        else:
            plain[field] = value
    try:
        found = msgspec.convert(plain, Configuration)
    except msgspec.ValidationError as error:
        raise BadInput(f"{where}: {_readable(str(error))}") from None
    _check(found, where)
    return found


def _check(found: Configuration, where: str) -> None:
    durations = {
        f"{section}.{msgspec.structs.fields(value)[index].encode_name}": getattr(value, name)
        for section, value in (
            ("queue", found.queue),
            ("gangs", found.gangs),
            ("preemption", found.preemption),
            ("leaderElection", found.leader_election),
            ("rebuild", found.rebuild),
            ("drift", found.drift),
        )
        for index, name in enumerate(value.__struct_fields__)
        if msgspec.structs.fields(value)[index].type == Duration
    }
    for field, duration in durations.items():
        try:
            seconds(duration)
        except ValueError as error:
            raise BadInput(f"{where}: {field}: {error}") from None
    if not found.scheduler_names or not all(found.scheduler_names):
        raise BadInput(f"{where}: schedulerNames: at least one name is needed, none may be empty")
    if found.in_flight < 1:
        raise BadInput(f"{where}: inFlight: must be at least 1")
    election = found.leader_election
    lease_s, renew_s = seconds(election.lease_duration), seconds(election.renew_deadline)
    if not lease_s > renew_s > seconds(election.retry_period) > 0:
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


def _readable(message: str) -> str:
    """What msgspec says, ``Expected `int`, got `str` - at `$.queue.max``` with the field in front."""
    text, _, path = message.partition(" - at `$.")
    if path:
        return f"{path.rstrip('`')}: {text}"
    return text
