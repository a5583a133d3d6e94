"""One run of a sweep: what travels to where it is played, how it is played there, and what it is kept under.

A place that plays runs has Fairlead and nothing else: the scenario travels as plain data, the files that it
names as their text. What a run is kept under is the digest of all that its result depends on.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fairlead.errors import FairleadError
from fairlead.simulation.scenario.material import Material, from_data
from fairlead.simulation.scenario.reader import Source
from fairlead.simulation.simulate.result import VERSION
from fairlead.simulation.simulate.simulation import simulate
from fairlead.simulation.sweep.variation import Setting, vary


def version() -> str:
    """Which Fairlead plays here: results of another version are not these."""
    try:
        return importlib.metadata.version("fairlead")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"  # run from its sources


@dataclass(frozen=True, slots=True)
class Texts:
    """Files as their texts, by the names that the scenario has for them."""

    folder: str
    texts: Mapping[str, str]

    def called(self, name: str) -> str:
        """What messages call a file."""
        return str(Path(self.folder) / name)

    def text(self, name: str) -> str:
        """A file's text."""
        return self.texts[name]


@dataclass(frozen=True, slots=True)
class Shared:
    """What all runs of a sweep have in common. Invariant: plain data, so that it can be sent anywhere."""

    data: Any
    name: str
    files: Texts
    version: str


@dataclass(frozen=True, slots=True)
class Run:
    """One run: the values that it puts into the scenario, and what its result is kept under."""

    id: str
    key: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a run: its result, encoded; or the error that it ended with."""

    id: str
    result: bytes
    error: str = ""


def play(shared: Shared, run: Run) -> Played:
    """Play a run; an error is part of the answer, because it would be the same anywhere."""
    try:
        found = simulate(from_data(vary(shared.data, run.settings), Source("", shared.name), shared.files))
    except FairleadError as error:
        return Played(run.id, b"", str(error))
    except Exception as error:  # noqa: BLE001 (a defect that one run shows must not end the others)
        return Played(run.id, b"", f"{type(error).__name__}: {error}")
    return Played(run.id, found.encode())


def key(data: Any, texts: Mapping[str, str], of_version: str) -> str:
    """The digest of a scenario's data with its values, of the files that it names, and of the versions."""
    files = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    whole = msgspec.json.encode([data, files, of_version, VERSION], order="sorted")
    return hashlib.sha256(whole).hexdigest()[:32]


def names_of(material: Material) -> list[str]:
    """The files that a scenario names."""
    return [*(material.pods or ()), *(material.supply or ()), *material.scenario.spec.objects]
