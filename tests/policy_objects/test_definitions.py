"""The definitions of policies and ledgers: one source, the same refusals on both clusters."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.client.api import Client
from fairlead.client.config import load
from fairlead.client.connection import Connection
from fairlead.doors.crds import crd_texts, crds, ensure_crds
from fairlead.errors import BadObject, Missing
from fairlead.policy.names import POLICIES
from fairlead.policy.rule.model import read_policy
from fairlead.world.schema.structural import check, fill, prune, unknown_to
from support.cluster import Cluster
from support.policies import plain_policy, serve_policies

ROOT = Path(__file__).resolve().parents[2]


def changed(**spec: Any) -> dict[str, Any]:
    made = plain_policy("bad")
    made["spec"].update(spec)
    return made


def tier(**fields: Any) -> dict[str, Any]:
    return changed(tiers=[{"name": "a", "names": ["n"], **fields}, {"name": "b"}])


# Refused by the schema itself, by CEL where there is CEL, and by reading, wherever policies come from.
BY_SCHEMA = {
    "no tiers": changed(tiers=[]),
    "tiers that are no list": changed(tiers="spot"),
    "two tiers of one name": changed(tiers=[{"name": "a", "names": ["n"]}, {"name": "a"}]),
    "a tier without a name": changed(tiers=[{"names": ["n"]}]),
    "a name that is none": tier(name="A B"),
    "a percentage over a hundred": tier(min="101%"),
    "a negative min": tier(min=-1),
    "a min that is a fraction": tier(min=1.5),
    "a max of pdb": tier(max="pdb"),
    "a volatile that is a text": tier(volatile="yes"),
    "a toleration with a strange effect": tier(tolerations=[{"key": "a", "effect": "No"}]),
    "an enforce that is neither": changed(enforce="maybe"),
    "a groupBy that is neither": changed(groupBy="pods"),
    "a groupBy without a label": changed(groupBy={}),
    "a singleReplica without a tier": changed(singleReplica={"else": "spot"}),
    "a duration that is none": changed(fallback={"after": "soon"}),
    "a negative rate": changed(rebalance={"perMinute": -1}),
    "labels that are a list": changed(match={"labels": ["a"]}),
}
BY_CEL = {
    "min over max": tier(min=3, max=2),
    "pdb on a volatile tier": tier(min="pdb", volatile=True),
    "two tiers for the rest": changed(tiers=[{"name": "a"}, {"name": "b", "nodes": {}}]),
    "two tiers with pdb": changed(
        tiers=[{"name": "a", "names": ["n"], "min": "pdb"}, {"name": "b", "min": "pdb"}]
    ),
}
# What the API server cannot see at all: a field of two types is hidden from CEL.
BY_READING = {
    "a singleReplica that is no tier": changed(singleReplica="nowhere"),
    "a groupBy that is a number": changed(groupBy=7),
}
GOOD = {
    "the least": plain_policy("least", {"name": "all"}),
    "all fields": plain_policy(
        "all",
        {
            "name": "spot",
            "nodes": {"node.kubernetes.io/capacity": "spot"},
            "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
            "max": "80%",
            "volatile": True,
            "spread": ["topology.kubernetes.io/zone"],
        },
        {"name": "virtual", "names": ["virtual-node"], "max": 10, "exclusive": True, "fallback": True},
        {"name": "on-demand", "min": "pdb"},
        match={"namespaces": ["shop"], "labels": {"tier": "web"}, "kinds": ["Deployment"]},
        groupBy={"label": "app"},
        singleReplica={"tier": "on-demand", "else": "spot"},
        enforce="preferred",
        fallback={"after": "90s", "coolDown": 60},
        rebalance={"minPodAge": "1h30m", "perMinute": 5, "stabilize": "0s", "jobs": True},
    ),
}


def test_what_is_deployed_is_what_the_package_ships() -> None:
    deployed = [file.read_text() for file in sorted((ROOT / "deploy" / "crds").glob("placement*.yaml"))]
    assert deployed == crd_texts(), "cp src/fairlead/policy/crds/*.yaml deploy/crds/"


@pytest.mark.parametrize("what", [*BY_SCHEMA, *BY_CEL, *BY_READING])
def test_a_bad_policy_is_refused_when_read(what: str) -> None:
    with pytest.raises(BadObject):
        read_policy({**BY_SCHEMA, **BY_CEL, **BY_READING}[what])


@pytest.mark.parametrize("what", BY_SCHEMA)
def test_a_bad_policy_is_refused_by_the_schema_on_both_clusters(cluster: Cluster, what: str) -> None:
    serve_policies(cluster)
    answer = cluster.wire.request("POST", POLICIES.path(), BY_SCHEMA[what], dryRun="All")
    assert answer.status == 422, answer.body
    # What both clusters say of it, compared field by field below.
    (first, *_) = answer.body["details"]["causes"]
    assert first["field"].startswith("spec.")


@pytest.mark.parametrize("what", GOOD)
def test_a_good_policy_is_taken_as_it_is(cluster: Cluster, what: str) -> None:
    serve_policies(cluster)
    made = cluster.wire.request("POST", POLICIES.path(), GOOD[what], dryRun="All").ok()
    assert made["spec"] == GOOD[what]["spec"]
    assert read_policy(made).spec == read_policy(GOOD[what]).spec


@pytest.mark.real
@pytest.mark.parametrize("what", BY_CEL)
def test_what_a_schema_cannot_say_cel_refuses(real_host: Any, what: str) -> None:
    cluster = Cluster(real_host)
    serve_policies(cluster)
    answer = cluster.wire.request("POST", POLICIES.path(), BY_CEL[what], dryRun="All")
    cluster.close()
    assert answer.status == 422, answer.body


@pytest.mark.real
def test_both_clusters_refuse_with_the_same_words(real_host: Any, embedded_host: Any) -> None:
    said = []
    for host in (real_host, embedded_host):
        cluster = Cluster(host)
        serve_policies(cluster)
        answers = {
            what: cluster.wire.request("POST", POLICIES.path(), bad, dryRun="All").body
            for what, bad in BY_SCHEMA.items()
        }
        # The real server adds that CEL was not asked; there is no CEL in the embedded one.
        said.append(
            {
                what: sorted(
                    (cause["field"], cause["reason"], cause["message"])
                    for cause in body["details"]["causes"]
                    if "some validation rules were not checked" not in cause["message"]
                )
                for what, body in answers.items()
            }
        )
        cluster.close()
    assert said[0] == said[1]


def test_an_unknown_field_is_refused_when_strict_and_dropped_otherwise(cluster: Cluster) -> None:
    serve_policies(cluster)
    odd = changed(wrong=1)
    odd["spec"]["tiers"][0]["odd"] = {"a": 1}
    strict = cluster.wire.request("POST", POLICIES.path(), odd, dryRun="All", fieldValidation="Strict")
    assert strict.status == 400
    assert 'unknown field "spec.wrong"' in strict.body["message"]
    assert 'unknown field "spec.tiers[0].odd"' in strict.body["message"]
    made = cluster.wire.request("POST", POLICIES.path(), odd, dryRun="All").ok()
    assert made["spec"] == changed()["spec"]


def test_the_definitions_are_made_once_and_left_alone_afterwards(cluster: Cluster) -> None:
    serve_policies(cluster)
    name = "placementpolicies.fairlead.dev"
    before = cluster.get("CustomResourceDefinition", name)["metadata"]["resourceVersion"]
    serve_policies(cluster)
    assert cluster.get("CustomResourceDefinition", name)["metadata"]["resourceVersion"] == before


def test_an_older_definition_is_brought_up_to_date(cluster: Cluster) -> None:
    serve_policies(cluster)
    name = "placementledgers.fairlead.dev"
    old = {"metadata": {"annotations": {"fairlead.dev/schema-version": "0"}}}
    cluster.patch("CustomResourceDefinition", name, old)
    serve_policies(cluster)
    found = cluster.get("CustomResourceDefinition", name)["metadata"]["annotations"]
    assert found["fairlead.dev/schema-version"] == "2"


def as_reader(cluster: Cluster, folder: Path, group: str, resource: str, verb: str) -> Callable[[], None]:
    """See to the definitions as somebody who may do nothing but this."""
    path = cluster.path("ServiceAccount", "default", "token")
    token = cluster.wire.request("POST", path, {"spec": {"audiences": []}}).ok()["status"]["token"]
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    role = cluster.unique("reader")
    cluster.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": cluster.namespace}],
        }
    )
    cluster.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": role},
            "rules": [{"apiGroups": [group], "resources": [resource], "verbs": [verb]}],
        }
    )
    (folder / "config").write_text(yaml.safe_dump(config))

    async def ensure() -> None:
        async with Connection(load(folder / "config")) as connection:
            await ensure_crds(Client(connection))

    return lambda: asyncio.run(ensure())


@pytest.mark.real
def test_who_may_not_change_an_older_definition_is_told_which_and_how(real_host: Any, tmp_path: Path) -> None:
    cluster = Cluster(real_host)
    serve_policies(cluster)
    name = "placementledgers.fairlead.dev"
    cluster.patch(
        "CustomResourceDefinition", name, {"metadata": {"annotations": {"fairlead.dev/schema-version": "1"}}}
    )
    ensure = as_reader(cluster, tmp_path, "apiextensions.k8s.io", "customresourcedefinitions", "get")
    try:
        with pytest.raises(Missing, match=r"placementledgers.*older Fairlead.*fairlead policy crds"):
            ensure()
    finally:
        serve_policies(cluster)
        cluster.close()


@pytest.mark.real
@pytest.mark.parametrize(
    ("group", "resource", "verb"),
    [
        ("apiextensions.k8s.io", "customresourcedefinitions", "get"),
        ("fairlead.dev", "placementledgers", "list"),
    ],
    ids=["reads definitions", "reads what they define"],
)
def test_who_may_not_make_a_definition_is_told_which_and_how(
    real_host: Any, tmp_path: Path, group: str, resource: str, verb: str
) -> None:
    cluster = Cluster(real_host)
    serve_policies(cluster)
    name = "placementledgers.fairlead.dev"
    cluster.delete("CustomResourceDefinition", name)
    cluster.gone("CustomResourceDefinition", name)
    ensure = as_reader(cluster, tmp_path, group, resource, verb)
    try:
        with pytest.raises(Missing, match=r"placementledgers\.fairlead\.dev.*fairlead policy crds"):
            ensure()
    finally:
        serve_policies(cluster)
        cluster.close()


class TestSchemas:
    """The embedded cluster's part, without a cluster."""

    schema = crds()["placementpolicies.fairlead.dev"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    @pytest.mark.parametrize("what", BY_SCHEMA)
    def test_every_bad_policy_has_something_wrong(self, what: str) -> None:
        assert check(self.schema, BY_SCHEMA[what])

    @pytest.mark.parametrize("what", GOOD)
    def test_nothing_is_wrong_with_a_good_one(self, what: str) -> None:
        assert check(self.schema, GOOD[what]) == []
        assert unknown_to(self.schema, GOOD[what]) == []

    def test_what_is_unknown_is_dropped_and_nothing_else(self) -> None:
        odd = changed(wrong=1)
        odd["metadata"]["labels"] = {"kept": "yes"}
        wanted = copy.deepcopy(odd)
        del wanted["spec"]["wrong"]
        prune(self.schema, odd)
        assert odd == wanted

    def test_defaults_fill_what_is_not_there(self) -> None:
        schema = {
            "properties": {
                "a": {"default": {"b": [1]}, "properties": {"c": {"default": 2}}},
                "list": {"items": {"properties": {"d": {"default": "x"}}}},
            }
        }
        item: dict[str, Any] = {"list": [{}, {"d": "y"}]}
        fill(schema, item)
        assert item == {"a": {"b": [1], "c": 2}, "list": [{"d": "x"}, {"d": "y"}]}
