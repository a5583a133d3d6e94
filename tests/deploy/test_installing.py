"""Installing, upgrading and uninstalling on a real control plane: chart, command and kustomize.

KWOK plays the nodes, so Fairlead's pods are Ready and run nothing: here it is about objects. What a rollout
does to pods that are created meanwhile is in `test_upgrade_under_load`.
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from fairlead.cli import root
from fairlead.install.order import KINDS
from fairlead.install.rendering import render
from fairlead.install.values import read_values
from fairlead.rig.controlplane import ControlPlane
from support.command import run_command
from support.installing import CHART, NAMESPACE, ROOT, TOGETHER, Obj, by_command, helm, turned_on
from support.manifests import deployment, scheduled_pod
from support.pauses import pause
from support.rig import programs
from support.wire import PATIENCE_S

pytestmark = [pytest.mark.real, pytest.mark.slow]

SERVED = [kind for kind in KINDS if kind[0] not in ("cert-manager.io/v1", "monitoring.coreos.com/v1")]
OURS = "app.kubernetes.io/name=fairlead"
SEVERAL = turned_on("scheduler", "webhook", "extender", "rebalance")


class Site:
    """A control plane, and the tools that install on it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.env = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}

    def fairlead(self, *arguments: str | Path, code: int = 0, stdin: str | None = None) -> str:
        done = run_command(*arguments, env=self.env, input=stdin, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def helm(self, *arguments: str | Path, values: Obj | None = None) -> str:
        flags = ("-f", "-") if values is not None else ()
        stdin = json.dumps(values) if values is not None else None
        home = str(self.plane.folder)
        done = helm(*arguments, *flags, stdin=stdin, KUBECONFIG=str(self.plane.kubeconfig), HOME=home)
        return done.stdout

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        return self.plane.kubectl(*arguments, stdin=stdin, check=check).stdout

    def objects(self) -> dict[str, Obj]:
        """What the server has of Fairlead, less what each tool notes for itself."""
        found = {}
        for version, kind in SERVED:
            for item in self.plane.api.get(f"{all_of(version, kind)}?labelSelector={OURS}")["items"]:
                ref = f"{kind}/{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
                if ref != f"ConfigMap/{NAMESPACE}/fairlead-install":
                    found[ref] = plain({"apiVersion": version, "kind": kind, **item})
        return found

    def wait(self, look: Callable[[], Any], what: str) -> Any:
        began = time.monotonic()
        while not (seen := look()):
            waited_s = time.monotonic() - began
            # A namespace goes through every kind of object, which takes a machine that is busy its time.
            assert waited_s < 3 * PATIENCE_S, f"timed out waiting for {what}"
            pause(waited_s)
        return seen

    def clean(self) -> None:
        """Remove all of Fairlead, with the namespace, however it was installed."""
        api, spaces = self.plane.api, [f"/api/v1/namespaces/{name}" for name in (NAMESPACE, "placing")]
        if self.objects():
            self.kubectl("delete", ",".join(kind for _, kind in SERVED), "-A", "-l", OURS, "--wait=false")
        for space in filter(api.exists, spaces):
            api.request("DELETE", space)
        # A namespace takes longest, so it is looked for first.
        gone = "all of Fairlead to be gone"
        self.wait(lambda: not any(map(api.exists, spaces)) and not self.objects(), gone)


def all_of(version: str, kind: str) -> str:
    """The path of all objects of a kind, in every namespace."""
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    return f"{root}/{re.sub('ys$', 'ies', kind.lower() + 's')}"


NOTES = ("meta.helm.sh/", "kubectl.kubernetes.io/", "deployment.kubernetes.io/revision")


def plain(item: Obj) -> Obj:
    found = copy.deepcopy(item)
    found.pop("status", None)
    for field in ("clusterIP", "clusterIPs"):
        if found["kind"] == "Service" and found["spec"].get(field) not in ("None", ["None"]):
            del found["spec"][field]
    metadata = found["metadata"]
    for field in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        metadata.pop(field, None)
    metadata["labels"].pop("app.kubernetes.io/managed-by", None)
    notes = {
        key: value for key, value in metadata.pop("annotations", {}).items() if not key.startswith(NOTES)
    }
    return {**found, "metadata": {**metadata, "annotations": notes}}


@pytest.fixture(scope="module")
def on_plane() -> Iterator[Site]:
    programs("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl", "helm")
    with ControlPlane() as plane:
        plane.start_controller_manager()
        plane.start_kwok()
        plane.start_scheduler()
        plane.add_nodes(3)
        yield Site(plane)


@pytest.fixture
def site(on_plane: Site) -> Iterator[Site]:
    yield on_plane
    on_plane.clean()


def test_chart_command_and_kustomize_put_the_same_objects_on_the_server(site: Site, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(SEVERAL))
    found = {}
    site.kubectl("apply", "-f", str(ROOT / "deploy" / "namespace.yaml"))
    site.helm("install", "fairlead", CHART, "-n", NAMESPACE, values=SEVERAL)
    found["chart"] = site.objects()
    site.clean()
    site.fairlead("install", "--no-wait", "-f", tmp_path / "values.yaml")
    found["command"] = site.objects()
    site.clean()
    for folder in ("", "webhook", "extender", "rebalance"):
        site.kubectl("apply", "--validate=strict", "-k", str(ROOT / "deploy" / folder))
    found["kustomize"] = site.objects()
    assert len(found["kustomize"]) > 40
    assert found["chart"] == found["command"] == found["kustomize"]


@pytest.fixture(scope="class")
def space(on_plane: Site) -> Iterator[Site]:
    """The namespace, for what is only rehearsed in it: its end takes longer than such a test."""
    on_plane.kubectl("create", "namespace", NAMESPACE)
    yield on_plane
    on_plane.clean()


class TestFields:
    @pytest.mark.parametrize("on", TOGETHER, ids="+".join)
    def test_the_api_server_knows_every_field_of_every_object(self, space: Site, on: list[str]) -> None:
        values = turned_on(*on, serve={"dashboard": True}, extender={"mtls": True})
        values |= {
            "image": {"digest": f"sha256:{'0a' * 32}", "pullSecrets": [{"name": "registry"}]},
            "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1.5Gi"}},
            "nodeSelector": {"pool": "system"},
            "tolerations": [
                {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
            ],
            "podDisruptionBudget": {"maxUnavailable": "50%"},
            "networkPolicy": {"enabled": True, "from": [{"ipBlock": {"cidr": "10.0.0.0/24"}}]},
            "labels": {"team": "platform"},
            "config": {"capacity": "exclusive"},
        }
        objects = render(read_values([("values", json.dumps(values))]), NAMESPACE)
        text = yaml.safe_dump_all(objects, sort_keys=False)
        done = space.plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)
        assert done.stdout.count("(server dry run)") == len(objects)
        assert done.stderr == ""  # nor is anything warned about


