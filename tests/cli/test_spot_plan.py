"""``fairlead spot-plan``: what it prints, with which code it ends, and what it makes of bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.cli.policy import command as policy_command
from fairlead.cli.spot_plan import UNREACHABLE, command
from fairlead.errors import BadInput
from support.spot_plans import document, question, traced, up_and_down

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "spot-plan"
TRACES = EXAMPLES / "traces.yaml"
VARIANTS = ["all on-demand", "all spot", "half", "shipped", "planned"]

Document = dict[str, Any]


def run(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


def data(*arguments: str, code: int = 0) -> Document:
    found: Document = json.loads(run(*arguments, "-o", "json", code=code).stdout)
    return found


@pytest.fixture
def two_pools(tmp_path: Path) -> Path:
    """A plan of two pools that are down apart, over two days."""
    question(tmp_path, up_and_down(100, 6, 470), up_and_down(300, 6, 270), target="95%")
    return tmp_path / "plan.yaml"


def test_the_five_policies_stand_beside_each_other_and_the_assumption_is_said() -> None:
    output = run(str(TRACES)).stdout
    assert "assumed: pools fail as wholes and together" in output
    assert "if they were independent" in output
    assert [name for name in VARIANTS if f"\n{name} " in output] == VARIANTS


@pytest.mark.parametrize("example", ["traces.yaml", "rates.yaml"])
def test_the_planned_policy_is_one_that_lint_takes(example: str, tmp_path: Path) -> None:
    out = tmp_path / "policy.yaml"
    run(str(EXAMPLES / example), "--policy-out", str(out))
    done = CliRunner().invoke(policy_command, ["lint", str(out)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "0 warnings" in done.output


def test_every_policy_beside_it_is_one_that_lint_takes_too(two_pools: Path, tmp_path: Path) -> None:
    for one in data(str(two_pools))["variants"]:
        out = tmp_path / "policy.yaml"
        out.write_text(yaml.safe_dump(one["policy"]))
        done = CliRunner().invoke(policy_command, ["lint", str(out)], catch_exceptions=False)
        assert done.exit_code == 0, done.output


def test_the_same_file_gives_the_same_plan() -> None:
    assert run(str(EXAMPLES / "rates.yaml")).stdout == run(str(EXAMPLES / "rates.yaml")).stdout


def test_what_was_measured_stands_beside_what_was_expected(two_pools: Path) -> None:
    found = data(str(two_pools), "--choose", "1d", "--check", "12h")
    assert [one["name"] for one in found["check"]] == VARIANTS
    (steady,) = (one for one in found["check"] if one["name"] == "all on-demand")
    assert (steady["availability"], steady["outages"], steady["nodesTaken"]) == (1.0, 0, 0)
    assert (
        "played on 0.5 days from day 1.0 on" in run(str(two_pools), "--choose", "1d", "--check", "12h").stdout
    )


def test_a_target_that_is_missed_in_the_check_is_reported_as_missed(tmp_path: Path) -> None:
    # Both pools are always there on the day that chooses, and never on the day that checks.
    gone = [1] * 288 + [1] * 12 + [0] * 276
    question(tmp_path, gone, gone, target="50%")
    found = data(str(tmp_path / "plan.yaml"), "--choose", "1d", "--check", "12h")
    planned, checked = found["variants"][-1], found["check"][-1]
    assert planned["meetsTarget"]
    assert not checked["meetsTarget"]
    assert checked["availability"] < 0.2


def test_a_target_that_nothing_reaches_ends_with_3_and_prints_no_policy(tmp_path: Path) -> None:
    question(tmp_path, up_and_down(40, 60, 476))
    path = tmp_path / "plan.yaml"
    plan = yaml.safe_load(path.read_text())
    plan["spec"]["onDemand"]["max"] = 2
    path.write_text(yaml.safe_dump(plan))
    output = run(str(path), code=UNREACHABLE).stdout
    assert "no policy reaches 99.9000%" in output
    assert "PlacementPolicy" not in output
    assert data(str(path), code=UNREACHABLE)["policy"] is None


def test_a_date_splits_the_traces_where_their_beginning_is_known() -> None:
    found = data(str(TRACES), "--check-from", "2026-03-11", "--check", "6h")
    assert "chosen on 9.0 days" in found["said"][1]
    assert len(found["check"]) == len(VARIANTS)


def pool(**changes: Any) -> Callable[[Document], None]:
    """Change the first pool."""
    return lambda plan: plan["spec"]["pools"][0].update(changes)


def workload(**changes: Any) -> Callable[[Document], None]:
    """Change the workload."""
    return lambda plan: plan["spec"]["workload"].update(changes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (pool(cost=1), "spec.pools[0].cost: there is no such field; allowed are name, zone, pricePerHour"),
        (pool(trace="none.json"), "spec.pools[0].trace: spot trace "),
        (pool(trace=""), "spec.pools[0]: give either a trace, or up and down"),
        (pool(up="1h"), "spec.pools[0]: give either a trace, or up and down"),
        (pool(trace="", up="1h"), "spec.pools[0]: up and down must both be given"),
        (pool(trace="", up="1h", down="5m"), "spec.pools[1]: all pools must have a trace, or none"),
        (pool(name="on-demand"), "spec.pools[0].name: 'on-demand' is the name of the on-demand tier"),
        (pool(name="pool-1"), "spec.pools[1].name: 'pool-1' is given twice"),
        (pool(zone="zone-1"), "spec.pools[1]: has the same labels and zone as another pool"),
        (
            pool(labels={"node.kubernetes.io/capacity": "on-demand"}),
            "do not tell its nodes from on-demand nodes",
        ),
        (workload(target="most"), "spec.workload.target: 'most' is no share of time like 99.9%"),
        (workload(target=1.5), "spec.workload.target: 1.5 is no share of time"),
        (workload(minAvailable=7), "spec.workload.minAvailable: 7 is not between 0 and replicas (6)"),
        (workload(minAvailable="half"), "is neither a number nor a percentage up to 100%"),
        (workload(requests={"cpu": 5}), "spec.workload.requests.cpu: 5 does not fit on a node, which has 4"),
        (workload(requests={"cpu": "much"}), "spec.workload.requests.cpu: "),
        (workload(requests={}), "spec.workload: lacks requests"),
        (lambda plan: plan["spec"].pop("nodes"), "spec.nodes.resources: lacks cpu"),
        (lambda plan: plan["spec"].update(pools=[]), "spec.pools: is empty"),
        (lambda plan: plan["spec"].pop("onDemand"), "spec: lacks onDemand, which is required"),
    ],
)
def test_a_bad_plan_is_refused_with_its_line_and_field(
    change: Callable[[Document], None], said: str, tmp_path: Path
) -> None:
    question(tmp_path, [1, 1], [1, 0])
    plan = document([traced(0), traced(1)])
    change(plan)
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(plan, sort_keys=False))
    with pytest.raises(BadInput) as caught:
        run(str(path))
    assert str(caught.value).startswith(f"{path}:")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--choose", "soon"], "--choose: 'soon' is not a duration"),
        (["--choose", "9d"], "--choose: ends 9.0 days after the traces' beginning, and they have 2.0 days"),
        (["--choose", "1d", "--check", "2d"], "--check: ends 3.0 days after"),
        (["--choose", "1d", "--check-from", "12h"], "is within the time that chooses"),
        (["--check-from", "2026-03-01"], "a date needs spec.begins"),
    ],
)
def test_times_that_make_no_sense_are_refused(two_pools: Path, flags: list[str], said: str) -> None:
    with pytest.raises(BadInput) as caught:
        run(str(two_pools), *flags)
    assert said in str(caught.value)
