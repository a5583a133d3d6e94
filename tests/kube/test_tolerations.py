"""Which tolerations cover which taints."""

from __future__ import annotations

import pytest

from fairlead.kube.tolerations import Taint, Toleration, tolerated

TAINT = Taint("size", "NoSchedule", "large")


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("size", "Equal", "large", "NoSchedule"), True),
        (Toleration("size", "", "large", "NoSchedule"), True),
        (Toleration("size", "Equal", "large"), True),
        (Toleration("size", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("", "Exists", "", "NoExecute"), False),
        (Toleration("size", "Equal", "small"), False),
        (Toleration("other", "Exists"), False),
        (Toleration("size", "Equal", "large", "NoExecute"), False),
        (Toleration("size", "Like", "large"), False),
    ],
)
def test_a_toleration_covers(toleration: Toleration, covers: bool) -> None:
    assert toleration.covers(TAINT) is covers
    assert tolerated(TAINT, (toleration,)) is covers


def test_no_toleration_covers_nothing() -> None:
    assert not tolerated(TAINT, ())


def test_a_taint_is_spelt_as_kubectl_does() -> None:
    assert str(TAINT) == "size=large:NoSchedule"
    assert str(Taint("gone", "NoExecute")) == "gone:NoExecute"
