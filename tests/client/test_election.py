"""One leader at a time, whatever happens to time and network; writes stop before the lease can end.

Minutes pass in virtual time. The lease lives in a store in memory that swaps and compares as an API
server does, and that can be cut off, slowed down, or made to lose its answers, for each candidate.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from fairlead.client.election import Election, LeaseFence, Terms
from fairlead.errors import ApiError, Conflict, LeaseLost, Unreachable
from fairlead.kube.decode import convert
from fairlead.kube.workloads import Lease
from support.virtual_loop import VirtualLoop, pass_by, run_virtually

TERMS = Terms()


class Store:
    """The one lease that all candidates see."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.version = 0
        self.holders: list[str] = []
        self.applied_at: dict[str, float] = {}  # by holder: when its last renewal was applied

    def put(self, spec: dict[str, Any], old: Lease | None) -> Lease:
        held = self.lease.metadata.resource_version if self.lease is not None else None
        if held != (old.metadata.resource_version if old is not None else None):
            raise Conflict(409, "Conflict", "the object has been modified")
        self.version += 1
        metadata = {"name": "lease", "resourceVersion": str(self.version)}
        self.lease = convert({"metadata": metadata, "spec": spec}, Lease)
        self.applied_at[spec["holderIdentity"]] = asyncio.get_running_loop().time()
        if not self.holders or self.holders[-1] != spec["holderIdentity"]:
            self.holders.append(spec["holderIdentity"])
        return self.lease


@dataclass
class Line:
    """One candidate's line to the store, and what is wrong with it."""

    store: Store
    cut: bool = False
    lose_answers: bool = False
    slow_s: float = 0.0
    slow_answers_s: float = 0.0
    gets: int = 0
    puts: int = 0
    refused: ApiError | None = None

    async def get(self) -> Lease | None:
        await self._pass()
        self.gets += 1
        return self.store.lease

    async def put(self, spec: dict[str, Any], old: Lease | None) -> Lease:
        await self._pass()
        self.puts += 1
        lease = self.store.put(spec, old)
        await pass_by(self.slow_s + self.slow_answers_s)  # the way back
        if self.lose_answers:
            raise Unreachable("the answer was lost")
        return lease

    async def _pass(self) -> None:
        await pass_by(self.slow_s)
        if self.cut:
            raise Unreachable("cut off")
        if self.refused is not None:
            raise self.refused


@dataclass
class Candidate:
    """Runs for election again and again; `leads` while its work runs."""

    name: str
    loop: VirtualLoop
    store: Store
    seed: int = 1
    line: Line = field(init=False)
    election: Election = field(init=False)
    leads: bool = False
    lost: list[str] = field(default_factory=list)
    resumed: int = 0

    def __post_init__(self) -> None:
        self.line = Line(self.store)
        rng = random.Random(f"{self.name}{self.seed}")
        self.election = Election(
            self.line, self.name, rng=rng, clock=self.loop.clock, terms=TERMS, on_resume=self._on_resume
        )

    async def _on_resume(self) -> None:
        self.resumed += 1

    async def work(self) -> None:
        self.leads = True
        try:
            await asyncio.Event().wait()
        finally:
            self.leads = False

    async def run(self) -> None:
        while True:
            try:
                await self.election.run(self.work)
            except LeaseLost as error:
                self.lost.append(str(error))

    @property
    def may_write(self) -> bool:
        try:
            self.election.fence.check()
        except LeaseLost:
            return False
        return True


def play(*names: str) -> Callable[[Callable[..., Any]], Callable[[], None]]:
    """A test in virtual time with these candidates, who are stopped at the end."""

    def decorate(scene: Callable[..., Any]) -> Callable[[], None]:
        def test() -> None:
            async def main(loop: VirtualLoop) -> None:
                store = Store()
                cast = [Candidate(name, loop, store) for name in names]
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(candidate.run()) for candidate in cast]
                    await scene(*cast)
                    for task in tasks:
                        task.cancel()

            run_virtually(main)

        test.__name__, test.__doc__ = scene.__name__, scene.__doc__
        return test

    return decorate


async def pass_time(seconds: float, *cast: Candidate) -> None:
    """Let time pass, and look all the while: never two who may write."""
    end = asyncio.get_running_loop().time() + seconds
    while (left := end - asyncio.get_running_loop().time()) > 0:
        await pass_by(min(0.25, left))
        assert sum(candidate.may_write for candidate in cast) <= 1
        for candidate in cast:
            # Whoever saw the renewal saw it no earlier than it was applied: by then we must be done.
            if candidate.may_write:
                ends = candidate.store.applied_at[candidate.election.identity] + TERMS.lease_s
                assert (candidate.election.fence.deadline() or 0.0) <= ends - TERMS.margin_s


@play("a", "b")
async def test_one_of_two_leads_and_goes_on_leading(a: Candidate, b: Candidate) -> None:
    await pass_time(120, a, b)
    assert [a.leads, b.leads] == [True, False]
    assert len(a.store.holders) == 1


@play("a")
async def test_a_leader_renews_about_every_two_seconds_and_no_more(a: Candidate) -> None:
    await pass_time(100, a)
    assert 45 <= a.line.puts <= 52


@play("a", "b")
async def test_a_candidate_looks_a_little_less_often_than_a_leader_renews(a: Candidate, b: Candidate) -> None:
    await pass_time(100, a, b)
    assert 100 / (1.2 * TERMS.retry_s) <= b.line.gets <= 1 + 100 / TERMS.retry_s


@play("a", "b")
async def test_a_lease_without_a_holder_is_taken_at_once_however_long_it_was_granted_for(
    a: Candidate, b: Candidate
) -> None:
    a.store.put({"holderIdentity": "", "leaseDurationSeconds": 3600}, None)
    await pass_time(1, a, b)
    assert a.leads


@play("a", "b")
async def test_a_lease_says_since_when_its_holder_has_led(a: Candidate, b: Candidate) -> None:
    await pass_time(1, a, b)
    taken, began = a.store.lease, a.loop.clock.wall()
    await pass_time(10, a, b)
    renewed = a.store.lease
    assert taken is not None
    assert renewed is not None
    assert taken.spec.acquire_time is not None
    assert began - timedelta(seconds=1) <= taken.spec.acquire_time <= began
    assert renewed.spec.acquire_time == taken.spec.acquire_time
    assert renewed.spec.renew_time != taken.spec.renew_time


@play("a", "b")
async def test_a_leader_that_is_cut_off_stops_before_the_other_starts(a: Candidate, b: Candidate) -> None:
    await pass_time(5, a, b)
    a.line.cut = True
    await pass_time(9, a, b)
    assert a.leads
    await pass_time(3, a, b)
    assert not a.leads
    assert not b.leads
    assert "not renewed for 10 s" in a.lost[0]
    await pass_time(10, a, b)
    assert b.leads


@play("a", "b")
async def test_a_leader_whose_renewals_are_never_answered_stops_as_well(a: Candidate, b: Candidate) -> None:
    await pass_time(5, a, b)
    a.line.slow_s = 1000
    await pass_time(15, a, b)
    assert not a.leads
    assert a.lost[0].endswith("not renewed for 10 s: TimeoutError")


def test_a_stopped_leader_releases_and_the_next_need_not_wait() -> None:
    async def main(loop: VirtualLoop) -> float:
        store = Store()
        a, b = Candidate("a", loop, store), Candidate("b", loop, store)
        async with asyncio.TaskGroup() as group:
            first, second = group.create_task(a.run()), group.create_task(b.run())
            await pass_time(5, a, b)
            assert a.leads
            stopped_at = loop.time()
            first.cancel()
            while not b.leads:
                await pass_time(0.1, a, b)
            took = loop.time() - stopped_at
            second.cancel()
        return took

    assert run_virtually(main) < TERMS.lease_s / 3


def test_a_leader_stopped_in_the_middle_of_a_renewal_releases_too() -> None:
    async def main(loop: VirtualLoop) -> str | None:
        store = Store()
        a = Candidate("a", loop, store)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(a.run())
            await pass_time(5, a)
            a.line.slow_answers_s, puts = 0.5, a.line.puts
            while a.line.puts == puts:
                await pass_time(0.1, a)
            running.cancel()  # the renewal was applied, and its answer is on its way
        assert store.lease is not None
        return store.lease.spec.holder_identity

    assert not run_virtually(main)


def test_what_leads_may_finish_its_writes_when_stopped() -> None:
    async def main(loop: VirtualLoop) -> list[bool]:
        candidate = Candidate("a", loop, Store())
        could_write = []

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await pass_by(1)
                could_write.append(candidate.may_write)

        async with asyncio.TaskGroup() as group:
            task = group.create_task(candidate.election.run(work))
            await pass_by(5)
            task.cancel()
        return [*could_write, candidate.may_write]

    assert run_virtually(main) == [True, False]


def test_work_that_ends_ends_the_run_and_its_error_comes_out_as_it_is() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        store = Store()

        async def done() -> None:
            await pass_by(30)

        async def fails() -> None:
            raise ValueError("as it is")

        await Candidate("a", loop, store).election.run(done)
        with pytest.raises(ValueError, match="as it is"):
            await Candidate("b", loop, store).election.run(fails)
        return [holder.partition("_")[0] for holder in store.holders]

    assert run_virtually(main) == ["a", "", "b", ""]


@play("a", "b")
async def test_renewals_whose_answers_are_lost_keep_nobody_leading(a: Candidate, b: Candidate) -> None:
    """They do keep the lease alive: nobody else starts while it is renewed; we stop on our own clock."""
    await pass_time(5, a, b)
    a.line.lose_answers = True
    await pass_time(12, a, b)
    assert not a.leads
    a.line.lose_answers = False
    await pass_time(60, a, b)
    assert a.leads or b.leads


@play("a", "b")
async def test_a_single_lost_answer_changes_nothing(a: Candidate, b: Candidate) -> None:
    await pass_time(5, a, b)
    a.line.lose_answers = True
    await pass_time(2, a, b)
    a.line.lose_answers = False
    await pass_time(30, a, b)
    assert a.leads
    assert a.lost == []


@play("a", "b")
async def test_whoever_finds_the_lease_taken_stops_at_once(a: Candidate, b: Candidate) -> None:
    await pass_time(5, a, b)
    a.store.put({"holderIdentity": "usurper", "leaseDurationSeconds": 15}, a.store.lease)
    puts = a.line.puts
    await pass_time(2.5, a)
    assert not a.leads
    assert a.line.puts == puts + 1  # the renewal that failed: what is another's is not released
    assert "held by usurper" in a.lost[0]
    await pass_time(40, a, b)
    assert a.leads or b.leads


@play("a", "b")
async def test_a_suspended_leader_writes_nothing_when_it_wakes(a: Candidate, b: Candidate) -> None:
    """Time jumps and no timer has fired yet: the first thing a resumed process may do is try to write."""
    await pass_time(5, a, b)
    assert a.may_write
    a.loop.jump(60)
    assert not a.may_write
    assert a.leads  # it does not know yet; the fence does
    await pass_time(3, a, b)
    assert a.resumed == 1  # its old connections were closed


@play("a", "b")
async def test_an_answer_that_took_long_does_not_lengthen_the_lease(a: Candidate, b: Candidate) -> None:
    await pass_time(5, a, b)
    a.line.slow_answers_s = 7
    await pass_time(30, a, b)
    assert a.leads


def test_whoever_lost_the_lease_writes_nothing_more_however_long_it_takes_to_stop() -> None:
    async def main(loop: VirtualLoop) -> bool:
        store = Store()
        a = Candidate("a", loop, store)

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                could_write.append(a.may_write)

        could_write: list[bool] = []

        async def usurp() -> None:
            await pass_by(5)
            store.put({"holderIdentity": "usurper", "leaseDurationSeconds": 15}, store.lease)

        async with asyncio.TaskGroup() as group:
            group.create_task(usurp())
            with pytest.raises(LeaseLost, match="held by usurper"):
                await a.election.run(work)
        return could_write[0]

    assert not run_virtually(main)


