"""A recording that a test writes: what a scheduler received turn by turn, with what its core decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.doors.scheduler.configuration import RecordSection
from fairlead.doors.scheduler.recording import Recorder
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import Event
from fairlead.engine.planning.settings import Settings
from support.cluster_of import seen
from support.units import EPOCH

__all__ = ["record"]


def record(
    path: Path,
    turns: Mapping[float, Sequence[dict[str, Any] | Event]],
    *,
    settings: Settings | None = None,
    segments: int = 4,
) -> None:
    """Write one segment: at each time, in seconds, what was received; objects were seen."""
    settings = settings or Settings()
    recorder = Recorder(RecordSection(str(path), 1_000_000, segments), settings)
    core = Core(settings)
    for at_s, things in turns.items():
        events = [seen(one) if isinstance(one, dict) else one for one in things]
        now = EPOCH.timestamp() + at_s
        recorder.turn(now, events, core.handle(events, now))
    recorder.close()
