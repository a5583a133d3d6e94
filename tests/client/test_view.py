"""What a watch has shown: right although frames come twice, late, or spoiled."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.client.lines import TooLong
from fairlead.client.view import Added, Deleted, Distrust, Event, Modified, Spoiled, View
from fairlead.errors import ApiError, BadObject, Gone
from fairlead.kube.decode import decoder
from fairlead.kube.pod import Pod
from support.odd_server import bookmark, frame


def pod(name: str, version: int | str, uid: str = "", **spec: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"kind": "Pod", "metadata": metadata, "spec": spec}


class Watched:
    """A view with a consumer beside it, which believes only what it is told."""

    def __init__(self) -> None:
        self.bad: list[BadObject] = []
        self.view: View[Pod, Pod] = View("Pod", decoder(Pod), lambda pod: pod, self.bad.append)
        self.told: dict[str, Pod] = {}
        self.events: list[Event[Pod, Pod]] = []

    def frame(self, kind: str, obj: dict[str, Any]) -> list[Event[Pod, Pod]]:
        return self.line(frame(kind, obj).rstrip())

    def line(self, line: bytes | TooLong) -> list[Event[Pod, Pod]]:
        batch: list[Event[Pod, Pod]] = []
        try:
            self.view.frame(line, batch)
        finally:
            self.hear(batch)
        return batch

    def listing(self, *objects: dict[str, Any], at: int) -> list[Event[Pod, Pod]]:
        batch: list[Event[Pod, Pod]] = []
        self.view.begin()
        for obj in objects:
            self.view.take(json.dumps(obj).encode(), batch)
        self.view.end(str(at), batch)
        self.hear(batch)
        return batch

    def hear(self, batch: list[Event[Pod, Pod]]) -> None:
        for event in batch:
            match event:
                case Added():
                    assert event.key not in self.told
                    self.told[event.key] = event.object
                case Modified():
                    assert self.told[event.key] == event.old
                    self.told[event.key] = event.object
                case Deleted(last=None):
                    assert event.key not in self.told
                case Deleted():
                    assert self.told.pop(event.key) == event.last
        self.events += batch
        assert self.told == dict(self.view.items())


@pytest.fixture
def watched() -> Watched:
    watched = Watched()
    watched.listing(pod("a", 3), pod("b", 5), at=10)
    return watched


def said(batch: list[Event[Pod, Pod]]) -> list[str]:
    return [f"{type(event).__name__} {getattr(event, 'key', '')}".strip() for event in batch]


class TestAFaithfulStream:
    def test_a_listing_tells_everything_and_that_it_is_complete(self) -> None:
        assert said(Watched().listing(pod("a", 3), pod("b", 5), at=10)) == [
            "Added shop/a",
            "Added shop/b",
            "Synced",
        ]

    def test_changes_are_told_with_what_was_before(self, watched: Watched) -> None:
        (change,) = watched.frame("MODIFIED", pod("a", 11, nodeName="n1"))
        assert isinstance(change, Modified)
        assert (change.old.spec.node_name, change.object.spec.node_name) == ("", "n1")
        (gone,) = watched.frame("DELETED", pod("a", 12, nodeName="n2"))
        assert isinstance(gone, Deleted)
        assert gone.last is not None
        assert gone.final is not None
        assert (gone.uid, gone.last.spec.node_name, gone.final.spec.node_name) == ("uid-a", "n1", "n2")

    def test_the_resume_point_follows_frames_and_bookmarks(self, watched: Watched) -> None:
        assert watched.view.resume == "10"
        watched.frame("ADDED", pod("c", 12))
        assert watched.view.resume == "12"
        watched.line(bookmark(40).rstrip())
        assert watched.view.resume == "40"
        watched.frame("DELETED", pod("c", 41))
        assert watched.view.resume == "41"

    def test_a_listing_through_the_watch_ends_with_its_bookmark(self) -> None:
        watched = Watched()
        watched.view.begin()
        watched.frame("ADDED", pod("a", 7))
        watched.line(bookmark(6).rstrip())
        assert watched.view.resume is None
        assert said(watched.line(bookmark(9, initial_end=True).rstrip())) == ["Synced"]
        assert watched.view.resume == "9"

    def test_other_spellings_of_a_frame_are_read_as_well(self, watched: Watched) -> None:
        text = json.dumps({"object": pod("c", 11), "more": 1, "type": "ADDED"}, indent=None).encode()
        assert said(watched.line(text)) == ["Added shop/c"]


class TestListingAgain:
    def test_what_is_missing_was_deleted_unseen(self, watched: Watched) -> None:
        batch = watched.listing(pod("b", 5), at=20)
        assert said(batch) == ["Deleted shop/a", "Synced"]
        assert isinstance(batch[0], Deleted)
        assert batch[0].final is None
        assert batch[0].last is not None

    def test_only_differences_are_told(self, watched: Watched) -> None:
        batch = watched.listing(pod("a", 3), pod("b", 15), pod("c", 16), at=20)
        assert said(batch) == ["Modified shop/b", "Added shop/c", "Synced"]

    def test_another_object_of_the_same_name_is_a_deletion_and_an_addition(self, watched: Watched) -> None:
        batch = watched.listing(pod("a", 15, uid="other"), pod("b", 5), at=20)
        assert said(batch) == ["Deleted shop/a", "Added shop/a", "Synced"]

    def test_a_cluster_that_was_set_back_is_believed(self, watched: Watched) -> None:
        watched.frame("MODIFIED", pod("a", 90, nodeName="n1"))
        assert said(watched.listing(pod("a", 3), pod("b", 5), at=6)) == ["Modified shop/a", "Synced"]
        assert watched.view.resume == "6"

    def test_changes_told_before_the_end_of_a_listing_count(self) -> None:
        watched = Watched()
        watched.view.begin()
        watched.frame("ADDED", pod("a", 3))
        watched.frame("ADDED", pod("b", 4))
        watched.frame("DELETED", pod("a", 6))
        watched.frame("MODIFIED", pod("b", 7))
        assert watched.frame("ADDED", pod("a", 3)) == []  # late: its deletion has been told
        assert watched.frame("ADDED", pod("b", 4)) == []
        watched.line(bookmark(8, initial_end=True).rstrip())
        assert {key: pod.metadata.resource_version for key, pod in watched.told.items()} == {"shop/b": "7"}


class TestFramesTwiceOrLate:
    def test_twice_is_once(self, watched: Watched) -> None:
        watched.frame("MODIFIED", pod("a", 11))
        assert watched.frame("MODIFIED", pod("a", 11)) == []
        watched.frame("DELETED", pod("a", 12))
        assert watched.frame("DELETED", pod("a", 12)) == []

    def test_an_older_state_does_not_undo_a_newer(self, watched: Watched) -> None:
        watched.frame("MODIFIED", pod("a", 12, nodeName="n1"))
        assert watched.frame("MODIFIED", pod("a", 11)) == []

    def test_the_late_deletion_of_a_former_object_does_not_touch_the_new_one(self, watched: Watched) -> None:
        assert said(watched.frame("ADDED", pod("a", 12, uid="new"))) == ["Deleted shop/a", "Added shop/a"]
        assert watched.frame("DELETED", pod("a", 11)) == []

    def test_a_late_frame_of_an_unknown_object_cannot_be_judged(self, watched: Watched) -> None:
        watched.frame("DELETED", pod("a", 12))
        with pytest.raises(Distrust):
            watched.frame("MODIFIED", pod("a", 11))

    def test_versions_that_are_no_numbers_are_taken_as_they_come(self) -> None:
        watched = Watched()
        watched.view.begin()
        watched.frame("ADDED", pod("a", "x9"))
        batch: list[Event[Pod, Pod]] = []
        watched.view.end("r1", batch)
        assert said(watched.frame("MODIFIED", pod("a", "x1", nodeName="n"))) == ["Modified shop/a"]
        assert watched.view.resume == "x1"

    def test_a_line_that_is_no_frame_ends_all_trust(self, watched: Watched) -> None:
        for line in (
            b"hello",
            b'{"type":"ADDED","object":{"met',
            b'{"type":"SURPRISE","object":{}}',
            b"\xff\xfe",
        ):
            with pytest.raises(Distrust):
                watched.line(line)


class TestMending:
    """One object, read apart from the stream because a change to it was missed."""

    def mend(self, watched: Watched, obj: dict[str, Any]) -> list[str]:
        batch: list[Event[Pod, Pod]] = []
        watched.view.mend(json.dumps(obj).encode(), batch)
        watched.hear(batch)
        return said(batch)

    def test_a_missed_change_and_a_missed_creation_are_told(self, watched: Watched) -> None:
        watched.frame("ADDED", pod("c", 30))
        assert self.mend(watched, pod("a", 20, nodeName="n1")) == ["Modified shop/a"]
        assert self.mend(watched, pod("d", 21)) == ["Added shop/d"]
        assert watched.view.resume == "30"

    def test_the_stream_goes_on_from_where_it_was(self, watched: Watched) -> None:
        self.mend(watched, pod("a", 90))
        assert watched.view.resume == "10"
        assert said(watched.frame("ADDED", pod("c", 11))) == ["Added shop/c"]
        assert watched.frame("MODIFIED", pod("a", 80)) == []

    def test_what_is_known_in_a_newer_state_stays(self, watched: Watched) -> None:
        watched.frame("MODIFIED", pod("a", 20))
        assert self.mend(watched, pod("a", 15)) == []

    def test_a_missed_deletion_is_told_unless_it_changed_meanwhile(self, watched: Watched) -> None:
        batch: list[Event[Pod, Pod]] = []
        watched.view.lose("shop/a", 3, batch)
        watched.view.lose("shop/b", 4, batch)  # known at 5 by now
        watched.view.lose("shop/none", 1, batch)
        watched.hear(batch)
        assert said(batch) == ["Deleted shop/a"]

    def test_during_a_listing_nothing_is_done(self, watched: Watched) -> None:
        watched.view.begin()
        batch: list[Event[Pod, Pod]] = []
        watched.view.lose("shop/a", 3, batch)
        assert self.mend(watched, pod("a", 20)) == []
        assert batch == []


class TestErrorFrames:
    def test_an_expired_version_is_gone(self, watched: Watched) -> None:
        with pytest.raises(Gone):
            watched.frame("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})

    def test_another_error_is_itself(self, watched: Watched) -> None:
        with pytest.raises(ApiError, match="etcd is away"):
            watched.frame("ERROR", {"kind": "Status", "code": 500, "reason": "x", "message": "etcd is away"})


class TestBadObjects:
    BAD = {"priority": "high"}  # a text where a number belongs

    def test_one_that_cannot_be_read_is_named_and_the_rest_goes_on(self) -> None:
        watched = Watched()
        batch = watched.listing(pod("a", 3), pod("bad", 4, **self.BAD), pod("b", 5), at=10)
        assert said(batch) == ["Added shop/a", "Spoiled shop/bad", "Added shop/b", "Synced"]
        (error,) = watched.bad
        assert (error.object, error.field) == ("Pod shop/bad", "spec.priority")

    def test_a_known_one_that_turns_bad_is_not_silently_stale(self, watched: Watched) -> None:
        (spoiled,) = watched.frame("MODIFIED", pod("a", 11, **self.BAD))
        assert isinstance(spoiled, Spoiled)
        assert spoiled.last is not None
        assert list(watched.view.spoiled()) == ["shop/a"]
        assert said(watched.frame("MODIFIED", pod("a", 12))) == ["Modified shop/a"]
        assert watched.view.spoiled() == {}

    def test_one_that_was_never_readable_is_added_once_it_is(self, watched: Watched) -> None:
        watched.frame("ADDED", pod("c", 11, **self.BAD))
        assert said(watched.frame("MODIFIED", pod("c", 12))) == ["Added shop/c"]

    @pytest.mark.parametrize("name", ["a", "c"])
    def test_the_deletion_of_a_bad_one_is_told(self, watched: Watched, name: str) -> None:
        watched.frame("MODIFIED", pod(name, 11, **self.BAD))
        assert said(watched.frame("DELETED", pod(name, 12, **self.BAD))) == [f"Deleted shop/{name}"]
        assert watched.view.spoiled() == {}

    def test_the_missed_deletion_of_a_bad_one_is_told(self, watched: Watched) -> None:
        watched.frame("ADDED", pod("c", 11, **self.BAD))
        assert "Deleted shop/c" in said(watched.listing(pod("a", 3), pod("b", 5), at=20))

    def test_a_bad_one_still_in_the_listing_is_told_again_only_when_it_changed(
        self, watched: Watched
    ) -> None:
        watched.frame("ADDED", pod("c", 11, **self.BAD))
        rest = (pod("a", 3), pod("b", 5))
        assert "Spoiled shop/c" in said(watched.listing(*rest, pod("c", 15, **self.BAD), at=20))
        assert "Added shop/c" in said(watched.listing(*rest, pod("c", 16), at=30))

    def test_the_resume_point_passes_a_bad_one(self, watched: Watched) -> None:
        watched.frame("ADDED", pod("c", 11, **self.BAD))
        assert watched.view.resume == "11"

    @pytest.mark.parametrize(
        "obj",
        [
            {},
            {"metadata": None},
            {"metadata": {}},
            {"metadata": {"name": None}},
            {"metadata": {"name": 5}},
            {"spec": {}},
        ],
    )
    def test_one_without_a_name_is_reported_and_skipped(self, watched: Watched, obj: dict[str, Any]) -> None:
        assert watched.frame("ADDED", obj) == []
        assert len(watched.bad) == 1
        assert "Pod (no name)" in str(watched.bad[0])

    def test_the_deletion_of_one_without_a_name_cannot_be_judged(self, watched: Watched) -> None:
        with pytest.raises(Distrust):
            watched.frame("DELETED", {"metadata": {}})

    def test_unknown_fields_and_null_lists_are_fine(self, watched: Watched) -> None:
        obj = pod(
            "c", 11, containers=None, tolerations=None, newIn2030={"a": [1, {"b": None}]}, priority=None
        )
        assert said(watched.frame("ADDED", obj)) == ["Added shop/c"]
        assert watched.bad == []

    def test_one_larger_than_a_mebibyte_is_fine(self, watched: Watched) -> None:
        obj = pod("c", 11)
        obj["metadata"]["annotations"] = {"blob": "x" * (3 << 20)}
        assert said(watched.frame("ADDED", obj)) == ["Added shop/c"]

    def test_one_beyond_the_line_limit_is_named_by_its_start(self, watched: Watched) -> None:
        line = frame("MODIFIED", pod("a", 11, nodeName="x" * 9000))
        assert said(watched.line(TooLong(line[:5000], len(line)))) == ["Spoiled shop/a"]
        gone = frame("DELETED", pod("a", 12, nodeName="x" * 9000))
        assert said(watched.line(TooLong(gone[:5000], len(gone)))) == ["Deleted shop/a"]

    def test_one_nested_beyond_all_reason_spoils_nobody_else(self, watched: Watched) -> None:
        deep = b"[" * 100_000 + b"]" * 100_000
        head = frame("ADDED", pod("c", 11)).rstrip()[:-2]
        assert said(watched.line(head + b',"deep":' + deep + b"}}")) in (["Added shop/c"], ["Spoiled shop/c"])


# A history is a list of (object, what happens): whatever a faithful server could have sent for it, sent
# twice here and swapped there, must end in the same picture.
HISTORY = st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=40)
MISCHIEF = st.lists(st.sampled_from(["", "", "", "twice", "swap"]), min_size=90, max_size=90)


@given(history=HISTORY, mischief=MISCHIEF)
def test_any_mix_of_repeated_and_swapped_frames_ends_in_the_truth(
    history: list[tuple[str, bool]], mischief: list[str]
) -> None:
    frames, truth = _happened(history)
    sent = _disturbed(frames, mischief)
    watched = Watched()
    watched.listing(at=10)
    reached = 10
    while sent:
        version, line = sent.pop(0)
        reached = max(reached, version)
        try:
            watched.line(line)
        except Distrust:
            # List again, at what the server has sent by now, and go on from there.
            state = _state(frames, reached)
            watched.listing(*state.values(), at=reached)
            sent = [(number, kept) for number, kept in sent if number > reached]
    assert {key: kept.metadata.resource_version for key, kept in watched.told.items()} == {
        f"shop/{name}": obj["metadata"]["resourceVersion"] for name, obj in truth.items()
    }


def _happened(
    history: list[tuple[str, bool]],
) -> tuple[list[tuple[int, str, dict[str, Any]]], dict[str, Any]]:
    frames: list[tuple[int, str, dict[str, Any]]] = []
    alive: dict[str, dict[str, Any]] = {}
    for version, (name, changes) in enumerate(history, 11):
        if name not in alive:
            kind = "ADDED"
            alive[name] = obj = pod(name, version, uid=f"{name}{version}")
        else:
            kind = "MODIFIED" if changes else "DELETED"
            obj = pod(name, version, uid=alive[name]["metadata"]["uid"])
            alive[name] = obj
        if kind == "DELETED":
            del alive[name]
        frames.append((version, kind, obj))
    return frames, alive


def _disturbed(frames: list[tuple[int, str, dict[str, Any]]], mischief: list[str]) -> list[tuple[int, bytes]]:
    sent = [(version, frame(kind, obj).rstrip()) for version, kind, obj in frames]
    for at, what in enumerate(mischief):
        if what == "twice" and at < len(sent):
            sent.insert(at, sent[at])
        elif what == "swap" and at + 1 < len(sent):
            sent[at], sent[at + 1] = sent[at + 1], sent[at]
    return sent


def _state(frames: list[tuple[int, str, dict[str, Any]]], at: int) -> dict[str, dict[str, Any]]:
    state: dict[str, dict[str, Any]] = {}
    for version, kind, obj in frames:
        if version <= at:
            name = obj["metadata"]["name"]
            state.pop(name, None) if kind == "DELETED" else state.__setitem__(name, obj)
    return state
