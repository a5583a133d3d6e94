"""The doctor as a user calls it, on the account that `support.aws` serves, and the pods that it looks at."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from fairlead.cli.nodegroups.doctor import command

ROOT = Path(__file__).resolve().parents[2]
GROUPS = ROOT / "examples" / "node-groups.yaml"
# What the autoscaler prints when it does not see a pod's label on a group's template.
REFUSED = (
    "I1219 17:02:40.780094       1 orchestrator.go:594] Pod {pod} can't be scheduled on {asg}, predicate "
    "checking error: node(s) didn't match Pod's node affinity/selector; predicateName=NodeAffinity; reasons: "
    "node(s) didn't match Pod's node affinity/selector; debugInfo="
)


@dataclass(frozen=True, slots=True)
class Told:
    """What the doctor said."""

    code: int
    plain: dict[str, Any]
    stderr: str

    @property
    def findings(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.plain["findings"]
        return found

    @property
    def wrong(self) -> list[tuple[str, str]]:
        """(group or pod, cause) of all that is wrong, in its order."""
        return [
            (each["group"] or each["pod"] or "autoscaler", each["cause"])
            for each in self.findings
            if each["severity"] == "wrong"
        ]

    @property
    def risks(self) -> list[str]:
        return [each["cause"] for each in self.findings if each["severity"] == "risk"]

    def one(self, cause: str) -> dict[str, Any]:
        [found] = [each for each in self.findings if each["cause"] == cause]
        return found

    def from_zero(self, name: str) -> bool:
        """Whether scale-up from zero would work for a group, NodePool or pod."""
        every = [*self.plain["groups"], *self.plain["nodePools"], *self.plain["pods"]]
        return bool(next(each["fromZero"] for each in every if each["name"] == name))


def doctor(*flags: str, groups: Path = GROUPS, given: str | None = None) -> Told:
    """Run it to its end."""
    words = ["-f", str(groups), "-o", "json", *flags]
    done = CliRunner().invoke(command, words, input=given, catch_exceptions=False)
    return Told(done.exit_code, json.loads(done.stdout), done.stderr)


def groups_file(folder: Path, *groups: dict[str, Any]) -> Path:
    path = folder / "groups.yaml"
    document = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "NodeGroups", "groups": list(groups)}
    path.write_text(yaml.safe_dump(document))
    return path


def objects_file(folder: Path, *objects: dict[str, Any]) -> str:
    path = folder / "objects.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def log_file(folder: Path, *lines: str) -> str:
    path = folder / "autoscaler.log"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def waiting(
    name: str = "test-1",
    size: str = "large",
    *,
    cpu: str = "100m",
    tolerates: str | None = None,
    selector: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod that no node takes, made for nodes of a size."""
    tolerated = size if tolerates is None else tolerates
    toleration = {"key": "size", "operator": "Equal", "value": tolerated, "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
            "nodeSelector": {"size": size} if selector is None else selector,
            "tolerations": [toleration],
            **spec,
        },
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        },
    }


def autoscaler(*flags: str, version: str = "1.32.1", role: str = "") -> list[dict[str, Any]]:
    """Cluster Autoscaler's Deployment and ServiceAccount."""
    image = f"registry.k8s.io/autoscaling/cluster-autoscaler:v{version}"
    words = ["./cluster-autoscaler", "--cloud-provider=aws", *flags]
    annotations = {"eks.amazonaws.com/role-arn": role} if role else {}
    name = {"namespace": "kube-system", "name": "cluster-autoscaler"}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": name,
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "cluster-autoscaler"}},
                "template": {
                    "metadata": {"labels": {"app": "cluster-autoscaler"}},
                    "spec": {
                        "serviceAccountName": "cluster-autoscaler",
                        "containers": [{"name": "main", "image": image, "command": words}],
                    },
                },
            },
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**name, "annotations": annotations}},
    ]


def event(
    reason: str, message: str, *, kind: str = "Pod", name: str = "test-1", at: str | None = None
) -> dict[str, Any]:
    about = {"kind": kind, "name": name, **({"namespace": "default"} if kind == "Pod" else {})}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.1", "namespace": "default"},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }
