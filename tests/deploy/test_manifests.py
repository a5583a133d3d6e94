"""The shipped manifests: what they promise, and that a real API server takes them as they are."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from fairlead.cli import burst, scheduler, serve
from fairlead.cli.flags import PRIORITY_FLAGS, take_fields
from fairlead.doors.scheduler.configuration import Configuration, load, read_configuration
from fairlead.doors.webhook.keyring import SECRET
from fairlead.kube.selectors import selector_text
from fairlead.rig.controlplane import ControlPlane

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"

Obj = dict[str, Any]


DOORS = ("webhook", "extender", "rebalance", "burst", "serve")


def shipped(folder: Path = DEPLOY) -> list[Obj]:
    """What a kustomization holds, other folders that it names included."""
    found = []
    for name in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
        path = (folder / name).resolve()
        if path.is_dir():
            found += shipped(path)
        else:
            found += [one for one in yaml.safe_load_all(path.read_text()) if one]
    return found


def rendered(namespace: str, image: str = "fairlead:local", *, doors: str = "scheduler") -> list[Obj]:
    done = subprocess.run(
        ["bash", str(ROOT / "setup.sh"), "--render", "--doors", doors, namespace, image],
        capture_output=True,
        text=True,
        check=True,
    )
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def of_kind(objects: list[Obj], kind: str, name: str = "") -> Obj:
    (found,) = [one for one in objects if one["kind"] == kind and name in ("", one["metadata"]["name"])]
    return found


def grants(*roles: Obj) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_kustomization_names_every_manifest() -> None:
    for folder in (DEPLOY, *(DEPLOY / name for name in ("crds", *DOORS))):
        files = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
        assert sorted(name for name in files if name.endswith(".yaml")) == sorted(
            path.name for path in folder.glob("*.yaml") if path.stem != "kustomization"
        )


def test_rendering_with_the_defaults_changes_nothing() -> None:
    assert rendered("fairlead-system") == shipped()


class TestTheNamespace:
    def test_everything_follows_it(self) -> None:
        objects = rendered("placing")
        assert "fairlead-system" not in yaml.safe_dump_all(objects)
        assert of_kind(objects, "Namespace")["metadata"]["name"] == "placing"
        for one in objects:
            if one["kind"] not in (
                *("Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"),
                *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
            ):
                assert one["metadata"]["namespace"] == "placing"

    def test_the_subjects_of_the_role_bindings_follow_it(self) -> None:
        objects = rendered("placing")
        account = of_kind(objects, "ServiceAccount")["metadata"]["name"]
        bindings = [one for one in objects if one["kind"].endswith("RoleBinding")]
        assert bindings
        for one in bindings:
            assert one["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "placing"}]

    @pytest.mark.parametrize("namespace", ["default", "kube-system"])
    def test_kubernetes_own_are_not_ours_to_make(self, namespace: str) -> None:
        assert "Namespace" not in [one["kind"] for one in rendered(namespace)]


class TestTheDeployment:
    pod = of_kind(shipped(), "Deployment")["spec"]["template"]
    spec = pod["spec"]
    (container,) = spec["containers"]

    def test_it_has_two_replicas_and_a_budget_that_keeps_one(self) -> None:
        assert of_kind(shipped(), "Deployment")["spec"]["replicas"] == 2
        budget = of_kind(shipped(), "PodDisruptionBudget")["spec"]
        assert budget["minAvailable"] == 1
        assert budget["selector"]["matchLabels"].items() <= self.pod["metadata"]["labels"].items()

    def test_its_pods_are_found_by_their_label(self) -> None:
        assert self.pod["metadata"]["labels"]["app"] == "fairlead"

    def test_it_may_do_nothing_on_its_node(self) -> None:
        own = self.spec["securityContext"]
        assert own["runAsNonRoot"]
        assert own["runAsUser"] > 0
        assert own["seccompProfile"] == {"type": "RuntimeDefault"}
        assert self.container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }

    def test_the_image_runs_as_the_same_user(self) -> None:
        users = re.findall(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
        own = self.spec["securityContext"]
        assert users == [(str(own["runAsUser"]), str(own["runAsGroup"]))]

    def test_it_does_not_wait_for_itself_to_be_placed(self) -> None:
        assert "schedulerName" not in self.spec

    def test_probes_ask_the_port_it_listens_on(self) -> None:
        (port,) = self.container["ports"]
        assert f"--listen=0.0.0.0:{port['containerPort']}" in self.container["args"]
        assert self.container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": port["name"]}
        assert self.container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": port["name"]}

    def test_it_reads_the_configuration_that_is_mounted(self) -> None:
        (mount,) = self.container["volumeMounts"]
        (volume,) = self.spec["volumes"]
        config = of_kind(shipped(), "ConfigMap", "fairlead")
        assert volume["configMap"]["name"] == config["metadata"]["name"]
        (file,) = config["data"]
        assert f"--config={mount['mountPath']}/{file}" in self.container["args"]


class TestTheConfiguration:
    def test_it_is_valid_and_limits_the_priority_annotation_to_labelled_namespaces(
        self, tmp_path: Path
    ) -> None:
        (text,) = of_kind(shipped(), "ConfigMap", "fairlead")["data"].values()
        (tmp_path / "fairlead.yaml").write_text(text)
        annotation = load(tmp_path / "fairlead.yaml")["priorityAnnotation"]
        assert annotation == {
            "namespaceSelector": {"matchLabels": {"fairlead.dev/priority-annotation": "honour"}},
            "max": 1_000_000_000,
        }


class TestThePriorityAnnotation:
    """What is shipped honours it in labelled namespaces only: it side-steps the quota of PriorityClasses."""

    # Which of the commands that manifests run decide by priority, and their click commands.
    DECIDE: ClassVar = {"scheduler": scheduler.command, "serve": serve.command, "burst": burst.command}
    DO_NOT: ClassVar = ("webhook", "extender", "rebalance")

    def containers(self) -> Iterator[tuple[str, Obj, Obj]]:
        """Every container that runs Fairlead, with its file and its pod's spec."""
        for path in sorted([*DEPLOY.rglob("*.yaml"), *(ROOT / "examples").rglob("*.yaml")]):
            for one in yaml.safe_load_all(path.read_text()):
                spec = ((one or {}).get("spec") or {}).get("template", {}).get("spec") or {}
                for container in spec.get("containers", ()):
                    if container["image"].startswith("fairlead:"):
                        yield str(path.relative_to(ROOT)), spec, container

    def configuration(self, spec: Obj, container: Obj, tmp_path: Path) -> Configuration:
        """What the container's command makes of its flags and of the file that is mounted."""
        name, *arguments = container["args"]
        given = self.DECIDE[name].make_context(name, arguments).params
        file = given.get("config_file")
        if file:
            (mount,) = container["volumeMounts"]
            (volume,) = spec["volumes"]
            held = of_kind(shipped(), "ConfigMap", volume["configMap"]["name"])["data"]
            path = tmp_path / Path(file).relative_to(mount["mountPath"])
            path.write_text(held[path.name])
            file = str(path)
        return read_configuration(file, take_fields({flag: given[flag] for flag in PRIORITY_FLAGS}))

    def test_every_manifest_of_a_command_that_decides_restricts_it_to_one_label(self, tmp_path: Path) -> None:
        found = {}
        for file, spec, container in self.containers():
            if container["args"][0] not in self.DO_NOT:
                limits = self.configuration(spec, container, tmp_path).settings().priority_annotation
                assert limits.namespace_selector is not None, f"{file} honours it in every namespace"
                found[file] = (selector_text(limits.namespace_selector), limits.max)
        assert found == {
            f"deploy/{name}.yaml": ("fairlead.dev/priority-annotation=honour", 1_000_000_000)
            for name in ("scheduler", "serve/serve", "burst/burst")
        }

    def test_every_example_that_uses_it_is_in_a_labelled_namespace(self) -> None:
        using = {}
        for path in sorted((ROOT / "examples").rglob("*.yaml")):
            objects = [one for one in yaml.safe_load_all(path.read_text()) if isinstance(one, dict)]
            objects = [item for one in objects for item in one.get("items", [one])]
            labels = {
                one["metadata"]["name"]: one["metadata"].get("labels", {})
                for one in objects
                if one.get("kind") == "Namespace"
            }
            for one in objects:
                for metadata in (
                    one.get("metadata"),
                    one.get("spec", {}).get("template", {}).get("metadata"),
                ):
                    if "priority" in ((metadata or {}).get("annotations") or {}):
                        using[path.name] = labels[one["metadata"]["namespace"]]
        assert sorted(using) == ["priorities.yaml", "shop.yaml"]
        for labels_of in using.values():
            assert labels_of["fairlead.dev/priority-annotation"] == "honour"


