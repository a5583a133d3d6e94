"""``fairlead tenant create`` on both clusters: what it makes, what it leaves alone, what it refuses."""

from __future__ import annotations

import subprocess
import sys

from support.manifests import config_map
from support.tenancy import Tenancy

LABELS = {"app.kubernetes.io/managed-by": "fairlead", "fairlead.dev/tenant-type": "small"}
ALL = ["ConfigMap/a", "Deployment/a", "PodDisruptionBudget/a", "Secret/a", "Service/a", "ServiceAccount/a"]
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "${name}-migrate"},
    "spec": {
        "backoffLimit": 0,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "nodeSelector": {"test": "${namespace}"},
                "containers": [{"name": "main", "image": "image"}],
            }
        },
    },
}


class TestOne:
    def test_its_objects_are_there_once_it_ends_though_no_node_is(self, tenancy: Tenancy) -> None:
        assert "6 created" in tenancy.create("a")
        made = tenancy.objects("a")
        assert sorted(made) == ALL
        for item in made.values():
            assert {**LABELS, "fairlead.dev/tenant": "a"}.items() <= item["metadata"]["labels"].items()
        held = tenancy.listed()["a"]
        assert (held["type"], held["ready"], held["wanted"]) == ("small", 0, 1)
        assert held["status"] == "pending"

    def test_a_second_run_writes_nothing(self, tenancy: Tenancy) -> None:
        tenancy.create("a", more=("--set", "secret.KEY=x"))
        before = tenancy.versions("a"), tenancy.outcome("a")
        assert tenancy.create("a", more=("--set", "secret.KEY=x")).strip().endswith(": unchanged")
        assert (tenancy.versions("a"), tenancy.outcome("a")) == before

    def test_parameters_come_from_files_and_flags_which_win(self, tenancy: Tenancy) -> None:
        values = tenancy.write("values.yaml", {"config": {"A": "file", "B": "file"}, "replicas": 0})
        tenancy.create("a", more=("-f", str(values), "--set", "config.A=flag"))
        made = tenancy.objects("a")
        assert made["ConfigMap/a"]["data"] == {"A": "flag", "B": "file"}
        assert made["Deployment/a"]["spec"]["replicas"] == 0

    def test_what_is_no_longer_said_is_taken_back(self, tenancy: Tenancy) -> None:
        tenancy.create("a", more=("--set", "config.A=1", "--set", "config.B=1"))
        tenancy.create("a", more=("--set", "config.B=2"))
        assert tenancy.objects("a")["ConfigMap/a"]["data"] == {"B": "2"}

    def test_a_namespace_of_its_own_comes_and_goes_with_it(self, tenancy: Tenancy) -> None:
        name = tenancy.cluster.unique("own")
        tenancy.cluster.owns(f"/api/v1/namespaces/{name}")
        tenancy.write_types(quota={"pods": 5})
        tenancy.create(name, more=("--namespace-per-tenant",))
        assert f"ResourceQuota/{name}" in tenancy.objects(name, namespace=name)
        assert tenancy.listed("-n", name)[name]["ownNamespace"] is True
        tenancy.ok("delete", "--name", name, "--yes")
        assert tenancy.cluster.try_get("Namespace", name).status == 404

    def test_other_namespaces_are_the_types_to_give(self, tenancy: Tenancy) -> None:
        tenancy.write_types(namespace="team-${name}")
        said = tenancy.fails(2, "create", "-t", "small", "--name", "a")
        assert f"a namespace of its own, team-a, and cannot go to namespace {tenancy.home}" in said


