"""Which tiers are left alone, for how long, and who may try them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import BadObject
from fairlead.policy.tiers.marks import LONGEST_COOL_DOWN_S, PROBE_S, Marks

NOW = 1_800_000_000.0


def failed(times: int = 1) -> tuple[Marks, float]:
    """Marks of a tier that failed so many times in a row, and the end of the cool-down."""
    marks, now = Marks(cool_down_s=60).failed("spot", NOW), NOW
    for number in range(times - 1):
        now = end(marks)
        claimed = marks.claim_probe("spot", f"pod-{number}", now)
        assert claimed is not None
        marks = claimed.failed("spot", now, f"pod-{number}")
    return marks, end(marks)


def end(marks: Marks) -> float:
    mark = marks.get("spot")
    assert mark is not None
    return mark.until.timestamp()


def test_a_tier_without_a_mark_is_used() -> None:
    assert Marks().get("spot") is None
    assert not Marks().may_probe("spot", NOW)
    assert Marks().claim_probe("spot", "a", NOW) is None


def test_a_tier_that_failed_is_left_alone_for_the_cool_down() -> None:
    marks, over = failed()
    assert over == NOW + 60
    assert marks.get("spot") is not None
    assert marks.claim_probe("spot", "a", NOW + 59) is None
    assert marks.get("on-demand") is None


def test_the_cool_down_doubles_up_to_half_an_hour() -> None:
    lengths = []
    for times in range(1, 9):
        marks, over = failed(times)
        mark = marks.get("spot")
        assert mark is not None
        lengths.append(over - mark.since.timestamp())
    assert lengths == [60, 120, 240, 480, 960, 1800, 1800, 1800]


def test_many_pods_failing_in_one_cool_down_double_it_once() -> None:
    marks, _ = failed()
    assert marks.failed("spot", NOW + 10, "another") is marks


def test_after_the_cool_down_one_pod_tries_while_others_skip_it() -> None:
    marks, over = failed()
    assert marks.may_probe("spot", over)
    claimed = marks.claim_probe("spot", "a", over)
    assert claimed is not None
    assert claimed.get("spot") is not None
    assert not claimed.may_probe("spot", over + 1)
    assert claimed.claim_probe("spot", "b", over + 1) is None


def test_a_probe_claimed_again_by_the_same_pod_changes_nothing() -> None:
    marks, over = failed()
    claimed = marks.claim_probe("spot", "a", over)
    assert claimed is not None
    assert claimed.claim_probe("spot", "a", over + 1) is claimed


def test_only_the_probe_can_fail_a_tier_whose_cool_down_is_over() -> None:
    marks, over = failed()
    assert marks.failed("spot", over + 5, "waits since long ago") is marks
    claimed = marks.claim_probe("spot", "a", over)
    assert claimed is not None
    assert claimed.failed("spot", over + 5, "waits since long ago") is claimed
    again = claimed.failed("spot", over + 5, "a")
    assert end(again) == over + 5 + 120


def test_success_ends_the_cool_down_and_resets_all_doubling() -> None:
    marks, over = failed(4)
    marks = marks.cleared("spot")
    assert marks.get("spot") is None
    assert end(marks.failed("spot", over)) == over + 60


def test_a_schedulable_node_that_appears_ends_the_cool_down_and_resets_all_doubling() -> None:
    marks, _ = failed(4)
    marks = marks.cleared("spot")
    assert marks.get("spot") is None
    assert end(marks.failed("spot", NOW)) == NOW + 60


def test_a_probe_that_is_gone_without_a_word_lets_another_try() -> None:
    marks, over = failed()
    claimed = marks.claim_probe("spot", "a", over)
    assert claimed is not None
    assert claimed.released("spot", "b") is claimed
    assert claimed.released("spot", "a").may_probe("spot", over)


def test_a_probe_that_nobody_reports_on_runs_out() -> None:
    marks, over = failed()
    claimed = marks.claim_probe("spot", "a", over)
    assert claimed is not None
    assert not claimed.may_probe("spot", over + PROBE_S - 1)
    assert claimed.may_probe("spot", over + PROBE_S)


def test_an_interrupted_tier_is_skipped_at_once() -> None:
    marks = Marks(cool_down_s=60).interrupted("spot", NOW, "its last node was cordoned")
    mark = marks.get("spot")
    assert mark is not None
    assert mark.interrupted
    assert marks.get("spot") is not None
    assert end(marks) == NOW + 60


def test_an_interruption_during_a_cool_down_does_not_prolong_it() -> None:
    marks, over = failed()
    hit = marks.interrupted("spot", NOW + 10)
    assert end(hit) == over
    assert hit.interrupted("spot", NOW + 11) is hit
    mark = hit.get("spot")
    assert mark is not None
    assert mark.interrupted


def test_an_interruption_of_a_probe_begins_a_longer_cool_down() -> None:
    marks, over = failed()
    claimed = marks.claim_probe("spot", "a", over)
    assert claimed is not None
    assert end(claimed.interrupted("spot", over)) == over + 120


def test_marks_of_tiers_that_a_policy_no_longer_has_are_dropped() -> None:
    marks = Marks().failed("spot", NOW).failed("old", NOW)
    assert list(marks.only(["spot"]).to_plain()) == ["spot"]
    kept = marks.only(["spot", "old"])
    assert kept is marks


def test_what_is_not_a_mark_is_an_error_that_names_it() -> None:
    with pytest.raises(BadObject, match="until"):
        Marks.from_plain({"spot": {"since": "2026-01-01T00:00:00Z", "until": 5}}, 60)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["failed", "interrupted", "appeared", "claim", "released", "succeeded"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 4000),
    ),
    max_size=40,
)


@given(STEPS)
def test_whatever_happens_marks_survive_the_api_and_never_cool_down_too_long(
    steps: list[tuple[str, str, int]],
) -> None:
    marks, now = Marks(cool_down_s=60), NOW
    trying: str | None = None
    for what, who, later in steps:
        now += later
        before = marks
        match what:
            case "failed":
                marks = marks.failed("spot", now, who)
            case "interrupted":
                marks = marks.interrupted("spot", now)
            case "appeared":
                marks = marks.cleared("spot")
            case "released":
                marks = marks.released("spot", who)
            case "succeeded":
                marks = marks.cleared("spot")
            case _:
                marks = marks.claim_probe("spot", who, now) or marks
        assert Marks.from_plain(marks.to_plain(), 60) == marks
        mark = marks.get("spot")
        trying = mark.probe if mark is not None and mark.probed(now) else None
        if mark is not None:
            assert mark.until.timestamp() - mark.since.timestamp() <= LONGEST_COOL_DOWN_S
            assert mark.probe == "" or not mark.cooling(now)
        held = before.get("spot")
        if what == "claim" and held is not None and held.probed(now) and held.probe != who:
            assert trying == held.probe, "two pods tried at once"