class TestInstall:
    def test_it_says_which_cluster_it_changes_and_what_became_of_each_object(self, site: Site) -> None:
        rehearsed = site.fairlead("install", "--dry-run")
        assert "Deployment/fairlead would be created" in rehearsed
        assert not site.objects()
        said = site.fairlead("install")
        assert 'About to change the cluster of context "fairlead" (https://127.0.0.1:' in said
        assert "Deployment/fairlead created" in said
        rolled_out = site.plane.api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/fairlead")
        assert rolled_out["status"]["readyReplicas"] == 2
        again = site.fairlead("install")
        assert " changed" not in again
        assert " created" not in again

    def test_what_is_printed_for_review_is_what_is_installed(self, site: Site) -> None:
        text = site.fairlead("install", "--dry-run", "-o", "yaml", "--set", "components.webhook.enabled=true")
        assert not site.objects()
        site.kubectl("apply", "--validate=strict", "-f", "-", stdin=text)
        printed = site.objects()
        site.clean()
        site.fairlead("install", "--no-wait", "--set", "components.webhook.enabled=true")
        assert site.objects() == printed

    def test_it_takes_over_what_kubectl_applied(self, site: Site) -> None:
        site.kubectl("apply", "-k", str(ROOT / "deploy"))
        before = site.objects()
        site.fairlead("install")
        assert site.objects() == before

    def test_a_second_installation_and_one_of_helm_are_refused(self, site: Site) -> None:
        site.fairlead("install", "--no-wait")
        said = site.fairlead("install", "-n", "placing", code=1)
        assert f"is installed in namespace {NAMESPACE}: fairlead upgrade changes it" in said
        site.clean()
        site.helm("install", "ours", CHART, "-n", NAMESPACE, "--create-namespace")
        for command in ("install", "uninstall"):
            said = site.fairlead(command, code=1)
            assert f"is held by the Helm release 'ours' in namespace {NAMESPACE}" in said

    def test_an_object_of_that_name_that_is_not_ours_is_left_alone(self, site: Site) -> None:
        site.kubectl("create", "clusterrole", "fairlead-scheduler", "--verb=get", "--resource=pods")
        try:
            said = site.fairlead("install", code=1)
            assert "ClusterRole/fairlead-scheduler exists and is not Fairlead's" in said
            assert not site.objects()
        finally:
            site.kubectl("delete", "clusterrole", "fairlead-scheduler")

    def test_what_the_cluster_does_not_serve_is_said_before_anything_is_written(self, site: Site) -> None:
        said = site.fairlead("install", "--set", "serviceMonitor.enabled=true", code=1)
        assert "does not serve ServiceMonitor (monitoring.coreos.com/v1): install what defines it" in said
        assert not site.objects()


@pytest.mark.parametrize("command", ["install", "upgrade", "uninstall"])
def test_the_examples_of_help_work(site: Site, command: str, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("components: {webhook: {enabled: true}}")
    found = root().get_command(click.Context(root()), command)
    assert found is not None
    lines = re.findall(r"^ +fairlead (.*)$", found.epilog or "", re.MULTILINE)
    assert len(lines) == 3
    for line in lines:
        words = line.replace("--context lab ", "").replace("values.yaml", f"{tmp_path}/values.yaml").split()
        if command != "install":
            site.fairlead("install")
        site.fairlead(*words)
        site.fairlead("uninstall")


class TestUpgrade:
    def test_it_prunes_what_is_no_longer_asked_for_and_nothing_else(self, site: Site) -> None:
        site.fairlead("install", "--set", "components.webhook.enabled=true")
        site.kubectl("create", "configmap", "mine", f"--namespace={NAMESPACE}")
        site.kubectl("label", "configmap", "mine", f"--namespace={NAMESPACE}", OURS)
        serve = "components.scheduler.enabled=false,components.serve.enabled=true"
        said = site.fairlead("upgrade", "--set", serve)
        assert "Deployment/fairlead-webhook deleted" in said
        assert "Deployment/fairlead deleted" in said
        wanted = turned_on("serve")
        assert set(site.objects()) - {f"ConfigMap/{NAMESPACE}/mine", f"Namespace//{NAMESPACE}"} == {
            f"{kind}/{space}/{name}" for _, kind, space, name in by_command(wanted)
        }

    def test_without_values_those_of_the_installation_stay(self, site: Site) -> None:
        site.fairlead("install", "--no-wait", "--set", "components.webhook.enabled=true,replicas=3")
        before = site.objects()
        said = site.fairlead("upgrade", "--no-wait")
        assert "deleted" not in said
        assert site.objects() == before

    def test_it_brings_definitions_up_to_date_but_never_back(self, site: Site) -> None:
        site.fairlead("install", "--no-wait")
        crd = "placementledgers.fairlead.dev"
        for version, outcome in (("1", "changed"), ("99", "kept: it is that of a newer Fairlead")):
            note = f"fairlead.dev/schema-version={version}"
            site.kubectl("annotate", "crd", crd, "--overwrite", note)
            assert f"CustomResourceDefinition/{crd} {outcome}" in site.fairlead("upgrade", "--no-wait")

    def test_fields_that_another_writer_changed_are_taken_over_only_when_asked_to(self, site: Site) -> None:
        site.fairlead("install", "--no-wait")
        site.kubectl("scale", "deployment", "fairlead", "--replicas=3", f"--namespace={NAMESPACE}")
        said = site.fairlead("upgrade", "--no-wait", code=1)
        assert "Deployment/fairlead: " in said
        assert "--force-conflicts takes these fields over" in said
        site.fairlead("upgrade", "--no-wait", "--force-conflicts")
        assert site.objects()[f"Deployment/{NAMESPACE}/fairlead"]["spec"]["replicas"] == 2

    def test_where_nothing_is_installed_it_says_what_to_run(self, site: Site) -> None:
        assert "run fairlead install first" in site.fairlead("upgrade", code=1)

    def test_helm_upgrades_definitions_as_well(self, site: Site, tmp_path: Path) -> None:
        (tmp_path / "chart").mkdir()
        subprocess.run(["cp", "-rL", f"{CHART}/.", tmp_path / "chart"], check=True)
        old = tmp_path / "chart" / "files" / "crds" / "placementledgers.yaml"
        old.write_text(old.read_text().replace("Revision", "Generation"))
        site.helm("install", "ours", tmp_path / "chart", "-n", NAMESPACE, "--create-namespace")
        site.helm("upgrade", "ours", CHART, "-n", NAMESPACE)
        crd = site.objects()["CustomResourceDefinition//placementledgers.fairlead.dev"]
        columns = [one["name"] for one in crd["spec"]["versions"][0]["additionalPrinterColumns"]]
        assert "Revision" in columns


POLICY = {
    "apiVersion": "fairlead.dev/v1alpha1",
    "kind": "PlacementPolicy",
    "metadata": {"name": "kept"},
    "spec": {"match": {"namespaces": ["nowhere"]}, "tiers": [{"name": "all"}]},
}


class TestUninstall:
    @pytest.mark.parametrize("how", ["command", "chart"])
    def test_definitions_and_policies_stay_and_pods_are_schedulable(self, site: Site, how: str) -> None:
        values = turned_on("scheduler", "webhook")
        if how == "chart":
            site.helm("install", "ours", CHART, "-n", NAMESPACE, "--create-namespace", values=values)
        else:
            site.fairlead("install", "-f", "-", stdin=json.dumps(values))
        site.kubectl("wait", "--for=condition=Established", "crd", "placementpolicies.fairlead.dev")
        site.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(POLICY))
        # As a webhook that is registered to refuse what it cannot see, and whose pods are gone.
        hook = {"name": "pods.fairlead.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None"}
        service = {"name": "fairlead-webhook", "namespace": NAMESPACE}
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        spare = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [NAMESPACE]}
        hook |= {"clientConfig": {"service": service}, "rules": [rule], "failurePolicy": "Fail"}
        hook |= {"namespaceSelector": {"matchExpressions": [spare]}}
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fairlead"
        site.plane.api.patch(path, {"webhooks": [hook]})
        site.wait(lambda: self.creates(site, "refused").startswith("Error"), "pods to be refused")
        if how == "chart":
            site.helm("uninstall", "ours", "-n", NAMESPACE, "--wait")
        else:
            site.fairlead("uninstall")
        left = site.objects()
        assert {ref.split("/")[0] for ref in left} <= {"CustomResourceDefinition", "Namespace"}
        assert "placementpolicy.fairlead.dev/kept" in site.kubectl("get", "placementpolicies", "-o", "name")
        try:
            site.kubectl("create", "-f", "-", stdin=yaml.safe_dump(deployment("web", 2)))
            site.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        finally:
            site.kubectl("delete", "deployment/web")

    @staticmethod
    def creates(site: Site, name: str) -> str:
        text = yaml.safe_dump(scheduled_pod(name))
        done = site.plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=text, check=False)
        return done.stdout + done.stderr

    def test_pods_that_wait_for_fairlead_are_named(self, site: Site) -> None:
        site.fairlead("install", "--set", "components.extender.enabled=true", "--no-wait")
        pod = scheduled_pod("waits", spec={"schedulerName": "fairlead"})
        site.kubectl("create", "-f", "-", stdin=yaml.safe_dump(pod))
        try:
            said = site.fairlead("uninstall")
        finally:
            site.kubectl("delete", "pod", "waits", "--now")
        assert "1 pods ask for schedulerName fairlead, 1 of them wait for a node (default/waits)" in said
        assert "kube-scheduler still calls the extender" in said

    def test_with_crds_it_asks_before_policies_go(self, site: Site) -> None:
        site.fairlead("install")
        site.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(POLICY))
        said = site.fairlead("uninstall", "--crds", code=2, stdin="")
        assert "--crds removes 1 policies (kept): say --yes" in said
        site.fairlead("uninstall", "--crds", "--yes")
        # A definition goes once its objects are gone.
        site.wait(lambda: set(site.objects()) <= {f"Namespace//{NAMESPACE}"}, "the definitions to go")
        assert "nothing of Fairlead is installed" in site.fairlead("uninstall")

    def test_what_kubectl_applied_is_removed_as_well(self, site: Site) -> None:
        site.kubectl("apply", "-k", str(ROOT / "deploy"))
        site.fairlead("uninstall")
        assert {ref.split("/")[0] for ref in site.objects()} == {"CustomResourceDefinition", "Namespace"}

    def test_a_dry_run_removes_nothing(self, site: Site) -> None:
        site.fairlead("install", "--no-wait")
        before = site.objects()
        said = site.fairlead("uninstall", "--dry-run")
        assert "Deployment/fairlead would be deleted" in said
        assert site.objects() == before
