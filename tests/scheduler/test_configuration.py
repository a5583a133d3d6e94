"""The configuration file and the flags over it: every mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.doors.scheduler.configuration import Configuration, load, merged
from fairlead.errors import BadInput
from fairlead.kube.duration import seconds

HEAD = "apiVersion: fairlead.dev/v1alpha1\nkind: FairleadConfiguration\n"


def file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "fairlead.yaml"
    path.write_text(text)
    return path


def test_without_a_file_the_defaults_count():
    found = merged({}, {})
    assert found == Configuration()
    assert found.settings().scheduler_names == ("fairlead",)
    assert found.leader_election.enabled


def test_every_section_reaches_the_engine(tmp_path: Path):
    text = """
schedulerNames: [a, b]
namespaces: [shop]
capacity: exclusive
queue: {order: fifo, reserveAfter: 1h30m, backoff: 500ms, backoffMax: 20}
gangs: {settle: 2s, commitTimeout: 5m}
preemption: {evict: delete, pdb: best-effort, others: true, timeout: 1m, retry: 1s}
priorityAnnotation: {max: 7, namespaceSelector: {matchLabels: {team: a}}}
"""
    found = merged(load(file(tmp_path, HEAD + text)), {})
    settings = found.settings()
    assert settings.scheduler_names == ("a", "b")
    assert settings.namespaces == ("shop",)
    assert (settings.capacity, settings.order, settings.pdb) == ("exclusive", "fifo", "best-effort")
    assert settings.preempt_others
    assert (settings.reserve_after_s, settings.backoff_s, settings.backoff_max_s) == (5400, 0.5, 20)
    assert (settings.settle_s, settings.commit_timeout_s) == (2, 300)
    assert (settings.preemption_timeout_s, settings.eviction_retry_s) == (60, 1)
    assert settings.priority_annotation.max == 7
    assert found.preemption.evict == "delete"


def test_flags_win_over_the_file(tmp_path: Path):
    fields = load(file(tmp_path, HEAD + "capacity: exclusive\nqueue: {order: fifo, backoff: 3s}\n"))
    found = merged(fields, {"capacity": "resources", "queue.order": "smallest"})
    assert found.capacity == "resources"
    assert found.queue.order == "smallest"
    assert seconds(found.queue.backoff) == 3


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("queue: {order: random}", "queue.order"),
        ("queue: {backoff: soon}", "queue.backoff"),
        ("gangs: {settle: -5}", "gangs.settle"),
        ("capacity: shared", "capacity"),
        ("schedulerName: a", "schedulerName"),
        ("schedulerNames: []", "schedulerNames"),
        ("inFlight: 0", "inFlight"),
        ("inFlight: many", "inFlight"),
        ("listen: nowhere", "listen"),
        ("leaderElection: {leaseDuration: 5s}", "leaderElection"),
        ("record: {segmentBytes: 1}", "record.segmentBytes"),
        ("priorityAnnotation: {max: high}", "priorityAnnotation.max"),
        ("priorityAnnotation: {max: 1000000001}", "priorityAnnotation.max: 1000000001 .* 1000000000"),
        ("priorityAnnotation: {max: -2147483649}", "priorityAnnotation.max: -2147483649 is not between"),
        # An empty selector selects every namespace, so one with a misspelt field must not count as empty.
        ("priorityAnnotation: {namespaceSelector: {matchLabel: {a: b}}}", "namespaceSelector.*matchLabel"),
        (
            "priorityAnnotation: {namespaceSelector: {matchExpressions: [{key: a, operator: Is}]}}",
            "priorityAnnotation.namespaceSelector.a: 'Is' is not an operator",
        ),
    ],
)
def test_a_mistake_names_the_field(tmp_path: Path, text: str, named: str):
    with pytest.raises(BadInput, match=named):
        load(file(tmp_path, HEAD + text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a FairleadConfiguration"),
        ("kind: FairleadConfiguration\n", "apiVersion"),
        ("apiVersion: fairlead.dev/v1alpha1\nkind: Deployment\n", "kind"),
        ("a: [", "is neither YAML nor JSON"),
        (HEAD + "---\n" + HEAD, "has 2 documents, not one"),
        (HEAD + HEAD, "'apiVersion' is given twice"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str, said: str):
    with pytest.raises(BadInput, match=said):
        load(file(tmp_path, text))


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(BadInput, match=r"nowhere\.yaml: cannot be read"):
        load("nowhere.yaml")
