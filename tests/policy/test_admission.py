"""What a pod is given at admission."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import BadObject
from fairlead.kube.tolerations import Toleration
from fairlead.policy.decide.admission import annotations_of, patch, patched, warnings_of
from fairlead.policy.rule.choice import Choice
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.workloads import Workload
from fairlead.policy.slots.placing import Placing
from fairlead.policy.tiers.nodes import tier_of_node
from fairlead.world.patches import json_patch
from support.members import a_deployment
from support.policies import ON_DEMAND, SPOT, policy
from support.tiers import NODES, node_terms, policies, runs_on

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = a_deployment()
JOB = Workload("Job", "batch/v1", "default", "work", "uid-work", replicas=3, job=True)
BARE = Workload("Pod", "v1", "default", "solo", replicas=1, recreated=False, bare=True)
RUN = Workload("TaskRun", "tekton.dev/v1", "default", "build", "uid-build", recreated=False)
COST = "controller.kubernetes.io/pod-deletion-cost"

IN_SPOT = {"key": "capacity", "operator": "In", "values": ["spot"]}
IN_ON_DEMAND = {"key": "capacity", "operator": "In", "values": ["on-demand"]}
ALONE = {
    "labelSelector": {"matchExpressions": [{"key": "fairlead.dev/exclusive", "operator": "Exists"}]},
    "namespaceSelector": {},
    "topologyKey": "kubernetes.io/hostname",
}


def a_pod(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "web-", **({"labels": labels} if labels else {})},
        "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c"}], **spec},
    }


def placing(tier: int | None = 0, slot: int = 2, *, firm: bool = False, token: str = "t") -> Placing:
    return Placing(slot, Choice(tier, "full" if tier is None else "rule", firm), token)


def given_to(
    pod: dict[str, Any],
    found: PlacementPolicy | None = None,
    place: Placing | None = None,
    workload: Workload = WEB,
    **more: Any,
) -> dict[str, Any]:
    """The pod as the API server has it after our patch."""
    operations = patch(pod, found or policy(), place or placing(), workload, **more).operations
    result: dict[str, Any] = json_patch(copy.deepcopy(pod), operations)
    return result


def affinity(pod: dict[str, Any]) -> Any:
    return pod["spec"]["affinity"]["nodeAffinity"]


def required(*terms: Any) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


class TestWarnings:
    def test_a_pod_that_is_simply_given_its_place_has_none(self) -> None:
        assert warnings_of(a_pod(), policy(), placing()) == ()

    def test_a_pod_beyond_every_max_is_said_to_wait(self) -> None:
        (said,) = warnings_of(a_pod(), policy(), placing(None))
        assert said == "every tier of policy web is at its max; the pod waits"

    def test_a_pod_that_is_placed_in_spite_of_a_max_is_told_why(self) -> None:
        (said,) = warnings_of(a_pod(), policy(), Placing(9, Choice(1, "beyond"), "t"))
        assert said.endswith(
            "goes to tier on-demand all the same, because nothing could send it to one later"
        )

    def test_a_users_own_deletion_cost_turns_off_the_order_of_scale_in(self) -> None:
        costed = a_pod()
        costed["metadata"]["annotations"] = {COST: "100"}
        (said,) = warnings_of(costed, policy(), placing())
        assert "scale-in will not follow the slots of policy web" in said
        ours = given_to(a_pod())
        assert warnings_of(ours, policy(), placing()) == ()


class TestMarks:
    def test_a_pod_is_marked_with_its_policy_slot_tier_and_token(self) -> None:
        assert given_to(a_pod())["metadata"]["annotations"] == {
            "fairlead.dev/policy": "web",
            "fairlead.dev/slot": "2",
            "fairlead.dev/tier": "spot",
            "fairlead.dev/slot-token": "t",
            COST: "-2",
        }

    def test_what_the_user_annotated_stays_and_the_deletion_cost_is_his(self) -> None:
        pod = a_pod()
        pod["metadata"]["annotations"] = {"a/b": "c", COST: "5"}
        found = given_to(pod)["metadata"]["annotations"]
        assert (found["a/b"], found[COST]) == ("c", "5")

    def test_marks_copied_from_another_pod_are_replaced_its_deletion_cost_too(self) -> None:
        copied = given_to(a_pod(), place=placing(1, 9, token="other"))
        found = given_to(copied, place=placing(None, 4, token=""))["metadata"]["annotations"]
        assert found == {"fairlead.dev/policy": "web", "fairlead.dev/slot": "4", COST: "-4"}

    def test_a_pod_that_has_a_node_is_only_marked(self) -> None:
        pod = a_pod(nodeName="n1")
        found = given_to(
            pod, policy("web", SPOT | {"exclusive": True, "tolerations": [{"operator": "Exists"}]})
        )
        assert found["spec"] == pod["spec"]
        assert found["metadata"]["annotations"]["fairlead.dev/slot"] == "2"
        assert "labels" not in found["metadata"]

    def test_bindings_carry_the_same_marks(self) -> None:
        assert annotations_of(policy(), placing()) == given_to(a_pod())["metadata"]["annotations"]


class TestNodeAffinity:
    def test_a_pod_without_any_is_required_to_go_to_its_tier(self) -> None:
        assert given_to(a_pod())["spec"]["affinity"] == required({"matchExpressions": [IN_SPOT]})

    def test_terms_are_alternatives_so_the_tier_goes_into_every_one(self) -> None:
        zones = [{"key": "zone", "operator": "In", "values": [zone]} for zone in "ab"]
        pod = a_pod(affinity=required(*({"matchExpressions": [zone]} for zone in zones)))
        assert given_to(pod)["spec"]["affinity"] == required(
            *({"matchExpressions": [zone, IN_SPOT]} for zone in zones)
        )

    def test_what_else_the_pod_says_of_affinity_is_kept(self) -> None:
        wish = {"weight": 1, "preference": {"matchExpressions": [IN_ON_DEMAND]}}
        pod = a_pod(affinity={"podAffinity": {"x": 1}, "nodeAffinity": {PREFERRED: [wish]}})
        found = given_to(pod)["spec"]["affinity"]
        assert found["podAffinity"] == {"x": 1}
        assert found["nodeAffinity"][PREFERRED] == [wish]

    def test_several_names_are_several_terms_times_those_there_are(self) -> None:
        named = policy("web", {"name": "burst", "names": ["v1", "v2"]})
        zones = [{"key": "zone", "operator": "In", "values": [zone]} for zone in "ab"]
        pod = a_pod(affinity=required(*({"matchExpressions": [zone]} for zone in zones)))
        terms = affinity(given_to(pod, named))[REQUIRED]["nodeSelectorTerms"]
        said = [(one["matchExpressions"][0]["values"], one["matchFields"][0]["values"]) for one in terms]
        assert said == [(["a"], ["v1"]), (["a"], ["v2"]), (["b"], ["v1"]), (["b"], ["v2"])]

    def test_preferred_is_a_wish_of_weight_100(self) -> None:
        found = affinity(given_to(a_pod(), policy(enforce="preferred")))
        assert found == {PREFERRED: [{"weight": 100, "preference": {"matchExpressions": [IN_SPOT]}}]}

    def test_pods_of_our_own_scheduler_get_all_but_the_affinity(self) -> None:
        tier = SPOT | {"tolerations": [{"key": "spot", "operator": "Exists"}]}
        found = given_to(a_pod(schedulerName="fairlead"), policy("web", tier), ours=["fairlead"])
        assert "affinity" not in found["spec"]
        assert found["spec"]["tolerations"] == [{"key": "spot", "operator": "Exists"}]
        assert found["metadata"]["annotations"]["fairlead.dev/slot"] == "2"

    def test_a_pod_beyond_every_max_matches_no_node(self) -> None:
        found = given_to(a_pod(), place=placing(None))
        assert not any(runs_on(found, node) for node in NODES)

    def test_a_pod_beyond_every_max_is_free_where_tiers_are_only_preferred(self) -> None:
        assert "affinity" not in given_to(a_pod(), policy(enforce="preferred"), placing(None))["spec"]

    def test_a_tier_of_all_nodes_asks_for_nothing(self) -> None:
        assert "affinity" not in given_to(a_pod(), policy("web", {"name": "all"}))["spec"]


class TestPodsThatCannotBeDeletedToTryAgain:
    @pytest.mark.parametrize("workload", [JOB, BARE, RUN])
    def test_they_may_go_to_all_further_tiers_and_prefer_their_own(self, workload: Workload) -> None:
        found = affinity(given_to(a_pod(), workload=workload))
        assert found[REQUIRED]["nodeSelectorTerms"] == [
            {"matchExpressions": [IN_SPOT]},
            {"matchExpressions": [IN_ON_DEMAND]},
        ]
        assert found[PREFERRED] == [{"weight": 100, "preference": {"matchExpressions": [IN_SPOT]}}]

    def test_they_do_not_go_to_tiers_before_their_own(self) -> None:
        found = affinity(given_to(a_pod(), place=placing(1), workload=JOB))
        assert found == {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [IN_ON_DEMAND]}]}}

    def test_a_min_stays_where_it_is(self) -> None:
        found = affinity(given_to(a_pod(), place=placing(0, firm=True), workload=JOB))
        assert found == {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [IN_SPOT]}]}}

    @pytest.mark.parametrize("at", [0, 1])
    def test_a_single_replica_goes_to_the_tiers_that_are_named_for_it_alone(self, at: int) -> None:
        wish = {"tier": "on-demand", "else": "spot"}
        governing = policy("web", SPOT, ON_DEMAND, {"name": "burst"}, singleReplica=wish)
        found = affinity(given_to(a_pod(), governing, placing(at, slot=1), workload=BARE))
        own = [IN_SPOT, IN_ON_DEMAND]
        assert found[REQUIRED]["nodeSelectorTerms"] == [
            {"matchExpressions": [own[at]]},
            {"matchExpressions": [own[1 - at]]},
        ]

    def test_they_tolerate_what_further_tiers_ask_for(self) -> None:
        tainted = ON_DEMAND | {"tolerations": [{"key": "safe", "operator": "Exists"}]}
        found = given_to(a_pod(), policy("web", SPOT, tainted), workload=JOB)
        assert found["spec"]["tolerations"] == [{"key": "safe", "operator": "Exists"}]


class TestTolerations:
    def tolerated(self, have: list[dict[str, Any]], wanted: dict[str, Any]) -> Any:
        pod = a_pod(tolerations=have) if have else a_pod()
        return given_to(pod, policy("web", SPOT | {"tolerations": [wanted]}))["spec"]["tolerations"]

    def test_they_are_added_after_the_users(self) -> None:
        other, wanted = (
            {"key": "a", "operator": "Exists"},
            {"key": "spot", "value": "yes", "effect": "NoSchedule"},
        )
        assert self.tolerated([other], wanted) == [other, wanted]

    @pytest.mark.parametrize(
        "have",
        [
            {"operator": "Exists"},
            {"key": "spot", "operator": "Exists"},
            {"key": "spot", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "spot", "value": "yes"},
            {"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
        ],
    )
    def test_what_is_tolerated_already_is_not_added(self, have: dict[str, Any]) -> None:
        assert self.tolerated([have], {"key": "spot", "value": "yes", "effect": "NoSchedule"}) == [have]

    @pytest.mark.parametrize(
        "have",
        [
            {"key": "spot", "value": "no"},
            {"key": "spot", "operator": "Exists", "effect": "NoExecute"},
            {"key": "spot", "operator": "Exists", "tolerationSeconds": 60},
        ],
    )
    def test_what_is_tolerated_in_part_is_added(self, have: dict[str, Any]) -> None:
        assert len(self.tolerated([have], {"key": "spot", "value": "yes", "effect": "NoSchedule"})) == 2

    def test_where_tiers_are_preferred_no_tiers_taint_keeps_a_pod_waiting(self) -> None:
        tainted = ON_DEMAND | {"tolerations": [{"key": "safe", "operator": "Exists"}]}
        found = given_to(a_pod(), policy("web", SPOT, tainted, enforce="preferred"))
        assert found["spec"]["tolerations"] == [{"key": "safe", "operator": "Exists"}]


class TestSpread:
    ZONES = policy("web", SPOT | {"spread": ["zone"]})

    def test_a_tiers_pods_are_spread_by_the_workloads_labels_revision_by_revision(self) -> None:
        labels = {"app": "web", "pod-template-hash": "r1", "apps.kubernetes.io/pod-index": "3"}
        assert given_to(a_pod(labels), self.ZONES)["spec"]["topologySpreadConstraints"] == [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "web"}},
                "matchLabelKeys": ["pod-template-hash"],
            }
        ]

    def test_what_the_user_says_of_a_topology_stands(self) -> None:
        said = [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
        found = given_to(a_pod({"app": "web"}, topologySpreadConstraints=said), self.ZONES)
        assert found["spec"]["topologySpreadConstraints"] == said

    def test_pods_without_labels_cannot_be_spread(self) -> None:
        assert "topologySpreadConstraints" not in given_to(a_pod(), self.ZONES)["spec"]


class TestExclusive:
    TENANT = policy("web", {"name": "premium", "nodes": {"type": "premium"}, "exclusive": True})

    def test_a_pod_says_in_everybodys_terms_that_it_wants_a_node_to_itself(self) -> None:
        found = given_to(a_pod({"app": "x"}), self.TENANT)
        assert found["metadata"]["labels"] == {"app": "x", "fairlead.dev/exclusive": "true"}
        assert found["spec"]["affinity"]["podAntiAffinity"] == {REQUIRED: [ALONE]}

    def test_other_anti_affinity_is_kept(self) -> None:
        other = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
        found = given_to(a_pod(affinity={"podAntiAffinity": {REQUIRED: [other]}}), self.TENANT)
        assert found["spec"]["affinity"]["podAntiAffinity"] == {REQUIRED: [other, ALONE]}


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("metadata", []),
        ("spec", "x"),
        ("affinity", []),
        ("tolerations", {}),
        ("tolerations", ["x"]),
        ("topologySpreadConstraints", 3),
    ],
)
def test_a_pod_of_the_wrong_shape_is_refused_by_name(field: str, bad: Any) -> None:
    pod = a_pod({"app": "web"})
    (pod if field in pod else pod["spec"])[field] = bad
    with pytest.raises(BadObject, match=field):
        patch(pod, policy("web", SPOT | {"spread": ["zone"]}), placing(), WEB)


def test_nulls_are_as_good_as_nothing() -> None:
    pod = a_pod(affinity={"nodeAffinity": None}, tolerations=None, topologySpreadConstraints=None)
    pod["metadata"]["annotations"] = None
    pod["metadata"]["labels"] = None
    found = given_to(pod, policy("web", SPOT | {"exclusive": True, "spread": ["zone"]}))
    assert affinity(found)[REQUIRED]["nodeSelectorTerms"] == [{"matchExpressions": [IN_SPOT]}]


_tolerations = st.lists(
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(["a", "b"]),
        st.sampled_from(["Exists", "Equal"]),
    ),
    max_size=2,
)


@st.composite
def admissions(draw: st.DrawFn) -> tuple[dict[str, Any], PlacementPolicy, Placing, Workload, list[str]]:
    """A pod with affinity of its own, a policy, and where in it the pod is put."""
    found = draw(policies(enforce=draw(st.sampled_from(["required", "preferred"]))))
    tiers = tuple(
        msgspec.structs.replace(
            tier,
            exclusive=draw(st.booleans()),
            spread=tuple(draw(st.lists(st.sampled_from(["zone", "rack"]), unique=True))),
            tolerations=tuple(msgspec.convert(one, Toleration) for one in draw(_tolerations)),
        )
        for tier in found.spec.tiers
    )
    found = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, tiers=tiers))
    spec: dict[str, Any] = {"schedulerName": draw(st.sampled_from(["default-scheduler", "fairlead"]))}
    if draw(st.booleans()):
        spec["affinity"] = required(*draw(node_terms))
    if draw(st.booleans()):
        spec["nodeSelector"] = {"zone": "a"}
    if draw(st.booleans()):
        spec["tolerations"] = draw(_tolerations)
    pod = a_pod(draw(st.sampled_from([{}, {"app": "web", "pod-template-hash": "r"}])), **spec)
    own = draw(st.none() | st.integers(0, len(tiers) - 1))
    return (
        pod,
        found,
        placing(own, firm=draw(st.booleans())),
        draw(st.sampled_from([WEB, JOB, BARE, RUN])),
        ["fairlead"],
    )


@given(admissions())
def test_patching_twice_changes_nothing_and_the_pod_given_is_not_touched(given: Any) -> None:
    pod, *rest = given
    before = copy.deepcopy(pod)
    once = json_patch(copy.deepcopy(pod), patch(pod, *rest).operations)
    assert pod == before
    assert once == patched(pod, *rest)
    assert patch(once, *rest).operations == []


@given(admissions())
def test_a_pod_matches_what_it_matched_before_within_its_tiers(given: Any) -> None:
    pod, found, place, workload, ours = given
    after = patched(pod, found, place, workload, ours)
    own = place.choice.tier
    tiers = range(len(found.spec.tiers))
    allowed: set[int | None] = set() if own is None else {own}
    if own is not None and not place.choice.firm and workload is not WEB:
        allowed |= set(tiers[own:])
    free = found.spec.enforce == "preferred" or pod["spec"]["schedulerName"] in ours
    for node in NODES:
        within = free or tier_of_node(found, *node) in allowed
        assert runs_on(after, node) is (runs_on(pod, node) and within)
