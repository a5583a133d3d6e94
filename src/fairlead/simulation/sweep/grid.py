"""Every combination of parameters, in the order in which they are written: the last one varies fastest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from fairlead.errors import BadInput
from fairlead.simulation.sweep.parameters import Parameter, Value, spelling

MOST_RUNS = 100_000
SEED = "seed"


@dataclass(frozen=True, slots=True)
class Point:
    """One combination: each parameter's path with its value.

    `id` depends on nothing but paths and values: not on their order, nor on what else the sweep plays.
    """

    settings: tuple[tuple[str, Value], ...]

    @property
    def id(self) -> str:
        """As text: ``seed=3,workloads.web.replicas=5``."""
        return ",".join(f"{path}={spelling(value)}" for path, value in sorted(self.settings, key=_path))

    def without_seed(self) -> Point:
        """What runs with different seeds have in common."""
        return Point(tuple(one for one in self.settings if one[0] != SEED))


def grid(parameters: Sequence[Parameter]) -> tuple[Point, ...]:
    """All combinations.

    >>> from fairlead.simulation.sweep.parameters import parameter
    >>> [point.id for point in grid([parameter("workloads.a.replicas=1,2"), parameter("seed=7,8")])][:2]
    ['seed=7,workloads.a.replicas=1', 'seed=8,workloads.a.replicas=1']
    """
    number = math.prod(len(one.values) for one in parameters)
    if number > MOST_RUNS:
        raise BadInput(f"--vary makes {number:,} runs; at most {MOST_RUNS:,} are played in one sweep")
    paths = [one.path for one in parameters]
    return tuple(
        Point(tuple(zip(paths, values, strict=True)))
        for values in product(*(one.values for one in parameters))
    )


def _path(setting: tuple[str, Value]) -> str:
    return setting[0]
