"""``list``, ``show``, ``delete`` and ``apply`` of tenants on both clusters."""

from __future__ import annotations

import json
from typing import Any

from support.tenancy import Tenancy


def test_tenants_run_each_on_a_node_of_its_own_and_are_shown_so(tenancy: Tenancy) -> None:
    nodes = tenancy.cluster.add_nodes(3, pods=10)
    done = tenancy.run("create", "-t", "small", "--name", "a", "--name", "b", "--wait", "--timeout", "1m")
    assert done.returncode == 0, done.stderr
    held = tenancy.listed()
    assert [held[name]["status"] for name in ("a", "b")] == ["running", "running"]
    (one,), (other,) = (held[name]["nodes"] for name in ("a", "b"))
    assert one != other
    assert {one, other} < set(nodes)
    # Progress is told apart from the outcome.
    assert f"tenant a in namespace {tenancy.home}: running on {one}" in done.stderr.splitlines()
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [tenancy.home, "a", "small", "1/1", "running", one] in [row[:6] for row in rows]
    (shown,) = json.loads(tenancy.ok("show", "a", "-n", tenancy.home, "-o", "json"))
    assert [each["kind"] for each in shown["objects"]] == [
        "ServiceAccount",
        "ConfigMap",
        "Secret",
        "PodDisruptionBudget",
        "Service",
        "Deployment",
    ]
    assert [(each["phase"], each["node"]) for each in shown["pods"]] == [("Running", one)]
    text = tenancy.ok("show", "--name", "a", "-n", tenancy.home)
    assert "Status:       running" in text
    assert one in text