@play("a")
async def test_an_answer_that_lets_nobody_lead_is_a_warning_until_it_changes(a: Candidate) -> None:
    with capture_logs() as told:
        for code in (409, 429, 503, 403, 422):
            a.line.refused = ApiError.of(code, "Reason", "no")
            await pass_by(20)
        a.line.refused = None
        await pass_by(20)
    assert a.leads
    said = [line for line in told if line["event"] == "lease_not_acquired"]
    warned = [line["reason"] for line in said if line["log_level"] == "warning"]
    assert warned == ["no (403 Reason)", "no (422 Reason)"]
    assert {line["reason"][4:7] for line in said if line["log_level"] == "info"} == {"409", "429", "503"}


def test_the_fence_ends_before_the_lease_does() -> None:
    loop = VirtualLoop()
    fence = LeaseFence(loop.clock, TERMS)
    with pytest.raises(LeaseLost, match="does not hold"):
        fence.check()
    sent_at = loop.time()
    loop.jump(3)  # the answer took its time: that time is not ours
    fence.extend(sent_at)
    assert fence.check() == pytest.approx(TERMS.lease_s - TERMS.margin_s - 3)
    assert fence.deadline() == sent_at + TERMS.lease_s - TERMS.margin_s
    loop.jump(10.4)
    assert 0 < fence.check() < 1
    loop.jump(0.2)
    with pytest.raises(LeaseLost, match="may have ended"):
        fence.check()
    fence.extend(loop.time())
    fence.close()
    with pytest.raises(LeaseLost, match="does not hold"):
        fence.check()
    loop.close()


def test_two_candidates_of_one_name_have_identities_of_their_own() -> None:
    loop = VirtualLoop()
    first = Candidate("pod-0", loop, Store(), seed=1)
    second = Candidate("pod-0", loop, Store(), seed=2)
    assert first.election.identity != second.election.identity
    loop.close()


# What happens to whom, for how long, and how long until the next thing.
MISFORTUNES = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["cut", "lose_answers", "slow", "slow_answers", "jump", "nothing"]),
        st.floats(0.1, 30),
        st.floats(0, 10),
    ),
    max_size=8,
)


@given(misfortunes=MISFORTUNES, seed=st.integers(0, 1000))
def test_never_two_may_write_and_in_the_end_somebody_does(
    misfortunes: list[tuple[int, str, float, float]], seed: int
) -> None:
    async def main(loop: VirtualLoop) -> None:
        store = Store()
        cast = [Candidate(name, loop, store, seed) for name in "abc"]

        async def befall(candidate: Candidate, what: str, seconds: float) -> None:
            line = candidate.line
            match what:
                case "cut":
                    line.cut = True
                    await pass_by(seconds)
                    line.cut = False
                case "lose_answers":
                    line.lose_answers = True
                    await pass_by(seconds)
                    line.lose_answers = False
                case "slow":
                    line.slow_s = seconds / 3
                    await pass_by(seconds)
                    line.slow_s = 0
                case "slow_answers":
                    line.slow_answers_s = seconds / 4
                    await pass_by(seconds)
                    line.slow_answers_s = 0
                case "jump":
                    loop.jump(seconds)
                    assert sum(candidate.may_write for candidate in cast) <= 1

        async with asyncio.TaskGroup() as group:
            running = [group.create_task(candidate.run()) for candidate in cast]
            for who, what, seconds, pause in misfortunes:
                group.create_task(befall(cast[who], what, seconds))
                await pass_time(pause, *cast)
            await pass_time(75, *cast)
            assert sum(candidate.may_write for candidate in cast) == 1
            for task in running:
                task.cancel()

    run_virtually(main)
