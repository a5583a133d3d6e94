"""A recording's lines: what the core received and was asked, and what it answered, as JSON.

A segment begins with a line of settings; the turn after it tells everything there is, because a segment is
one session's. A line that was cut off in the middle of a write ends the segment: what came before is whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from fairlead.engine.core.actions import EvictPod
from fairlead.engine.core.events import (
    BindFailed,
    Event,
    EvictFailed,
    Gone,
    MarksAre,
    PoliciesAre,
    Promised,
    Seen,
    Unread,
)
from fairlead.engine.core.kinds import KINDS
from fairlead.engine.planning.settings import Settings
from fairlead.errors import BadInput
from fairlead.kube.workloads import Workload

FORMAT = 2


class _SeenLine(msgspec.Struct, frozen=True, tag="Seen", tag_field="event"):
    kind: str
    object: msgspec.Raw


_Recorded = _SeenLine | Gone | Unread | BindFailed | EvictFailed | PoliciesAre | MarksAre | Promised


class Line(msgspec.Struct, frozen=True):
    """One line: the `settings`, a turn at the time `now`, or a question (`ask`) with its `answer`.

    `actions` are the decisions of a turn as they were written.
    """

    now: float | None = None
    events: list[_Recorded] = []
    actions: msgspec.Raw = msgspec.Raw(b"")
    ask: EvictPod | None = None
    answer: bool = False
    sending: bool = False
    settings: Settings | None = None
    format: int = 0

    def received(self) -> list[Event]:
        """The events of a turn."""
        return [_event(event) for event in self.events]


def read_lines(file: Iterable[bytes], called: str) -> Iterator[tuple[int, Line]]:
    r"""The lines of a segment, with their numbers; `called` is how messages name it.

    >>> list(read_lines([b"{}\n"], "r"))
    Traceback (most recent call last):
    ...
    fairlead.errors.BadInput: r: is not a recording: it does not start with settings
    """
    decode = msgspec.json.Decoder(Line).decode
    begun = False
    for number, text in enumerate(file, 1):
        if not text.endswith(b"\n"):
            return
        try:
            line = decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadInput(f"{called}: line {number} is not of a recording: {error}") from error
        if line.settings is not None:
            begun = True
            if line.format != FORMAT:
                raise BadInput(f"{called}: format {line.format} is not one that this version reads")
        elif not begun:
            raise BadInput(f"{called}: is not a recording: it does not start with settings")
        yield number, line


def _event(line: _Recorded) -> Event:
    if not isinstance(line, _SeenLine):
        return line
    return Seen(line.kind, msgspec.json.decode(line.object, type=KINDS.get(line.kind, Workload)))
