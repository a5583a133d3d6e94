"""What waits, in order; which units are tried now, which rest, and which are held until something helps.

Units that planning cannot tell apart but by their place in the order stand in one *line*: when the
head of a line finds no room, none behind it does, so ten thousand equal pods cost one attempt. Two things
are subtle. A unit that joins a held line is held at once, with the line's verdict, because nothing that could
have helped has happened since. And backoff must not invert priorities: a line that was helped while it rests
is tried early when otherwise a lower one would take the room.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace

from fairlead.engine.planning.units import Rank, Unit
from fairlead.engine.snapshot.classes import PodClass

_PATIENCE = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a unit was held: the rules that stood in the way, the text, and whether autoscalers may act.

    `preemption` is why evictions do not help, and `tier` which tier the pod's policy has it wait for; they
    are said behind the message.
    """

    rules: frozenset[str]
    message: str
    unschedulable: bool = True
    preemption: str = ""
    tier: str = ""

    @property
    def text(self) -> str:
        """All there is to say."""
        return " ".join(filter(None, (self.message, self.preemption, self.tier)))

    def about(self, unit: Unit) -> Verdict:
        """The same, as told of one unit: gangs that stand in one line have each their own name."""
        if not unit.whole:
            return self
        return replace(self, message=f"gang {unit.name}: {self.message}")


@dataclass(slots=True, eq=False)
class Line:
    """Units with one key, in order. `verdict` is set while the line is held."""

    key: Hashable
    serial: int
    units: list[Unit] = field(default_factory=list)
    classes: tuple[PodClass, ...] = ()
    verdict: Verdict | None = None
    attempts: int = 0
    failed_at: float = 0.0
    retry_at: float = 0.0
    helped: bool = False  # whether it rests although something happened that may have helped it
    lacks_room: bool = False  # whether its head found no room when it was last tried

    @property
    def head(self) -> Unit:
        """The next unit in this line."""
        return self.units[0]

    def unit(self, unit_id: str) -> Unit:
        """The unit with this id, which stands in the line."""
        return self.units[_index(self, unit_id)]


