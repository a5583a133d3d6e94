"""Sweeps without playing anything: parameters as they are typed, their grid, varied data, and tables."""

from __future__ import annotations

import copy
import random
from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.errors import BadInput
from fairlead.simulation.sweep.grid import grid
from fairlead.simulation.sweep.parameters import parameter, spelling
from fairlead.simulation.sweep.table import Numbers, table, to_csv, to_json_lines, to_texts
from fairlead.simulation.sweep.variation import resolve, vary

PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
SCALARS = st.one_of(
    st.integers(-1000, 1000), st.floats(-1e6, 1e6, allow_nan=False), st.booleans(), st.none(), PRINTABLE
)
NUMBERS = st.one_of(st.none(), st.floats(-1e9, 1e9, allow_nan=False), st.integers(0, 10**9))


@given(SCALARS)
def test_a_value_that_is_typed_as_it_is_spelt_is_the_same_value(value: Any) -> None:
    (found,) = parameter(f"seed={spelling(value)}").values
    assert found == value
    assert type(found) is type(value)


@given(st.integers(-50, 50), st.integers(0, 60), st.integers(1, 9))
def test_a_range_has_every_number_from_its_first_to_its_last(first: int, length: int, step: int) -> None:
    assert parameter(f"seed={first}..{first + length}/{step}").values == tuple(
        range(first, first + length + 1, step)
    )


def test_decimal_steps_end_where_they_are_written_to_end() -> None:
    assert parameter("a.b=0.1..0.3/0.1").values == (0.1, 0.2, 0.3)
    assert parameter("a.b=1..2,5,7..8").values == (1, 2, 5, 7, 8)
    assert parameter('a.b="1..2",3').values == ("1..2", 3)


def test_a_path_has_one_spelling() -> None:
    assert parameter("arrivals[0].pods=1").path == "arrivals.0.pods"
    assert parameter('"seed"=1').path == "seed"
    assert parameter('a."b.c/d".e=1').path == 'a."b.c/d".e'


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("seed", "is not PATH=VALUES"),
        ("seed=", "has no values"),
        ("=1", "is not a path"),
        ("a..b=1", "is not a path"),
        ("seed=3..1", "ends before it begins"),
        ("seed=1..3/0", "a step that is not more than 0"),
        ("seed=0.5..2", "wants a step"),
        ("seed=1,2,1", "1 is given twice"),
        ("seed=1..99999999", "has more than 100000 values"),
        ("seed=[1,2]", "not fields or a list"),
        ("seed={a: 1}", "not fields or a list"),
        ("seed=2026-01-01", "is a date"),
        ("seed=.nan", "not a finite number"),
        ("seed='1", "not a list of values"),
        ("seed=1]", "not a list of values"),
        ("seed=!!python/object:os.system x", "is not a value"),
    ],
)
def test_what_cannot_be_a_parameter_is_said_in_a_line(typed: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        parameter(typed)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def parameters(lists: list[list[Any]]) -> list[Any]:
    return [parameter(f"p{number}=" + ",".join(map(spelling, values))) for number, values in enumerate(lists)]


LISTS = st.lists(st.lists(SCALARS, min_size=1, max_size=4, unique_by=spelling), min_size=1, max_size=3)


@example([[5e-324, 1e22, -1.5e300]], random.Random(1))
@given(LISTS, st.randoms())
def test_a_grid_has_each_combination_once_and_its_ids_depend_on_no_order(
    lists: list[list[Any]], order: random.Random
) -> None:
    points = grid(parameters(lists))
    assert [tuple(value for _, value in point.settings) for point in points] == list(product(*lists))
    ids = [point.id for point in points]
    assert len(set(ids)) == len(ids)
    shuffled = parameters([order.sample(values, len(values)) for values in lists])
    order.shuffle(shuffled)
    assert {point.id for point in grid(shuffled)} == set(ids)


def test_a_grid_of_too_many_runs_is_refused_before_it_is_made() -> None:
    with pytest.raises(BadInput, match="makes 10,000,000,000 runs"):
        grid([parameter("seed=1..100000"), parameter("a=1..100000")])


DATA: dict[str, Any] = {
    "spec": {
        "seed": 1,
        "workloads": [{"name": "web", "replicas": 2}, {"name": "db", "labels": {"a": "b"}}],
        "policies": [{"metadata": {"name": "web"}, "spec": {"tiers": [{"name": "spot"}, {"name": "rest"}]}}],
        "markets": [{"groups": ["spot"]}],
    }
}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("seed", ("spec", "seed")),
        ("workloads.db.replicas", ("spec", "workloads", 1, "replicas")),
        ("workloads.0.replicas", ("spec", "workloads", 0, "replicas")),
        ("policies.web.spec.tiers.rest.min", ("spec", "policies", 0, "spec", "tiers", 1, "min")),
        ("markets.0.up", ("spec", "markets", 0, "up")),
        ("planning.ranking", ("spec", "planning", "ranking")),
    ],
)
@given(value=SCALARS)
def test_a_value_goes_where_its_path_leads_and_nothing_else_changes(
    path: str, place: tuple[str | int, ...], value: Any
) -> None:
    before = copy.deepcopy(DATA)
    assert resolve(DATA, parameter(f"{path}=1")) == place
    found = vary(DATA, [(place, value)])
    assert at(found, place) == value
    assert before == DATA
    back = vary(found, [(place, None if path not in ("seed", "workloads.0.replicas") else at(DATA, place))])
    assert without_none(back) == DATA


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("workloads.wob.replicas", "spec.workloads has no item 'wob'; there are web, db"),
        ("arrivals.train.pods", "spec.arrivals has no item 'train'; it has none"),
        ("markets.1.up", "spec.markets has no item '1'; it has 1"),
        ("seed.x", "spec.seed is 1, and has no fields"),
        ("policies.web.tiers.spot.min", "fields of its spec can be varied"),
    ],
)
def test_a_path_that_leads_nowhere_is_said(path: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        resolve(DATA, parameter(f"{path}=1"))


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
    st.lists(st.integers(1, 99), min_size=1, max_size=4, unique=True),
    st.data(),
    st.randoms(),
)
def test_a_table_is_the_same_bytes_in_whatever_order_runs_ended(
    sizes: list[int], seeds: list[int], data: st.DataObject, order: random.Random
) -> None:
    columns = ("cost", "waits.p95")
    varied = [
        parameter(f"nodes={','.join(map(str, sizes))}"),
        parameter(f"seed={','.join(map(str, seeds))}"),
    ]
    points = grid(varied)
    ended: dict[str, Numbers] = {
        point.id: {column: data.draw(NUMBERS) for column in columns}
        for point in points
        if data.draw(st.booleans())
    }
    shuffled = list(ended.items())
    order.shuffle(shuffled)
    one, other = table(points, ended, columns), table(points, dict(shuffled), columns)
    assert (to_csv(one), to_json_lines(one), to_texts(one)) == (
        to_csv(other),
        to_json_lines(other),
        to_texts(other),
    )
    assert [row.parameters for row in one.rows] == [(("nodes", size),) for size in sizes]
    assert sum(row.runs - row.failed for row in one.rows) == len(ended)
    for row in one.rows:
        for cell in filter(None, row.cells):
            assert cell.least - 1e-6 <= cell.mean <= cell.most + 1e-6


