"""What a rolling update promises, under any strategy, size, pace and disturbance."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.world.controllers.deployment import Bounds, bounds
from fairlead.world.kubelet import Pace
from fairlead.world.objects import scaled
from support.manifests import deployment
from support.worlds import active, ready, seconds, status, world

amounts = st.one_of(st.integers(0, 6), st.integers(0, 100).map(lambda number: f"{number}%"))


@st.composite
def strategies(draw: st.DrawFn) -> dict[str, int | str]:
    surge, unavailable = draw(amounts), draw(amounts)
    if surge in (0, "0%") and unavailable in (0, "0%"):
        surge = 1  # the API refuses that both are zero
    return {"maxSurge": surge, "maxUnavailable": unavailable}


@given(
    replicas=st.integers(1, 12),
    strategy=strategies(),
    ready_after=st.sampled_from(["0s", "3s", "20s"]),
    stop=st.sampled_from([0, 1, 10]),
    second=st.booleans(),
)
@settings(max_examples=25)
def test_a_rolling_update_stays_within_its_bounds(
    replicas: int, strategy: dict[str, int | str], ready_after: str, stop: int, second: bool
) -> None:
    cluster = world(4, cpu=64, pace=Pace(start=seconds(1), stop=seconds(stop)))
    made = deployment(
        "web", replicas, spec={"strategy": {"type": "RollingUpdate", "rollingUpdate": strategy}}
    )
    made["spec"]["template"]["metadata"]["annotations"] = {"fairlead.dev/ready-after": ready_after}
    cluster.create(made)
    cluster.run_until(lambda: len(ready(cluster, app="web")) == replicas)
    cluster.run_until(seconds(30))
    allowed = bounds(made)
    least, most = [replicas], [replicas]

    def look(_: object) -> None:
        least.append(len(ready(cluster, app="web")))
        most.append(len(active(cluster, app="web")))

    cluster.store.subscribe(look)

    def roll(image: str) -> None:
        containers = [{"name": "main", "image": image}]
        cluster.patch("Deployment", "web", {"spec": {"template": {"spec": {"containers": containers}}}})

    roll("image:2")
    if second:
        cluster.run_until(seconds(5))  # another change before the first is through
        roll("image:3")
    wanted = "image:3" if second else "image:2"
    cluster.run_until(
        lambda: (
            [p["spec"]["containers"][0]["image"] for p in ready(cluster, app="web")] == [wanted] * replicas
            and len(active(cluster, app="web")) == replicas
        )
    )
    assert min(least) >= replicas - allowed.unavailable
    assert max(most) <= replicas + allowed.surge
    cluster.run_until(seconds(60))
    assert status(cluster, "Deployment", "web")["updatedReplicas"] == replicas


@given(replicas=st.integers(0, 500), strategy=strategies())
def test_surge_rounds_up_and_unavailability_down(replicas: int, strategy: dict[str, int | str]) -> None:
    found = bounds({"spec": {"replicas": replicas, "strategy": {"rollingUpdate": strategy}}})

    def share(value: int | str) -> float:
        return float(value[:-1]) * replicas / 100 if isinstance(value, str) else float(value)

    surge, unavailable = share(strategy["maxSurge"]), share(strategy["maxUnavailable"])
    assert surge <= found.surge < surge + 1
    if found.surge or int(unavailable):
        assert found.unavailable == min(int(unavailable), replicas)
    else:
        assert found == Bounds(0, min(1, replicas))


def test_percentages_are_exact() -> None:
    assert [scaled("33%", n, up=True) for n in (0, 1, 3, 100)] == [0, 1, 1, 33]
    assert [scaled("33%", n, up=False) for n in (0, 1, 3, 100)] == [0, 0, 0, 33]
