"""Serving lines in turns: the next pods of the queue, whichever their lines, are placed in one go.

The same as one run after the other, only faster: pods of many classes that alternate share one pass over
the nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from fairlead.engine.core.hints import wants_company
from fairlead.engine.core.queue import Line, Queue
from fairlead.engine.placement import Placement
from fairlead.engine.planner import Planner
from fairlead.engine.room import Room
from fairlead.engine.steps import Steps
from fairlead.engine.units import Unit

__all__ = ["AT_ONCE", "Turns"]

# How many pods are placed in one go: few at first, because they are looked up for nothing where there is
# no room, then twice as many each time that there was; never so many that others wait long for the process.
_FEW, AT_ONCE = 64, 1024


class Turns:
    """Places the next pods; its queue, planner and room are the core's.

    Looking whose turn it is costs all lines, so after a look that placed no pod there is no other until
    one was placed: a queue of pods that fit nowhere is gone through line by line.
    """

    def __init__(
        self, queue: Queue, planner: Planner, room: Room, bind: Callable[[Unit, Placement], None]
    ) -> None:
        self._queue = queue
        self._planner = planner
        self._room = room
        self._bind = bind
        self._number = _FEW
        self._worth_it = True

    def placed(self) -> None:
        """Somebody was placed, in turns or not."""
        self._worth_it = True

    def serve(self, line: Line, now: float) -> Steps[Line | None]:
        """Place the next pods, up to the first that finds no room.

        Nothing may be promised or reserved, which makes the room differ from unit to unit, and no unit be
        held that a placed pod would wake. Returns the line whose run is to be gone on with, if any: none
        is left where another's would begin.
        """
        if not self._worth_it or self._room.nominations or self._room.reservations:
            return line
        if any(map(_heeds_placing, self._queue.held())):
            self._worth_it = False
            return line
        while True:
            turns = self._queue.turns(_goes_alone, self._number)
            slots = self._planner.turns([(line.classes[0], unit) for line, unit in turns])
            if not slots:
                self._number = _FEW
                self._worth_it = False
                return line
            placed = turns[: len(slots)]
            for each, number in Counter(line for line, _ in placed).items():
                self._queue.take(each, number)
            for (_, unit), slot in zip(placed, slots, strict=True):
                self._bind(unit, ((unit.members[0], slot),))
            all_placed = len(placed) == len(turns)
            self._number = min(2 * self._number, AT_ONCE) if all_placed else _FEW
            line = placed[-1][0]
            yield len(turns)
            if self._queue.next(now) is not line:
                return None
            if not all_placed:
                return line


def _goes_alone(line: Line) -> bool:
    """Whether the line's units are pods that have nothing to do with a gang."""
    return not line.head.gang and all(cls.live for cls in line.classes)


def _heeds_placing(line: Line) -> bool:
    return not line.classes or any(not cls.live or wants_company(cls) for cls in line.classes)