def test_a_row_has_mean_least_and_most_over_its_seeds() -> None:
    points = grid([parameter("seed=1..3"), parameter("nodes=2,true")])
    ended: dict[str, Numbers] = {
        "nodes=2,seed=1": {"cost": 1.0},
        "nodes=2,seed=2": {"cost": 2.5},
        "nodes=true,seed=3": {"cost": None},
    }
    found = table(points, ended, ["cost"])
    assert to_csv(found).splitlines() == [
        "nodes,runs,failed,cost.mean,cost.min,cost.max",
        "2,3,1,1.75,1,2.5",
        "true,3,2,,,",
    ]
    assert to_json_lines(found).splitlines() == [
        '{"parameters":{"nodes":2},"runs":3,"failed":1,"results":{"cost":{"mean":1.75,"min":1,"max":2.5}}}',
        '{"parameters":{"nodes":true},"runs":3,"failed":2,"results":{"cost":null}}',
    ]
    assert to_texts(found) == (
        ["nodes", "runs", "failed", "cost"],
        [["2", "3", "1", "1.75 (1 to 2.5)"], ["true", "3", "2", "-"]],
    )


def test_without_seeds_a_row_is_one_run() -> None:
    points = grid([parameter("planning.ranking=spread,pack")])
    found = table(
        points, {"planning.ranking=pack": {"cost": 2.0}, "planning.ranking=spread": {"cost": 1}}, ["cost"]
    )
    assert to_csv(found) == "planning.ranking,runs,failed,cost\nspread,1,0,1\npack,1,0,2\n"
    assert to_texts(found) == (["planning.ranking", "cost"], [["spread", "1"], ["pack", "2"]])


def at(data: Any, place: tuple[str | int, ...]) -> Any:
    for step in place:
        data = data[step]
    return data


def without_none(data: Any) -> Any:
    if isinstance(data, dict):
        kept = {key: without_none(value) for key, value in data.items() if value is not None}
        return {key: value for key, value in kept.items() if value != {}}
    return [without_none(one) for one in data] if isinstance(data, list) else data
