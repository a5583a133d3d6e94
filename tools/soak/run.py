"""One soak from its first action to its last: storms and quiet points in turn, watched all the time.

Everything that happens is a line of the log, with the seconds since the run began: what was done (enough to
replay it), faults, samples, and what the observer found.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.soak import vitals
from tools.soak.actions import NAMESPACE, STORM_S, Action, Drawn, draw_cycle, fleet
from tools.soak.observer.audit import AuditLog
from tools.soak.observer.invariants import Observer, Violation
from tools.soak.observer.quiet import findings
from tools.soak.player import Player
from tools.soak.stage import LEADERS, Stage, log_lines

STILL_S = 8.0
TAKEN_OVER_S = 20.0
"""Until what a killed leader left undone is another's: its Lease has to end first."""
SETTLE_S = 300.0
WATCHED_S = 12.0
_TICK_S = 0.5
_SAMPLE_S = 5.0
_SAY_S = 30.0

_WATCHED = {
    "Pod": f"/api/v1/namespaces/{NAMESPACE}/pods",
    "Node": "/api/v1/nodes",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    "Job": f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs",
    "PodDisruptionBudget": f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets",
    "PlacementPolicy": "/apis/fairlead.dev/v1alpha1/placementpolicies",
    "PlacementLedger": f"/apis/fairlead.dev/v1alpha1/namespaces/{NAMESPACE}/placementledgers",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What to play: drawn from the seed for so long or, with `history`, these actions."""

    seed: int
    minutes: float
    storm_s: float = STORM_S
    history: Sequence[Action] = ()
    stop_at: str = ""
    """End at once when this invariant is violated."""


@dataclass(slots=True)
class Result:
    """What came of it."""

    settings: Settings
    lasted_s: float = 0.0
    cycles: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)
    """The log."""
    violations: list[Violation] = field(default_factory=list)
    excused: Counter[str] = field(default_factory=Counter)
    samples: list[vitals.Sample] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    injected: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    """Lines of the components' logs at level warning and above, by component and event."""

    @property
    def slopes(self) -> list[vitals.Slope]:
        """Of each process."""
        return vitals.slopes(self.samples)

    @property
    def failed(self) -> bool:
        """Whether anything does not hold."""
        return bool(self.violations) or any(one.grows for one in self.slopes)

    @property
    def actions(self) -> list[Action]:
        """What was done, in order."""
        return read_actions(self.lines)


def read_actions(lines: Sequence[dict[str, Any]]) -> list[Action]:
    """The actions of a log."""
    found = [line for line in lines if line["kind"] == "action"]
    return [Action(line["cycle"], line["at"], line["do"], line["what"]) for line in found]


async def soak(settings: Settings, log: Path) -> Result:
    """Run it, and write its log as it goes."""
    result = Result(settings)
    with log.open("w") as lines, tempfile.TemporaryDirectory(prefix="fairlead-soak-") as folder:
        async with _Run(settings, Path(folder), result, lines) as run:
            await run.play()
    return result


class _Run:
    """A run under way."""

    def __init__(self, settings: Settings, folder: Path, result: Result, lines: Any) -> None:
        self._settings = settings
        self._result = result
        self._lines = lines
        self._began = time.time()
        self._stage = Stage(folder, settings.seed, time.time)
        self._audit = AuditLog(self._stage.audit_log)
        self._observer = Observer(leaders=LEADERS, stale=self._was_stale)
        self._player = Player(self._stage, self._leader, self._say)
        self._told = 0
        self._paused_at = self._began
        self._stopped = asyncio.Event()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> _Run:
        self._say("begin", seed=self._settings.seed, minutes=self._settings.minutes)
        try:
            await self._stack.enter_async_context(self._stage)
            await self._stack.enter_async_context(self._watching())
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._look()
        for door in self._stage.doors.values():
            self._result.injected.update(door.proxy.injected)
            for level in ("warning", "error", "critical"):
                lines = log_lines(self._stage.folder / f"{door.name}.log", level)
                self._result.warnings.update(f"{door.name}: {line['event']}" for line in lines)
        self._result.violations = self._observer.violations
        self._result.excused = self._observer.excused
        self._result.lasted_s = self._since(time.time())
        self._result.counts |= {
            "binds": self._observer.binds,
            "evictions": self._observer.evictions,
            "writes": len(self._observer.writes),
        }
        self._say("end", violations=len(self._result.violations), **self._result.counts)
        await self._stack.aclose()

    async def play(self) -> None:
        """All cycles."""
        drawn = Drawn()
        for pool, name in fleet(drawn):
            await self._player.play(Action(0, 0.0, "add_node", {"pool": pool, "name": name}))
        await self._player.over()
        await self._quiet(-1)
        ends = time.time() + 60 * self._settings.minutes
        history = self._settings.history
        for cycle in itertools.count():
            if history:
                actions = [one for one in history if one.cycle == cycle]
                if cycle > max(one.cycle for one in history):
                    break
            else:
                actions = draw_cycle(self._settings.seed, cycle, drawn, storm_s=self._settings.storm_s)
            await self._storm(cycle, actions)
            await self._quiet(cycle)
            self._result.cycles = cycle + 1
            if self._stopped.is_set() or (not history and time.time() >= ends):
                break

    async def _storm(self, cycle: int, actions: Sequence[Action]) -> None:
        self._say("storm", cycle=cycle, actions=len(actions))
        began = time.time()
        for action in actions:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), max(0.0, began + action.at - time.time()))
            if self._stopped.is_set():
                return
            self._say("action", **action.data(), fault=action.is_fault)
            await self._player.play(action)

    async def _quiet(self, cycle: int) -> None:
        """Wait until nothing changes and everything holds, then see that it stays like that."""
        await self._player.over()
        self._paused_at = time.time()
        self._say("pause", cycle=cycle)
        deadline = time.time() + SETTLE_S
        said_at = time.time()
        while (found := self._wrong()) and not self._stopped.is_set():
            if time.time() > deadline:
                for invariant, subject, message in found:
                    self._observer.add(time.time(), invariant, subject, f"at quiet point {cycle}: {message}")
                break
            if time.time() - said_at > _SAY_S:
                said_at = time.time()
                self._say("unsettled", findings=[": ".join(one) for one in found])
            await asyncio.sleep(_TICK_S)
        began = time.time()
        self._say(
            "quiet", cycle=cycle, after_s=round(began - deadline + SETTLE_S, 1), pods=len(self._observer.pods)
        )
        if self._stopped.is_set() or found:
            return
        await self._stands_still(cycle, began)
        self._sample(at_rest=True)

    async def _stands_still(self, cycle: int, began: float) -> None:
        """See that no component writes. What follows a change that is not its own would be no violation."""
        before, changed_at = self._observer.changed_at, float("inf")
        while time.time() < began + WATCHED_S:
            await asyncio.sleep(_TICK_S)
            if self._observer.changed_at != before:
                changed_at = min(changed_at, self._observer.changed_at)
        self._look()
        for write in self._observer.writes:
            if began < write.received_at < changed_at:
                where = f"{write.resource} {write.namespace}/{write.name}"
                self._observer.add(began, "no change, no action", where, f"at quiet point {cycle}: {write}")

    def _wrong(self) -> list[tuple[str, str, str]]:
        still_s = time.time() - self._observer.changed_at
        away = [name for name in self._stage.doors if self._stage.program(name) is None]
        if away:
            return [("every component runs", ", ".join(away), "is away")]
        found = findings(self._observer, self._stage.tiers)
        paused_s = time.time() - self._paused_at
        if not found and (still_s < STILL_S or paused_s < TAKEN_OVER_S):
            return [("it comes to rest", "the cluster", f"something changed {still_s:.1f} s ago")]
        return found

    # Watching

    @asynccontextmanager
    async def _watching(self) -> AsyncIterator[None]:
        api = self._stage.api

        def see(what: str, kind: str, obj: dict[str, Any]) -> None:
            self._observer.see(what, kind, obj, time.time())

        tasks = [asyncio.create_task(api.watch(kind, path, see)) for kind, path in _WATCHED.items()]
        tasks += [asyncio.create_task(self._ticking()), asyncio.create_task(self._sampling())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            for one in ended:
                if isinstance(one, Exception):
                    raise one

    async def _ticking(self) -> None:
        while True:
            self._look()
            for name in self._stage.doors:
                program = self._stage.program(name)
                if (
                    program is not None
                    and (code := program.exit_code()) is not None
                    and not self._stage.doors[name].is_away
                ):
                    said = f"it ended with code {code}: {program.tail()[-600:]}"
                    self._observer.add(time.time(), "components run until they are ended", name, said)
                    await self._stage.start_door(name)
            await asyncio.sleep(_TICK_S)

    def _look(self) -> None:
        now = time.time()
        for write in self._audit.new():
            self._observer.wrote(write, now)
        self._observer.tick(now)
        for violation in self._observer.violations[self._told :]:
            self._say(
                "violation",
                invariant=violation.invariant,
                subject=violation.subject,
                message=violation.message,
            )
            if self._settings.stop_at == violation.invariant:
                self._stopped.set()
        self._told = len(self._observer.violations)

    async def _sampling(self) -> None:
        while True:
            self._sample()
            pods = self._observer.pods.values()
            pending = sum(not one["spec"].get("nodeName") for one in pods)
            self._say("pods", pods=len(pods), pending=pending)
            await asyncio.sleep(_SAMPLE_S)

    def _sample(self, *, at_rest: bool = False) -> None:
        at = self._since(time.time())
        for name in self._stage.doors:
            program = self._stage.program(name)
            found = vitals.sample(at, name, program.pid, at_rest=at_rest) if program is not None else None
            if found is not None:
                self._result.samples.append(found)
                self._say("sample", door=name, pid=found.pid, rss_mib=round(found.rss_mib, 1), fds=found.fds)

    def _was_stale(self, user: str, at: float) -> bool:
        door = self._stage.doors.get(user.removeprefix("soak-"))
        return door is not None and door.plan.was_lied_to(at)

    def _leader(self) -> str:
        return self._observer.holder("fairlead-scheduler").removeprefix("soak-") or "scheduler-a"

    def _since(self, at: float) -> float:
        return round(at - self._began, 2)

    def _say(self, kind: str, **more: Any) -> None:
        line = {"t": self._since(time.time()), "kind": kind, **more}
        self._result.lines.append(line)
        self._lines.write(json.dumps(line) + "\n")
        self._lines.flush()
