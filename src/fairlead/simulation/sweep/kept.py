"""Results that are kept: in a folder, so that a sweep that was interrupted goes on, or in memory.

A result is written under another name, made durable and then renamed: a file of a result's name is whole.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

import msgspec

from fairlead.errors import BadInput
from fairlead.simulation.simulate.result import Result, decode


class Kept(Protocol):
    """Results by what was played (`run.key`)."""

    def result(self, key: str) -> Result | None:
        """The result of a run; None where there is none."""

    def keep(self, key: str, encoded: bytes) -> None:
        """Keep the result of a run."""


class InMemory:
    """Results for as long as the process lives."""

    def __init__(self) -> None:
        self._encoded: dict[str, bytes] = {}

    def result(self, key: str) -> Result | None:
        encoded = self._encoded.get(key)
        return decode(encoded, key) if encoded is not None else None

    def keep(self, key: str, encoded: bytes) -> None:
        self._encoded[key] = encoded


class InFolder:
    """Results in a folder, a file each. What is no result of this version is as if it were not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            (folder / "results").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"--out {folder}: cannot be used: {error.strerror or error}") from error

    def path(self, key: str) -> Path:
        """Where the result of a run is."""
        return self.folder / "results" / f"{key}.json"

    def result(self, key: str) -> Result | None:
        try:
            return decode(self.path(key).read_bytes(), key)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadInput(f"--out: {self.path(key)} cannot be read: {error.strerror or error}") from error
        except BadInput:
            return None  # cut short by something else than a sweep; it is played again

    def keep(self, key: str, encoded: bytes) -> None:
        self._write(self.path(key), encoded)

    def describe(self, description: object) -> None:
        """Write down which run is in which file, for readers."""
        encoded = msgspec.json.format(msgspec.json.encode(description), indent=2)
        self._write(self.folder / "sweep.json", encoded + b"\n")

    def _write(self, path: Path, data: bytes) -> None:
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except OSError as error:
            raise BadInput(f"--out: {path} cannot be written: {error.strerror or error}") from error
        finally:
            partial.unlink(missing_ok=True)