class TestTrials:
    def test_a_dry_run_says_what_would_happen_and_writes_nothing(self, tenancy: Tenancy) -> None:
        said = tenancy.create("a", more=("--dry-run",))
        assert sorted(line.split()[2] for line in said.splitlines()[1:-1]) == ALL
        assert said.splitlines()[-1] == "dry run: nothing was written"
        assert tenancy.objects() == {}

    def test_a_diff_shows_changes_but_no_secret_and_writes_nothing(self, tenancy: Tenancy) -> None:
        tenancy.create("a", more=("--set", "secret.KEY=hush1", "--set", "secret.SAME=hush2"))
        before = tenancy.versions("a")
        more = (
            "--set",
            "secret.KEY=hush3",
            "--set",
            "secret.SAME=hush2",
            "--set",
            "config.A=plain",
            "--diff",
        )
        said = tenancy.create("a", more=more)
        assert "+  A: plain" in said
        assert "-  KEY: '*** (before)'\n+  KEY: '*** (after)'" in said
        assert "   SAME: '***'" in said
        for hidden in ("hush1", "aHVzaDE=", "hush3", "aHVzaDM=", "aHVzaDI="):
            assert hidden not in said
        assert tenancy.versions("a") == before

    def test_no_difference_is_none(self, tenancy: Tenancy) -> None:
        tenancy.create("a")
        assert tenancy.create("a", more=("--diff",)) == ""

    def test_objects_can_be_printed_and_secrets_only_when_asked_for(self, tenancy: Tenancy) -> None:
        more = ("--set", "secret.KEY=hush", "--dry-run", "-o", "yaml")
        hidden = tenancy.create("a", more=more)
        assert "KEY: '***'" in hidden
        shown = tenancy.create("a", more=(*more, "--show-secrets"))
        assert "KEY: aHVzaA==" in shown
        done = tenancy.cluster.kubectl("apply", "--server-side", "-f", "-", stdin=shown)
        assert done.returncode == 0, done.stderr
        assert sorted(tenancy.objects("a")) == ALL


class TestTypesThatChange:
    def test_what_is_no_longer_in_the_type_is_deleted(self, tenancy: Tenancy) -> None:
        extra = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${name}-extra"}}
        tenancy.write_types(objects=[extra, {**JOB, "spec": {**JOB["spec"], "suspend": True}}])
        tenancy.create("a")
        assert {"ConfigMap/a-extra", "Job/a-migrate"} < tenancy.objects("a").keys()
        tenancy.write_types(ports=None)
        said = tenancy.create("a")
        assert "3 deleted" in said
        left = tenancy.settled("a")
        assert sorted(left) == [ref for ref in ALL if ref != "Service/a"]
        # Nor is the kind looked for any more.
        assert "annotations" not in left["ServiceAccount/a"]["metadata"]
        assert tenancy.create("a").strip().endswith(": unchanged")

    def test_what_controllers_made_of_it_is_theirs(self, tenancy: Tenancy) -> None:
        # Further pods are looked for by label, which the Deployment's own have too.
        bare = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "${name}-bare"},
            "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "image"}]},
        }
        tenancy.write_types(objects=[bare])
        tenancy.create("a")
        tenancy.cluster.wait(lambda: len(tenancy.cluster.names("Pod")) == 2, "the Deployment's pod")
        before = tenancy.cluster.list("Pod")["items"]
        tenancy.write_types()
        assert "1 deleted" in tenancy.create("a")
        left = {one["metadata"]["uid"] for one in before if one["metadata"]["name"] != "a-bare"}
        assert left <= {one["metadata"]["uid"] for one in tenancy.cluster.list("Pod")["items"]}

    def test_create_does_not_change_a_tenants_type(self, tenancy: Tenancy) -> None:
        small = {"name": "small", "image": "image"}
        tenancy.write_documents(small, {**small, "name": "big"})
        tenancy.create("a")
        said = tenancy.fails(1, "create", "-t", "big", "--name", "a")
        assert "is of type small, not big: change its type with fairlead tenant apply" in said

    def test_a_kind_that_the_cluster_lacks_is_said_before_anything_is_written(self, tenancy: Tenancy) -> None:
        thing = {"apiVersion": "things.example/v1", "kind": "Thing", "metadata": {"name": "${name}"}}
        tenancy.write_types(objects=[thing])
        said = tenancy.fails(1, "create", "-t", "small", "--name", "a")
        assert "the cluster does not serve Thing (things.example/v1)" in said
        assert tenancy.objects() == {}


