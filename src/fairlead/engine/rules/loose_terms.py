"""LooseTerms: a namespace may have only N distinct terms whose selectors demand no label outright.

Each of them has to be compared with every pod, so that without a limit the pods of one namespace could make
every decision slow. kube-scheduler has no such limit, and is slow.
"""

from __future__ import annotations

from fairlead.engine.rules.reasons import Rejection
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.loose_terms import TERMS_MAX, over_limit
from fairlead.engine.snapshot.snapshot import Snapshot

NAME = "LooseTerms"


def reject(snapshot: Snapshot, cls: PodClass) -> Rejection | None:
    """A pod whose terms are too many beside those of the placed pods of its namespace."""
    if not cls.loose:
        return None
    placed = snapshot.classes.placed_terms.terms_in(cls.namespace)
    if not over_limit(cls.loose, placed):
        return None
    return Rejection(NAME, words(cls.namespace), sentence=words(cls.namespace), own=True)


def words(namespace: str) -> str:
    """What is said of a pod that waits for this; without numbers, which would change all the time."""
    return (
        f"namespace {namespace} would have more than {TERMS_MAX} distinct pod affinity terms and spread "
        "constraints whose labelSelector has neither matchLabels nor an In with one value: add one of these, "
        "or wait: the pod is tried again when there are fewer"
    )
