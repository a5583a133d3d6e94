"""A recording of what the demo prints, as terminal players take it (asciicast, version 2)."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

from rich.console import Console

from fairlead.errors import BadInput

_WIDTH, _HEIGHT = 120, 32
_STYLES = re.compile(r"\x1b\[[0-9;]*m")


class Cast:
    """Stands for standard output while the demo runs, and writes down when it printed what.

    `elapsed_s` is the time since the start, on whichever clock the story runs.
    """

    def __init__(self, file: str) -> None:
        self.elapsed_s: Callable[[], float] = lambda: 0.0
        self._rests_s = 0.0
        self._events: list[tuple[float, str]] = []
        try:
            self._file: IO[str] = Path(file).open("w", encoding="utf-8")  # noqa: SIM115 (closed by `save`)
        except OSError as error:
            raise BadInput(f"--cast {file}: {error.strerror or error}") from error

    def console(self) -> Console:
        """What to print on: styled in the recording, and on a terminal."""
        return Console(
            file=self,  # type: ignore[arg-type]
            force_terminal=True,
            color_system="standard",
            highlight=False,
            soft_wrap=True,
            width=_WIDTH,
        )

    def write(self, text: str) -> int:
        """Print, and write down."""
        sys.stdout.write(text if sys.stdout.isatty() else _STYLES.sub("", text))
        self._events.append((self.elapsed_s() + self._rests_s, text.replace("\n", "\r\n")))
        return len(text)

    def flush(self) -> None:
        """Nothing is held back but the recording."""
        sys.stdout.flush()

    def rest(self, seconds: float) -> None:
        """Leave a viewer time to read, which the story's own clock does not know."""
        self._rests_s += seconds

    def save(self) -> None:
        """Write the file."""
        head = {"version": 2, "width": _WIDTH, "height": _HEIGHT, "title": "fairlead demo"}
        with self._file as out:
            out.write(json.dumps(head) + "\n")
            for at, text in self._events:
                out.write(json.dumps([round(at, 3), "o", text]) + "\n")
