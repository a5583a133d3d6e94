"""A sweep from its file and parameters: all of it is read and checked before anything is played.

Where runs are played is a function: runs go in, outcomes come in the order in which they end. Nothing here
depends on that order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from fairlead.errors import BadInput
from fairlead.simulation.scenario.material import Folder, Material, from_data
from fairlead.simulation.scenario.model import KIND
from fairlead.simulation.scenario.reader import Source, read_data, text_of
from fairlead.simulation.simulate.result import Result
from fairlead.simulation.sweep.columns import check_columns, default_columns, value_at
from fairlead.simulation.sweep.grid import SEED, Point, grid
from fairlead.simulation.sweep.kept import Kept
from fairlead.simulation.sweep.parameters import Parameter, parameter, spelling
from fairlead.simulation.sweep.run import Played, Run, Shared, Texts, key, names_of, version
from fairlead.simulation.sweep.table import Table, table
from fairlead.simulation.sweep.variation import Steps, resolve, vary

Place = Callable[[Shared, Sequence[Run]], Generator[Played, None, None]]
"""Plays runs somewhere; closed, it gives up those that have not ended."""

Say = Callable[[Played | None, int], None]
"""Receives each outcome, and how many runs are left; None before the first."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is to be played, and the columns that are asked for. `runs` are in the order of `points`."""

    scenario: str
    shared: Shared
    parameters: tuple[Parameter, ...]
    points: tuple[Point, ...]
    runs: tuple[Run, ...]
    columns: tuple[str, ...]

    def description(self) -> dict[str, object]:
        """What a folder of results says of itself."""
        return {
            "version": 1,
            "scenario": self.scenario,
            "parameters": {one.path: one.values for one in self.parameters},
            "runs": [
                {"parameters": dict(point.settings), "result": f"results/{run.key}.json"}
                for point, run in zip(self.points, self.runs, strict=True)
            ],
        }


@dataclass(slots=True)
class _Remembered:
    """A folder's files. Those that were asked for are kept, to be sent on."""

    folder: Folder
    texts: dict[str, str] = field(default_factory=dict)

    def called(self, name: str) -> str:
        return self.folder.called(name)

    def text(self, name: str) -> str:
        if name not in self.texts:
            self.texts[name] = self.folder.text(name)
        return self.texts[name]


class _Varied(Source):
    """What messages call the data of one combination: by the parameter that a mistake is about."""

    def __init__(self, name: str, point: Point, places: Mapping[str, Steps]) -> None:
        super().__init__("", name)
        self._point = point
        self._places = places

    def errors(self, found: Iterable[tuple[str, str]]) -> BadInput:
        """The first mistake: others of one combination mostly follow from it."""
        return self.error(*next(iter(found)))

    def error(self, path: str, problem: str) -> BadInput:
        """A mistake, by the parameters that put a value there, or into what is around it or within it."""
        field = _dotted(path)
        about = [
            (given, value, place)
            for given, value in self._point.settings
            if f"{(place := _path(self._places[given]))}.".startswith(f"{field}.")
            or f"{field}.".startswith(f"{place}.")
        ]
        called = " ".join(f"--vary {given}={spelling(value)}" for given, value, _ in about)
        if any(place == field for *_, place in about):
            return BadInput(f"{called}: {problem}")
        return BadInput(f"{called or f'{self.name} with {self._point.id}'}: {path}: {problem}")


def prepare(path: Path, varied: Sequence[str], columns: Sequence[str] = ()) -> Sweep:
    """A sweep over the scenario of a file, with everything checked that can be."""
    text = text_of(path)
    data = read_data(text, str(path), KIND)
    files = _Remembered(Folder(path.parent))
    base = from_data(data, Source(text, str(path)), files)
    parameters = tuple(parameter(one) for one in varied)
    places = {one.path: resolve(data, one) for one in parameters}
    _refuse_twins(parameters, places)
    points = grid(parameters)

    def played(point: Point) -> Material:
        settings = [(places[path], value) for path, value in point.settings]
        return from_data(vary(data, settings), _Varied(str(path), point, places), files)

    # Nothing that a seed could be depends on anything else, so each is looked at once.
    materials: dict[str, Material] = {}
    seeds: set[str] = set()
    for point in points:
        shape, seed = point.without_seed().id, spelling(dict(point.settings).get(SEED))
        if shape not in materials or seed not in seeds:
            materials[shape] = played(point)
            seeds.add(seed)
    columns = tuple(columns) or default_columns(base)
    check_columns(columns, materials.values())
    shared = Shared(data, str(path), Texts(str(path.parent), files.texts), version())
    runs = []
    for point in points:
        settings = tuple((places[one], value) for one, value in point.settings)
        named = {name: files.texts[name] for name in names_of(materials[point.without_seed().id])}
        runs.append(Run(point.id, key(vary(data, settings), named, shared.version), settings))
    return Sweep(base.scenario.metadata.name, shared, parameters, points, tuple(runs), columns)


def play_all(sweep: Sweep, kept: Kept, place: Place, say: Say) -> dict[str, str]:
    """Play what is not kept yet, and keep it; the errors of runs that failed, by their ids."""
    missing = [run for run in sweep.runs if kept.result(run.key) is None]
    keys = {run.id: run.key for run in missing}
    failed: dict[str, str] = {}
    if not missing:
        return failed
    say(None, len(keys))
    with closing(place(sweep.shared, missing)) as outcomes:
        for played in outcomes:
            key_of = keys.pop(played.id)
            if played.error:
                failed[played.id] = played.error
            else:
                kept.keep(key_of, played.result)
            say(played, len(keys))
    assert not keys, f"runs without an outcome: {', '.join(keys)}"
    return {run.id: failed[run.id] for run in sweep.runs if run.id in failed}


def results(sweep: Sweep, kept: Kept) -> Iterator[tuple[Point, Result]]:
    """What runs came to, in the grid's order, without those that failed."""
    for point, run in zip(sweep.points, sweep.runs, strict=True):
        found = kept.result(run.key)
        if found is not None:
            yield point, found


def tabulated(sweep: Sweep, kept: Kept) -> Table:
    """The table of all results that are kept."""
    numbers = {}
    for point, found in results(sweep, kept):
        plain = found.to_dict()
        numbers[point.id] = {column: value_at(plain, column) for column in sweep.columns}
    return table(sweep.points, numbers, sweep.columns)


def _refuse_twins(parameters: Sequence[Parameter], places: Mapping[str, Steps]) -> None:
    for number, one in enumerate(parameters):
        for other in parameters[:number]:
            a, b = places[one.path], places[other.path]
            if a == b:
                raise BadInput(f"--vary {one.path}: is given twice")
            if a[: len(b)] == b or b[: len(a)] == a:
                raise BadInput(
                    f"--vary {one.path}: lies within {other.path}, or the other way round; vary one"
                )


def _path(steps: Steps) -> str:
    """Steps as `_dotted` has a path."""
    return ".".join(map(str, steps))


def _dotted(path: str) -> str:
    """A field's path in one spelling: messages have some steps in brackets.

    >>> _dotted("spec.workloads[0].requests[nvidia.com/gpu]")
    'spec.workloads.0.requests.nvidia.com/gpu'
    """
    return path.replace("[", ".").replace("]", "")