class TestTheRights:
    rules = of_kind(shipped(), "ClusterRole", "fairlead-scheduler")["rules"]

    def test_nothing_is_granted_wholesale(self) -> None:
        for rule in [*self.rules, *of_kind(shipped(), "Role", "fairlead-scheduler")["rules"]]:
            if rule["resources"] == ["*/scale"]:
                assert rule["verbs"] == ["get"]  # of whatever has a number of replicas, that number
                continue
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]

    def test_nothing_is_granted_twice(self) -> None:
        grants = [
            (group, resource, verb)
            for rule in self.rules
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        ]
        assert len(grants) == len(set(grants))

    def test_secrets_and_rights_themselves_are_out_of_reach(self) -> None:
        text = yaml.safe_dump(self.rules)
        for word in ("secrets", "configmaps", "serviceaccounts", "roles", "escalate", "impersonate", "exec"):
            assert word not in text

    def test_leases_are_granted_in_its_own_namespace_only(self) -> None:
        assert "leases" not in yaml.safe_dump(self.rules)
        assert {
            resource
            for rule in of_kind(shipped(), "Role", "fairlead-scheduler")["rules"]
            for resource in rule["resources"]
        } == {"leases"}


@pytest.mark.parametrize("door", DOORS)
class TestEachDoor:
    def test_setup_renders_its_manifests_with_what_doors_share(self, door: str) -> None:
        objects = rendered("fairlead-system", doors=door)
        names = [(one["kind"], one["metadata"]["name"]) for one in objects]
        assert len(names) == len(set(names))
        wanted = [*shipped(DEPLOY / "policies"), *shipped(DEPLOY / door)]
        assert all(one in objects for one in wanted)

    def test_it_runs_its_own_command_as_its_own_account(self, door: str) -> None:
        deployment = of_kind(shipped(DEPLOY / door), "Deployment")
        spec = deployment["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert deployment["metadata"]["name"] == f"fairlead-{door}"
        assert container["args"][0] == door
        assert spec["serviceAccountName"] == f"fairlead-{door}"
        assert deployment["spec"]["selector"]["matchLabels"] == {"app": f"fairlead-{door}"}

    def test_it_is_as_restricted_as_the_scheduler(self, door: str) -> None:
        ours, theirs = (
            of_kind(objects, "Deployment")["spec"]["template"]["spec"]
            for objects in (shipped(DEPLOY / door), shipped())
        )
        assert ours["securityContext"] == theirs["securityContext"]
        assert ours["containers"][0]["securityContext"] == theirs["containers"][0]["securityContext"]
        assert "schedulerName" not in ours

    def test_probes_ask_the_port_it_listens_on(self, door: str) -> None:
        (container,) = of_kind(shipped(DEPLOY / door), "Deployment")["spec"]["template"]["spec"]["containers"]
        (port,) = container["ports"]
        assert f"--listen=0.0.0.0:{port['containerPort']}" in container["args"]
        scheme = {"scheme": "HTTPS"} if door in ("webhook", "serve") else {}
        assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": port["name"], **scheme}
        assert container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": port["name"], **scheme}

    def test_services_reach_that_port(self, door: str) -> None:
        objects = shipped(DEPLOY / door)
        (container,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
        for service in (one for one in objects if one["kind"] == "Service"):
            assert service["spec"]["selector"] == {"app": f"fairlead-{door}"}
            assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]
        called = {"webhook": "fairlead-webhook", "serve": "fairlead-webhook", "extender": "fairlead-extender"}
        names = [one["metadata"]["name"] for one in objects if one["kind"] == "Service"]
        assert names == ([called[door]] if door in called else [])

    def test_only_the_port_that_is_called_is_open(self, door: str) -> None:
        objects = shipped(DEPLOY / door)
        (container,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
        policies = [one for one in objects if one["kind"] == "NetworkPolicy"]
        assert len(policies) == (door in ("webhook", "serve", "extender"))
        for policy in policies:
            assert policy["spec"]["podSelector"] == {"matchLabels": {"app": f"fairlead-{door}"}}
            assert policy["spec"]["policyTypes"] == ["Ingress"]
            (ingress,) = policy["spec"]["ingress"]
            assert ingress["ports"] == [{"port": container["ports"][0]["name"]}]

    def test_a_registration_is_shipped_that_calls_nobody_yet(self, door: str) -> None:
        registered = [one for one in shipped(DEPLOY / door) if one["kind"] == "MutatingWebhookConfiguration"]
        assert len(registered) == (door in ("webhook", "serve"))
        for one in registered:
            assert one["metadata"]["name"] == "fairlead"
            assert "webhooks" not in one  # applied again, it takes nothing away from what was written since

    def test_a_secret_is_shipped_empty_and_no_account_may_create_one(self, door: str) -> None:
        objects = shipped(DEPLOY / door)
        secrets = [one for one in objects if one["kind"] == "Secret"]
        assert len(secrets) == (door in ("webhook", "serve"))
        for one in secrets:
            assert one["metadata"]["name"] == SECRET
            assert "data" not in one  # applied again, it takes nothing away from what was written since
        for role in (one for one in objects if one["kind"] in ("ClusterRole", "Role")):
            for rule in role["rules"]:
                if {"secrets", "configmaps"} & set(rule["resources"]):
                    assert rule["resourceNames"] == [SECRET]
                    assert "create" not in rule["verbs"]

    def test_nothing_is_granted_wholesale_or_twice(self, door: str) -> None:
        objects = [*shipped(DEPLOY / "policies"), *shipped(DEPLOY / door)]
        for role in (one for one in objects if one["kind"] in ("ClusterRole", "Role")):
            every = []
            for rule in role["rules"]:
                if rule["resources"] != ["*/scale"]:
                    assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
                names = tuple(rule.get("resourceNames", ()))
                every += [(*grant, names) for grant in sorted(grants({"rules": [rule]}))]
            assert len(every) == len(set(every))

    def test_its_account_has_the_rights_of_its_roles(self, door: str) -> None:
        objects = shipped(DEPLOY / door)
        assert sorted(
            (one["kind"], one["roleRef"]["name"]) for one in objects if one["kind"].endswith("Binding")
        ) == [
            *(("ClusterRoleBinding", f"fairlead-{name}") for name in sorted((door, "policies"))),
            *(("RoleBinding", f"fairlead-{name}") for name in sorted((door, "policies"))),
        ]


def test_several_doors_in_one_may_what_each_of_them_may() -> None:
    def role(door: str, kind: str) -> Obj:
        objects = shipped(DEPLOY / door) if door != "scheduler" else shipped()
        return of_kind(objects, kind, f"fairlead-{door}")

    for door, parts in (
        ("serve", ("scheduler", "webhook", "extender", "rebalance")),
        ("burst", ("scheduler", "rebalance")),
    ):
        for kind in ("ClusterRole", "Role"):
            shared = grants(of_kind(shipped(), kind, "fairlead-policies"))
            ours = grants(role(door, kind))
            theirs = grants(*(role(part, kind) for part in parts))
            assert ours | shared == theirs | shared


@pytest.mark.real
class TestARealApiServer:
    def test_takes_the_manifests_as_they_are(self, api_server: ControlPlane) -> None:
        api_server.kubectl("apply", "--validate=strict", "-k", str(DEPLOY))
        made = api_server.kubectl("get", "-k", str(DEPLOY), "-o", "yaml").stdout
        assert len(yaml.safe_load(made)["items"]) == len(shipped())
        api_server.kubectl("apply", "--validate=strict", "-k", str(DEPLOY))
        assert api_server.kubectl("get", "-k", str(DEPLOY), "-o", "yaml").stdout == made

    @pytest.mark.parametrize("door", DOORS)
    def test_takes_every_doors_manifests_as_they_are(self, api_server: ControlPlane, door: str) -> None:
        api_server.kubectl("apply", "--validate=strict", "-f", str(DEPLOY / "namespace.yaml"))
        for folder in ("policies", door):
            api_server.kubectl("apply", "--validate=strict", "-k", str(DEPLOY / folder))
        made = api_server.kubectl("get", "-k", str(DEPLOY / door), "-o", "yaml").stdout
        assert len(yaml.safe_load(made)["items"]) == len(shipped(DEPLOY / door))

    @pytest.mark.parametrize("kind", ["secret/fairlead-webhook-ca", "configmap/fairlead-marks"])
    def test_keeps_what_was_written_when_they_are_applied_again(
        self, api_server: ControlPlane, kind: str
    ) -> None:
        api_server.kubectl("apply", "-f", str(DEPLOY / "namespace.yaml"))
        folders = ("policies", "webhook")
        for folder in folders:
            api_server.kubectl("apply", "-k", str(DEPLOY / folder))
        space = "--namespace=fairlead-system"
        api_server.kubectl("patch", kind, space, "--type=merge", "-p", '{"data": {"written": "a2V5"}}')
        for folder in folders:
            api_server.kubectl("apply", "-k", str(DEPLOY / folder))
        assert api_server.kubectl("get", kind, space, "-o", "jsonpath={.data}").stdout == '{"written":"a2V5"}'

    def test_takes_them_in_another_namespace_and_lets_that_account_in(self, api_server: ControlPlane) -> None:
        text = yaml.safe_dump_all(rendered("placing"))
        api_server.kubectl("apply", "--validate=strict", "-f", "-", stdin=text)

        def may(namespace: str, *what: str) -> bool:
            account = f"--as=system:serviceaccount:{namespace}:fairlead"
            return api_server.kubectl("auth", "can-i", *what, account, check=False).stdout.strip() == "yes"

        assert may("placing", "create", "pods", "--subresource=binding", "--namespace=default")
        assert may("placing", "create", "leases", "--namespace=placing")
        assert not may("placing", "create", "leases", "--namespace=default")
        assert not may("placing", "get", "secrets", "--namespace=placing")
        assert not may("stranger", "create", "pods", "--subresource=binding", "--namespace=default")

    def test_lets_the_pods_in_under_the_strictest_security_level(self, api_server: ControlPlane) -> None:
        api_server.kubectl("apply", "-k", str(DEPLOY))
        template = of_kind(shipped(), "Deployment")["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", **template}
        pod["metadata"] = {**template["metadata"], "name": "fairlead-0", "namespace": "fairlead-system"}
        made = api_server.kubectl(
            "create", "--dry-run=server", "-f", "-", "-o", "yaml", stdin=yaml.safe_dump(pod)
        )
        assert made.stderr == ""  # a violation would be refused, or warned about
        assert yaml.safe_load(made.stdout)["spec"]["priority"] == 2_000_000_000


class TestTheImage:
    stages = re.split(r"^FROM ", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)[1:]

    def test_the_final_stage_builds_and_installs_nothing(self) -> None:
        build, final = self.stages
        assert "pip wheel" in build
        assert "COPY --from=build" in final
        assert "install " not in final.replace("uninstall", "")
        assert "pip uninstall --yes pip" in final

    def test_the_base_image_has_to_be_named_and_is_the_same_in_both_stages(self) -> None:
        text = (ROOT / "Dockerfile").read_text()
        assert re.findall(r"^ARG .*$", text, re.MULTILINE) == ["ARG BASE"]
        assert [stage.split()[0] for stage in self.stages] == ["${BASE}", "${BASE}"]

    def test_everything_that_pip_installs_is_pinned_by_its_hash(self) -> None:
        for command in re.findall(r"pip .*?install .*", self.stages[0]):
            assert "--require-hashes" in command or ("--no-index" in command and "--no-deps" in command)
        tested = dict(
            line.split("==")
            for line in (ROOT / "constraints.txt").read_text().splitlines()
            if "==" in line and not line.startswith("#")
        )
        tested = {name.lower().replace("_", "-"): version for name, version in tested.items()}
        for name in ("run", "build"):
            lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
            pins = [line for line in lines if line and not line.startswith(("#", " "))]
            assert pins
            for pin in pins:
                project, _, version = pin.partition("==")
                assert pin.endswith("\\"), f"{pin} has no hash"
                if project in tested:
                    assert version.split()[0] == tested[project]

    def test_only_what_the_build_needs_is_sent_to_it(self) -> None:
        ignore = (ROOT / ".dockerignore").read_text().splitlines()
        kept = {line[1:] for line in ignore if line.startswith("!")}
        copied = {
            word
            for line in re.findall(r"^COPY (?!--from)(.*)$", self.stages[0], re.MULTILINE)
            for word in line.split()[:-1]
        }
        assert "*" in ignore
        assert kept == copied
        assert all((ROOT / name).exists() for name in kept)
