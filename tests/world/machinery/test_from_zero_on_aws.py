"""Groups on Auto Scaling groups: from zero the autoscaler knows what tags and EKS tell it, no more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from fairlead.nodegroups.aws import CloudState, Version
from fairlead.world.autoscaler import Pacing
from fairlead.world.world import World
from support.aws_groups import account, asg_name, sized, tagged
from support.manifests import deployment
from support.worlds import Obj, asking, events, names, ready, seconds

LARGE = sized("large", "t3a.xlarge")
UNMATCHED = "pod didn't trigger scale-up: 1 node(s) didn't match Pod's node affinity/selector"
# What the autoscaler takes of a managed group when it may not ask about it: nothing.
DENIED: dict[str, Any] = {"describe": "denied"}
SAYS_NOTHING: dict[str, Any] = {"labels": {}, "taints": ()}


def on_aws(state: CloudState, *, unneeded: int = 60, **pacing: Any) -> World:
    patience = Pacing(unneeded=seconds(unneeded), after_add=seconds(unneeded), **pacing)
    return World(groups=[LARGE], account=state, autoscaler=patience)


def tenant(size: str = "large", *, replicas: int = 1, tolerates: bool = True) -> Obj:
    toleration = {"key": "size", "operator": "Equal", "value": size, "effect": "NoSchedule"}
    spec = {"nodeSelector": {"size": size}, "tolerations": [toleration] if tolerates else []}
    return deployment(size, replicas, pods={**asking(), **spec})


def with_tags(state: CloudState, group: str, tags: dict[str, str]) -> CloudState:
    """The account after somebody has tagged the Auto Scaling group behind a group."""
    asgs = tuple(
        msgspec.structs.replace(asg, tags={**asg.tags, **tags}) if asg.nodegroup == group else asg
        for asg in state.auto_scaling_groups
    )
    return msgspec.structs.replace(state, auto_scaling_groups=asgs)


def served(cluster: World, state: CloudState, within: timedelta = timedelta(minutes=10)) -> None:
    """From here on the account is so; the tenant then runs, on a node that is what its group is."""
    cluster.pools.set_account(state)
    cluster.run_until(lambda: ready(cluster, app="large"), within)
    (node,) = cluster.all("Node")
    assert node["metadata"]["labels"]["size"] == "large"
    assert [taint["value"] for taint in node["spec"]["taints"]] == ["large"]


def refused(cluster: World, *, after: float = 600) -> None:
    """The tenant waits, and for all that is seen would wait for ever."""
    cluster.run_until(seconds(after))
    assert not cluster.all("Node")
    assert not ready(cluster)


def in_vain(cluster: World) -> None:
    """A node comes for the tenant, which then cannot use it."""
    cluster.run_until(lambda: cluster.all("Node"), timedelta(minutes=5))
    cluster.run_until(seconds(30))
    assert names(cluster.all("Node")) == ["large-1"]
    assert not ready(cluster)


class TestATagThatIsMissing:
    def test_the_pod_waits_and_event_and_log_say_that_no_template_has_the_label(self) -> None:
        cluster = on_aws(account(LARGE, **DENIED))
        cluster.create(tenant())
        refused(cluster)
        assert events(cluster, "NotTriggerScaleUp") == [UNMATCHED]
        assert cluster.autoscaler is not None
        (pod,) = names(cluster.all("Pod"))
        assert (
            f"Pod default/{pod} can't be scheduled on {asg_name('large')}, predicate checking error: node(s) "
            "didn't match Pod's node affinity/selector; predicateName=NodeAffinity; reasons: node(s) didn't "
            "match Pod's node affinity/selector; debugInfo=\n"
        ) in cluster.autoscaler.log.text

    def test_with_the_tags_the_same_pod_gets_its_node(self) -> None:
        state = account(LARGE, **DENIED)
        cluster = on_aws(state)
        cluster.create(tenant())
        refused(cluster)
        served(cluster, with_tags(state, "large", tagged(LARGE)))

    def test_tags_are_not_needed_where_eks_answers(self) -> None:
        state = account(LARGE)
        cluster = on_aws(state)
        cluster.create(tenant())
        served(cluster, state)

    def test_without_the_taints_tag_a_pod_that_cannot_stay_there_brings_nodes_in_vain(self) -> None:
        label = {key: value for key, value in tagged(LARGE).items() if "/taint/" not in key}
        cluster = on_aws(account(LARGE, tags=label, **DENIED))
        cluster.create(tenant(tolerates=False))
        in_vain(cluster)

    def test_without_discovery_tags_the_group_is_not_known_at_all(self) -> None:
        state = account(LARGE)
        hidden = tuple(
            msgspec.structs.replace(asg, tags={k: v for k, v in asg.tags.items() if k.startswith("eks:")})
            for asg in state.auto_scaling_groups
        )
        cluster = on_aws(msgspec.structs.replace(state, auto_scaling_groups=hidden))
        cluster.create(tenant())
        refused(cluster)
        assert events(cluster, "NotTriggerScaleUp") == ["pod didn't trigger scale-up: "]
        assert cluster.autoscaler is not None
        assert not cluster.autoscaler.log.text
        served(cluster, state)


class TestATagThatIsThereInVain:
    def test_what_eks_says_wins_over_it(self) -> None:
        cluster = on_aws(account(LARGE, tags=tagged(LARGE), labels={"size": "big"}))
        cluster.create(tenant())
        refused(cluster)

    def test_an_effect_in_the_spelling_of_eks_is_none(self) -> None:
        wrong = {key: value.replace("NoSchedule", "NO_SCHEDULE") for key, value in tagged(LARGE).items()}
        cluster = on_aws(account(LARGE, tags=wrong, **SAYS_NOTHING))
        cluster.create(tenant(tolerates=False))
        in_vain(cluster)

    def test_a_version_that_misreads_effects_takes_the_taint_for_none(self) -> None:
        old = on_aws(account(LARGE), version=Version(1, 29))
        old.create(tenant(tolerates=False))
        in_vain(old)
        new = on_aws(account(LARGE), version=Version(1, 33))
        new.create(tenant(tolerates=False))
        refused(new)

    def test_an_answer_that_failed_hides_labels_for_minutes_after_it_is_allowed(self) -> None:
        cluster = on_aws(account(LARGE, **DENIED))
        cluster.create(tenant())
        cluster.run_until(lambda: events(cluster, "NotTriggerScaleUp"))
        assert cluster.autoscaler is not None
        assert "Failed to get labels from EKS DescribeNodegroup API for nodegroup large" in (
            cluster.autoscaler.log.text
        )
        cluster.pools.set_account(account(LARGE))
        cluster.run_until(seconds(5 * 60))
        assert not cluster.all("Node")
        served(cluster, account(LARGE), timedelta(minutes=3))


class TestNodesThatWereSeen:
    def test_after_scale_to_zero_the_last_node_is_remembered_in_place_of_tags(self) -> None:
        cluster = with_a_past()
        # From nothing it would not work now, but it has seen what nodes are like.
        cluster.pools.set_account(account(LARGE, **DENIED))
        cluster.create(tenant())
        cluster.run_until(lambda: ready(cluster))

    def test_a_last_node_that_was_not_like_the_next_one_keeps_the_group_at_zero(self) -> None:
        cluster = with_a_past({"spec": {"taints": [{"key": "broken", "effect": "NoSchedule"}]}})
        cluster.create(tenant())
        refused(cluster, after=3600)

    def test_what_is_remembered_can_be_made_to_expire(self) -> None:
        custom = {"spec": {"taints": [{"key": "broken", "effect": "NoSchedule"}]}}
        cluster = with_a_past(custom, remember=timedelta(minutes=30))
        cluster.create(tenant())
        refused(cluster, after=20 * 60)
        cluster.run_until(lambda: ready(cluster), timedelta(minutes=20))

    def test_a_node_that_is_there_counts_more_than_tags(self) -> None:
        cluster = on_aws(account(LARGE))
        cluster.create(tenant())
        cluster.run_until(lambda: ready(cluster))
        cluster.run_until(seconds(600))
        cluster.pools.set_account(account(LARGE, **DENIED, **SAYS_NOTHING))
        cluster.create(whole_node())
        cluster.run_until(lambda: len(ready(cluster)) == 2)
        assert names(cluster.all("Node")) == ["large-1", "large-2"]

    def test_a_node_that_was_taken_away_between_two_looks_is_remembered(self) -> None:
        cluster = on_aws(account(LARGE))
        cluster.create(tenant())
        cluster.run_until(lambda: ready(cluster))
        cluster.run_until(seconds(600))  # what EKS answered once is forgotten by then
        cluster.pools.set_account(account(LARGE, **DENIED))
        cluster.remove_node("large-1")
        cluster.create(whole_node())
        cluster.run_until(lambda: len(ready(cluster)) == 2)
        assert not events(cluster, "NotTriggerScaleUp")


class TestBounds:
    def test_an_auto_scaling_group_says_how_many_nodes_there_may_be(self) -> None:
        few = sized("large", "t3a.xlarge", max=1)
        cluster = on_aws(account(few))
        cluster.create(tenant())
        cluster.create(whole_node())
        cluster.run_until(seconds(600))
        assert len(cluster.all("Node")) == 1
        assert cluster.autoscaler is not None
        assert f"Skipping node group {asg_name('large')} - max size reached" in cluster.autoscaler.log.text
        cluster.pools.set_account(account(LARGE))
        cluster.run_until(lambda: len(ready(cluster)) == 2)

    def test_one_that_launches_nothing_is_given_up_on(self) -> None:
        state = account(LARGE)
        halted = tuple(
            msgspec.structs.replace(asg, suspended=("Launch",)) for asg in state.auto_scaling_groups
        )
        cluster = on_aws(msgspec.structs.replace(state, auto_scaling_groups=halted))
        cluster.create(tenant())
        cluster.run_until(lambda: cluster.pools.orders("large"))
        refused(cluster, after=16 * 60)
        served(cluster, state)


def test_a_steady_account_means_no_writes() -> None:
    cluster = on_aws(account(LARGE, **DENIED))
    cluster.create(tenant())
    refused(cluster, after=3600)
    before = cluster.store.rv
    cluster.run_until(seconds(3600))
    assert cluster.store.rv == before


def with_a_past(patch: Obj | None = None, **pacing: Any) -> World:
    """A cluster whose large group had a node, changed so in its last minute, and is at zero again."""
    cluster = on_aws(account(LARGE), **pacing)
    cluster.create(tenant())
    cluster.run_until(lambda: ready(cluster))
    cluster.run_until(seconds(120))
    if patch is not None:
        cluster.patch("Node", "large-1", patch)
    cluster.delete("Deployment", "large")
    cluster.run_until(lambda: not cluster.all("Node"), timedelta(minutes=10))
    return cluster


def whole_node() -> Obj:
    """A pod for the large group that leaves no room for another."""
    made = tenant()
    made["metadata"]["name"] = "whole"
    made["spec"]["template"]["spec"] |= asking("4")
    return made
