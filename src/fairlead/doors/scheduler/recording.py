"""A recording: everything the core received and was asked, and what it answered; and playing it again.

JSON lines. Each segment starts with the settings and a turn that tells everything there is, because it
is one session's: when a segment is full, the session ends and the next begins with a new listing. So
every segment can be replayed alone. Only what the core reads is in it: no env, no secrets. Of its actions it
has the decisions; what they bring along for the lanes follows from the events.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import msgspec

import fairlead
from fairlead.doors.scheduler.configuration import RecordSection
from fairlead.engine.core.actions import Action, EvictPod, decision
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import Event
from fairlead.engine.core.recording import FORMAT, Line, read_lines
from fairlead.engine.planning.settings import Settings
from fairlead.errors import BadInput


class Recorder:
    """Writes segments: the current one is `record.file`, older ones have a number behind, 1 the newest."""

    def __init__(self, record: RecordSection, settings: Settings) -> None:
        self._limit = record.segment_bytes
        self._size = 0
        path = Path(record.file)
        try:
            _rotate(path, record.segments)
            self._file: IO[bytes] = _create(path)
        except OSError as error:
            raise BadInput(f"record.file: {path}: {error.strerror or error}") from error
        self._write({"fairlead": fairlead.__version__, "format": FORMAT, "settings": settings})

    @property
    def full(self) -> bool:
        """Whether it is time for the next segment."""
        return self._size >= self._limit

    def turn(self, now: float, events: Sequence[Event], actions: Sequence[Action]) -> None:
        """One call of the core."""
        self._write({"now": now, "events": events, "actions": list(map(decision, actions))})

    def asked(self, evict: EvictPod, answer: bool, *, sending: bool) -> None:
        """The core was asked whether an eviction is still wanted, and whether it is being sent."""
        self._write({"ask": decision(evict), "answer": answer, "sending": sending})

    def close(self) -> None:
        """The segment is complete."""
        self._file.close()

    def _write(self, line: dict[str, Any]) -> None:
        self._size += self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a replay does not agree."""

    segment: Path
    line: int
    recorded: str
    replayed: str


@dataclass(slots=True)
class Replayed:
    """What a replay came to."""

    segments: int = 0
    turns: int = 0
    events: int = 0
    actions: int = 0
    difference: Difference | None = None


def segments_of(path: Path) -> list[Path]:
    """The segments of a recording, oldest first."""
    older = [
        (int(one.name.rpartition(".")[2]), one) for one in path.parent.glob(f"{path.name}.*") if _number(one)
    ]
    found = [one for _, one in sorted(older, reverse=True)]
    if path.exists():
        found.append(path)
    if not found:
        raise BadInput(f"{path}: there is no such recording")
    return found


def lines_of(segment: Path) -> Iterator[tuple[int, Line]]:
    """The lines of a segment, with their numbers; the first has the settings."""
    with segment.open("rb") as file:
        yield from read_lines(file, str(segment))


def replay(segments: Sequence[Path]) -> Replayed:
    """Decide everything again, and compare byte by byte; stops at the first difference."""
    found = Replayed()
    for segment in segments:
        found.segments += 1
        core: Core | None = None
        for number, line in lines_of(segment):
            if line.settings is not None:
                core = Core(line.settings)
                continue
            assert core is not None, "the first line has settings"
            if line.ask is not None:
                answer = core.confirms(line.ask, sending=line.sending)
                said, again = str(line.answer).lower(), str(answer).lower()
            else:
                events = line.received()
                actions = core.handle(events, line.now or 0.0)
                again = msgspec.json.encode(list(map(decision, actions))).decode()
                said = bytes(line.actions).decode()
                found.turns += 1
                found.events += len(events)
                found.actions += len(actions)
            if said != again:
                found.difference = Difference(segment, number, said, again)
                return found
    return found


def _number(path: Path) -> bool:
    return path.name.rpartition(".")[2].isdecimal()


def _create(path: Path) -> IO[bytes]:
    """A new file that only its owner may read: a recording shows what a cluster runs."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _rotate(path: Path, segments: int) -> None:
    """Move older segments up by one; the oldest beyond `segments` go."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        return
    versions = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, segments))]
    for newer, older in reversed(list(pairwise(versions))):
        if newer.exists():
            newer.replace(older)
    path.unlink(missing_ok=True)