class Queue:
    """All lines.

    Invariant: a line without a verdict is in one of two heaps: by the rank of its head when it may be
    tried, by the time when it may when it rests; one that was helped meanwhile also by its rank. Entries that
    no longer tell the truth are skipped. A line with one is in `_held`, by its serial.
    """

    def __init__(self, backoff_s: float, backoff_max_s: float) -> None:
        self._backoff_s = backoff_s
        self._backoff_max_s = backoff_max_s
        self._lines: dict[Hashable, Line] = {}
        self._line_of: dict[str, Line] = {}
        self._held: dict[int, Line] = {}
        self._ready: list[tuple[Rank, int, Line]] = []
        self._resting: list[tuple[float, int, Line]] = []
        self._helped: list[tuple[Rank, int, Line]] = []  # those of the resting that may be tried early
        self._serial = 0

    def __contains__(self, unit_id: str) -> bool:
        return unit_id in self._line_of

    def __len__(self) -> int:
        return len(self._line_of)

    def put(self, unit: Unit, key: Hashable) -> Line:
        """Add a unit, or replace what was known of it; the line it stands in."""
        held = self._line_of.get(unit.id)
        if held is not None:
            if held.key == key:
                index = _index(held, unit.id)
                if held.units[index].rank == unit.rank:
                    held.units[index] = unit
                    return held
            self.drop(unit.id)
        line = self._lines.get(key)
        if line is None:
            self._serial += 1
            line = self._lines[key] = Line(key, self._serial)
        if not line.units or line.units[-1].rank < unit.rank:
            line.units.append(unit)
        else:
            insort(line.units, unit, key=_rank)
        self._line_of[unit.id] = line
        if line.verdict is None and line.head is unit:
            self._push(line)
        return line

    def drop(self, unit_id: str) -> None:
        """Take a unit out, wherever it stands."""
        line = self._line_of.pop(unit_id, None)
        if line is None:
            return
        index = _index(line, unit_id)
        del line.units[index]
        if not line.units:
            self._end(line)
        elif index == 0 and line.verdict is None:
            self._push(line)

    def take(self, line: Line, number: int) -> list[Unit]:
        """Take the first units of a line out: they were placed."""
        taken = line.units[:number]
        del line.units[:number]
        for unit in taken:
            del self._line_of[unit.id]
        line.attempts = 0
        line.lacks_room = False
        if not line.units:
            self._end(line)
        elif line.verdict is None:
            self._push(line)
        return taken

    def next(self, now: float) -> Line | None:
        """The line whose head comes first of all that may be tried now; None when there is none."""
        while self._resting and (self._resting[0][0] <= now or not self._rests(self._resting[0])):
            entry = heapq.heappop(self._resting)
            if self._rests(entry):
                self._rested(entry[2])
        self._prune()
        early = self._next_early() if self._ready else None
        if early is not None and early.head.rank[:2] < self._ready[0][0][:2]:
            heapq.heappop(self._helped)
            self._rested(early)
        return self._ready[0][2] if self._ready else None

    def _next_early(self) -> Line | None:
        """The first of the lines that may be tried before they have rested."""
        while self._helped:
            rank, _, line = self._helped[0]
            if line.helped and self._waits(line) and line.retry_at and line.head.rank == rank:
                return line
            heapq.heappop(self._helped)
        return None

    def run_length(self, line: Line) -> int:
        """How many units of `line`, which is the next, come before the head of any other."""
        aside = []
        while self._ready and self._ready[0][2] is line:
            aside.append(heapq.heappop(self._ready))
            self._prune()
        rival = self._ready[0][0] if self._ready else None
        heapq.heappush(self._ready, aside[0])
        if rival is None:
            return len(line.units)
        return max(1, bisect_left(line.units, rival, key=_rank))

    def turns(self, joins: Callable[[Line], bool], limit: int) -> list[tuple[Line, Unit]]:
        """Whose turn it is, were each placed at once: all lines together, in order.

        Ends before the first line that does not join in.
        """
        ahead = {
            line.serial: (rank, line.serial, line, 0) for rank, _, line in filter(self._is_next, self._ready)
        }
        heap = list(ahead.values())
        heapq.heapify(heap)
        early = self._next_early()
        found: list[tuple[Line, Unit]] = []
        while heap and len(found) < limit:
            rank, serial, line, index = heap[0]
            if (early is not None and early.head.rank[:2] < rank[:2]) or (not index and not joins(line)):
                break
            found.append((line, line.units[index]))
            if index + 1 < len(line.units):
                heapq.heapreplace(heap, (line.units[index + 1].rank, serial, line, index + 1))
            else:
                heapq.heappop(heap)
        return found

    def hold(self, line: Line, verdict: Verdict, now: float) -> None:
        """The head found no room: the whole line waits until something helps."""
        line.verdict = verdict
        line.lacks_room = verdict.unschedulable
        self._held[line.serial] = line
        line.attempts += 1
        line.failed_at = now

    def wake(self, line: Line, now: float, *, early: bool = True) -> None:
        """Something may have helped: try again after its backoff, or before lower lines are tried."""
        if line.verdict is not None:
            line.helped = early
            self._rest(line, now)

    def rest(self, line: Line, failures: int, now: float) -> None:
        """Let a line rest as if its head had failed that many times just now."""
        line.attempts = failures
        line.failed_at = now
        line.helped = failures <= _PATIENCE
        self._rest(line, now)
        if not line.retry_at and failures > _PATIENCE:
            # Without any backoff, what fails over and over must not be tried for ever at one moment.
            line.retry_at = now + 1.0
            self._push(line)

    def held(self) -> list[Line]:
        """All held lines, in the order in which they came to be."""
        return [self._held[serial] for serial in sorted(self._held)]

    def lines(self) -> Iterator[Line]:
        """All lines, in the order in which they came to be."""
        return iter(list(self._lines.values()))

    def units(self) -> list[Unit]:
        """All units, in order."""
        found = [unit for line in self._lines.values() for unit in line.units]
        found.sort(key=_rank)
        return found

    def line_of(self, unit_id: str) -> Line | None:
        """Where a unit stands."""
        return self._line_of.get(unit_id)

    def wake_at(self) -> float | None:
        """When the next line has rested enough, if any rests."""
        while self._resting and not self._rests(self._resting[0]):
            heapq.heappop(self._resting)
        return self._resting[0][0] if self._resting else None

    def _rest(self, line: Line, now: float) -> None:
        line.verdict = None
        self._held.pop(line.serial, None)
        wait_s = min(self._backoff_s * 2 ** min(line.attempts - 1, 30), self._backoff_max_s)
        line.retry_at = line.failed_at + wait_s if line.failed_at + wait_s > now else 0.0
        self._push(line)

    def _rested(self, line: Line) -> None:
        line.retry_at = 0.0
        self._push(line)

    def _end(self, line: Line) -> None:
        if self._lines.get(line.key) is line:
            del self._lines[line.key]
        self._held.pop(line.serial, None)

    def _push(self, line: Line) -> None:
        if line.retry_at:
            heapq.heappush(self._resting, (line.retry_at, line.serial, line))
            if line.helped:
                heapq.heappush(self._helped, (line.head.rank, line.serial, line))
        else:
            heapq.heappush(self._ready, (line.head.rank, line.serial, line))

    def _prune(self) -> None:
        while self._ready and not self._is_next(self._ready[0]):
            heapq.heappop(self._ready)

    def _is_next(self, entry: tuple[Rank, int, Line]) -> bool:
        rank, _, line = entry
        return self._waits(line) and not line.retry_at and line.head.rank == rank

    def _rests(self, entry: tuple[float, int, Line]) -> bool:
        return self._waits(entry[2]) and entry[2].retry_at == entry[0]

    def _waits(self, line: Line) -> bool:
        return line.verdict is None and bool(line.units) and self._lines.get(line.key) is line


def _rank(unit: Unit) -> Rank:
    return unit.rank


def _index(line: Line, unit_id: str) -> int:
    return next(index for index, unit in enumerate(line.units) if unit.id == unit_id)