def test_waiting_in_vain_says_why(tenancy: Tenancy) -> None:
    tenancy.cluster.add_nodes(1, pods=10)
    said = tenancy.fails(
        1, "create", "-t", "small", "--name", "a", "--name", "b", "--wait", "--timeout", "8s"
    )
    (error,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert "is pending after 8s" in error
    assert "didn't match pod anti-affinity rules" in error


class TestNames:
    def test_the_same_name_in_two_namespaces_is_two_tenants(self, tenancy: Tenancy) -> None:
        name = tenancy.cluster.unique("twin")
        other = tenancy.cluster.add_namespace()
        tenancy.cluster.namespace = tenancy.home
        tenancy.create(name)
        tenancy.create(name, more=("-n", other))
        everywhere = json.loads(tenancy.ok("list", "-o", "json"))
        assert sorted(one["namespace"] for one in everywhere if one["name"] == name) == sorted(
            [tenancy.home, other]
        )
        assert len(json.loads(tenancy.ok("show", name, "-o", "json"))) == 2
        said = tenancy.fails(2, "delete", "--name", name, "--yes")
        assert "is in several namespaces" in said
        assert "say which with -n" in said
        tenancy.ok("delete", "--name", name, "--yes", "-n", other)
        assert tenancy.objects(name, namespace=other) == {}
        assert len(tenancy.objects(name)) == 6

    def test_a_name_that_is_not_there_is_said(self, tenancy: Tenancy) -> None:
        missing = tenancy.cluster.unique("nobody")
        assert f"no tenant '{missing}' in any namespace" in tenancy.fails(1, "show", missing)
        assert f"no tenant '{missing}'" in tenancy.fails(1, "delete", "--name", missing, "--yes")


class TestDeleting:
    def test_nothing_is_deleted_without_a_yes(self, tenancy: Tenancy) -> None:
        tenancy.create("a")
        assert "say --yes" in tenancy.fails(2, "delete", "--name", "a", "-n", tenancy.home)
        said = tenancy.ok("delete", "--name", "a", "-n", tenancy.home, "--dry-run")
        assert "would delete Deployment/a, Service/a" in said
        assert len(tenancy.objects("a")) == 6

    def test_pods_are_gone_before_what_they_use(self, tenancy: Tenancy) -> None:
        tenancy.cluster.add_nodes(1, pods=10)
        tenancy.create("a", more=("--wait", "--timeout", "1m"))
        tenancy.ok("delete", "--name", "a", "--yes", "-n", tenancy.home)
        assert tenancy.objects("a") == {}
        assert tenancy.cluster.names("Pod") == []

    def test_what_is_on_its_way_out_is_waited_for_and_made_anew(self, tenancy: Tenancy) -> None:
        tenancy.cluster.add_nodes(1, pods=10)
        tenancy.create("a", more=("--wait", "--timeout", "1m"))
        before = tenancy.objects("a")
        # The finalizer keeps it until we are asked to make it again.
        tenancy.cluster.patch("Service", "a", {"metadata": {"finalizers": ["fairlead.dev/test"]}})
        tenancy.ok("delete", "--name", "a", "--yes", "-n", tenancy.home, "--no-wait")
        said = tenancy.fails(1, "create", "-t", "small", "--name", "a", "--timeout", "1s")
        assert "Service/a is being removed" in said
        tenancy.cluster.patch("Service", "a", {"metadata": {"finalizers": None}})
        tenancy.create("a")
        after = tenancy.objects("a")
        assert after.keys() == before.keys()
        assert all(after[ref]["metadata"]["uid"] != before[ref]["metadata"]["uid"] for ref in after)


class TestFiles:
    def test_a_file_holds_several_tenants(self, tenancy: Tenancy) -> None:
        other = tenancy.cluster.add_namespace()
        tenancy.cluster.namespace = tenancy.home
        file = tenancy.tenants_file(
            {"name": "a", "type": "small", "parameters": {"config": {"A": 1}}},
            {"name": "b", "type": "small", "namespace": other},
        )
        tenancy.ok("apply", "-f", str(file))
        assert tenancy.objects("a")["ConfigMap/a"]["data"] == {"A": "1"}
        assert len(tenancy.objects("b", namespace=other)) == 6
        said = tenancy.ok("apply", "-f", str(file))
        assert [line.rpartition(": ")[2] for line in said.splitlines()] == ["unchanged", "unchanged"]

    def test_what_is_no_longer_in_it_is_only_deleted_when_asked(self, tenancy: Tenancy) -> None:
        a, b = ({"name": name, "type": "small"} for name in "ab")
        tenancy.ok("apply", "-f", str(tenancy.tenants_file(a, b)))
        less = str(tenancy.tenants_file(a))
        done = tenancy.run("apply", "-f", less)
        assert (
            f"tenant b in namespace {tenancy.home} is not in the file: left alone; --prune deletes it"
            in done.stderr
        )
        assert len(tenancy.objects("b")) == 6
        assert "say --yes" in tenancy.fails(2, "apply", "-f", less, "--prune")
        assert "would be deleted" in tenancy.ok("apply", "-f", less, "--prune", "--dry-run")
        assert len(tenancy.objects("b")) == 6
        tenancy.ok("apply", "-f", less, "--prune", "--yes")
        assert list(tenancy.listed()) == ["a"]

    def test_a_tenants_type_may_change(self, tenancy: Tenancy) -> None:
        small = {"name": "small", "image": "image", "ports": [{"port": 80}]}
        tenancy.write_documents(small, {"name": "big", "image": "image"})
        tenancy.ok("apply", "-f", str(tenancy.tenants_file({"name": "a", "type": "small"})))
        tenancy.ok("apply", "-f", str(tenancy.tenants_file({"name": "a", "type": "big"})))
        made = tenancy.objects("a")
        assert {one["metadata"]["labels"]["fairlead.dev/tenant-type"] for one in made.values()} == {"big"}
        assert "Service/a" not in made


def test_two_tenants_that_are_to_be_alone_and_share_a_node_are_said_to(tenancy: Tenancy) -> None:
    (node,) = tenancy.cluster.add_nodes(1, pods=10)
    tenancy.create("a", "b")
    pods = tenancy.cluster.wait(lambda: _pods_of(tenancy, {"a", "b"}), "the tenants to have pods")
    for pod in pods:
        if not pod["spec"].get("nodeName"):
            # As a scheduler does that does not see the hostname: by hand.
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod["metadata"]["name"]},
                "target": target,
            }
            path = tenancy.cluster.path("Pod", pod["metadata"]["name"], "binding", namespace=tenancy.home)
            assert tenancy.cluster.wire.request("POST", path, body).status in (201, 409)
    held = tenancy.listed()
    assert held["a"]["sharesNodeWith"] == [f"{tenancy.home}/b on {node}"]
    assert f"not alone: it meets {tenancy.home}/a on {node}" in tenancy.ok("list", "-n", tenancy.home)


def _pods_of(tenancy: Tenancy, tenants: set[str]) -> list[dict[str, Any]] | None:
    """The pods, once each of the tenants has one."""
    found: list[dict[str, Any]] = tenancy.cluster.list("Pod", namespace=tenancy.home)["items"]
    return (
        found if {one["metadata"]["labels"].get("fairlead.dev/tenant") for one in found} >= tenants else None
    )