class TestDependencies:
    def test_what_was_declared_is_waited_for(self, tenancy: Tenancy) -> None:
        tenancy.write_types(objects=[JOB], dependsOn={"Deployment/${name}": ["Job/${name}-migrate"]})
        with subprocess.Popen(
            [sys.executable, "-m", "fairlead", *tenancy.arguments("create", "-t", "small", "--name", "a")],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        ) as command:
            assert command.stderr is not None
            told = "Deployment/a waits for Job/a-migrate: it has not completed"
            assert any(told in line for line in command.stderr)
            tenancy.cluster.add_nodes(1, pods=10)  # without a node the Job could not complete
            rest = command.stderr.read()
        assert command.returncode == 0, rest
        made = tenancy.objects("a")
        completed = made["Job/a-migrate"]["status"]["completionTime"]
        assert completed <= made["Deployment/a"]["metadata"]["creationTimestamp"]

    def test_in_vain_it_ends_with_the_reason_and_a_later_run_goes_on(self, tenancy: Tenancy) -> None:
        tenancy.write_types(objects=[JOB], dependsOn={"Deployment/${name}": ["Job/${name}-migrate"]})
        said = tenancy.fails(1, "create", "-t", "small", "--name", "a", "--timeout", "1s")
        assert (
            "stopped after 6 of 7 changes: Deployment/a waits for Job/a-migrate: it has not completed" in said
        )
        assert "Deployment/a" not in tenancy.objects("a")
        assert tenancy.listed()["a"]["reason"] == "its Deployment is not there"
        tenancy.cluster.add_nodes(1, pods=10)
        tenancy.create("a")
        assert "Deployment/a" in tenancy.objects("a")


class TestWhatIsNotOurs:
    def test_a_taken_name_is_refused_before_anything_is_written(self, tenancy: Tenancy) -> None:
        tenancy.cluster.create(config_map("a"))
        said = tenancy.fails(1, "create", "-t", "small", "--name", "b", "--name", "a")
        assert f"ConfigMap {tenancy.home}/a is taken: it exists and is not part of any tenant" in said
        assert tenancy.objects() == {}
        assert tenancy.cluster.get("ConfigMap", "a")["data"] == {"key": "value"}

    def test_what_belongs_to_another_tenant_is_taken_too(self, tenancy: Tenancy) -> None:
        extra = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}}
        tenancy.write_types(objects=[extra])
        tenancy.create("a")
        said = tenancy.fails(1, "create", "-t", "small", "--name", "b")
        assert "ConfigMap" in said
        assert "is taken: it exists and is part of tenant a" in said

    def test_a_namespace_that_somebody_else_made_is_taken(self, tenancy: Tenancy) -> None:
        said = tenancy.fails(1, "create", "-t", "small", "--name", tenancy.home, "--namespace-per-tenant")
        assert f"Namespace {tenancy.home} is taken" in said

    def test_fields_that_others_changed_are_only_taken_over_when_asked(self, tenancy: Tenancy) -> None:
        tenancy.create("a")
        scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 0}}
        tenancy.cluster.patch("Deployment", "a", scaled, "apply", fieldManager="somebody", force="true")
        said = tenancy.fails(1, "create", "-t", "small", "--name", "a")
        assert "somebody" in said
        assert ".spec.replicas" in said
        assert "--force-conflicts takes the fields over" in said
        tenancy.create("a", more=("--force-conflicts",))
        assert tenancy.objects("a")["Deployment/a"]["spec"]["replicas"] == 1

    def test_what_helm_holds_is_helms(self, tenancy: Tenancy) -> None:
        tenancy.create("a")
        held = {"metadata": {"annotations": {"meta.helm.sh/release-name": "web"}}}
        tenancy.cluster.patch("ServiceAccount", "a", held)
        assert "held by the Helm release 'web'" in tenancy.fails(1, "create", "-t", "small", "--name", "a")
        assert "remove it with helm uninstall" in tenancy.fails(
            1, "delete", "--name", "a", "-n", tenancy.home
        )
        assert tenancy.listed()["a"]["helmRelease"] == "web"
