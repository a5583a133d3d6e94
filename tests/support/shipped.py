"""Fairlead as it is shipped, on a real control plane: its account, its rights, its configuration.

The API server keeps an audit log of what the account asked for and what it was refused, which is how a
test learns that a right was used, or missed.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tools.shipped_rights import DEPLOY, NAMESPACE, shipped_kubeconfig, shipped_rights

from fairlead.rig.controlplane import ControlPlane
from support.examples import EXAMPLES
from support.pauses import pause
from support.rig import programs
from support.scheduler import SchedulerProcess
from support.versions import pod_groups_on
from support.wire import PATIENCE_S

Obj = dict[str, Any]

_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok", "kubectl")
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": [f"system:serviceaccounts:{NAMESPACE}"]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource; `resource` may be ``pods/binding``."""

    group: str
    resource: str
    verb: str

    def covers(self, other: Right) -> bool:
        """Whether who has this one has the other: ``*`` is any group, ``*/scale`` the scale of anything."""
        plural, _, subresource = self.resource.partition("/")
        wanted, _, of_it = other.resource.partition("/")
        same = plural in ("*", wanted) and subresource == of_it
        return same and self.verb == other.verb and self.group in ("*", other.group)

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


def rights_in(objects: list[Obj]) -> list[Right]:
    """Every right that the roles among the objects grant."""
    return sorted(
        Right(group, resource, verb)
        for one in objects
        for rule in one.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def rights_without(objects: list[Obj], right: Right) -> list[Obj]:
    """The same objects, with that one right taken out of their roles."""
    left = []
    for one in objects:
        rules = [
            {**rule, "apiGroups": [group], "resources": [resource], "verbs": verbs}
            for rule in one.get("rules", ())
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            if (verbs := [verb for verb in rule["verbs"] if Right(group, resource, verb) != right])
        ]
        left.append({**one, "rules": rules} if "rules" in one else one)
    return left


class Shipped:
    """A control plane with Fairlead's account on it; schedulers that run here are that account."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self._folder = folder
        self._audit = folder / "audit.log"
        self.schedulers: list[SchedulerProcess] = []
        (config,) = [
            one
            for one in yaml.safe_load_all((DEPLOY / "configuration.yaml").read_text())
            if one["kind"] == "ConfigMap"
        ]
        self._config = folder / "fairlead.yaml"
        self._config.write_text(config["data"]["fairlead.yaml"])

    def run(self, *arguments: str, rights: list[Obj] | None = None) -> SchedulerProcess:
        """Start a scheduler with the shipped configuration and rights (or `rights` in their place)."""
        kubeconfig = shipped_kubeconfig(self.plane, rights if rights is not None else shipped_rights())
        process = SchedulerProcess(kubeconfig, f"--config={self._config}", *arguments)
        self.schedulers.append(process)
        return process

    def asked(self, since: int = 0) -> list[tuple[Right, bool]]:
        """What the account asked for from then on, and whether it was granted; see `mark`."""
        found = []
        with self._audit.open("rb") as log:
            log.seek(since)
            for line in log:
                if not line.endswith(b"\n"):
                    break  # still being written
                event = json.loads(line)
                target = event.get("objectRef")
                if target is None:
                    continue  # discovery: everybody may
                name = target["resource"] + (f"/{target['subresource']}" if "subresource" in target else "")
                right = Right(target.get("apiGroup", ""), name, event["verb"])
                # Not the status: admission answers 403 as well, in a namespace that is going, say.
                decision = event["annotations"]["authorization.k8s.io/decision"]
                found.append((right, decision == "allow"))
        return found

    def fenced_off(self, since: int = 0) -> list[str]:
        """What the account was denied of pods by deploy/policies/fence.yaml; see `mark`."""
        with self._audit.open("rb") as log:
            log.seek(since)
            events = [json.loads(line) for line in log if line.endswith(b"\n")]
        messages = [event.get("responseStatus", {}).get("message", "") for event in events]
        return [message for message in messages if "ValidatingAdmissionPolicy" in message]

    def mark(self) -> int:
        """Now, for `asked` and `fenced_off`."""
        return self._audit.stat().st_size if self._audit.exists() else 0

    def wait(self, look: Callable[[], Any], what: str) -> Any:
        """What `look` returns once that is true."""
        began = time.monotonic()
        while not (seen := look()):
            waited_s = time.monotonic() - began
            said = self.schedulers[-1].text() if self.schedulers else ""
            assert waited_s < 2 * PATIENCE_S, f"waited in vain for {what}; the scheduler said: {said}"
            pause(waited_s)
        return seen

    def apply(self, *objects: Obj) -> None:
        self.plane.kubectl("apply", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def nodes_of(self, namespace: str) -> dict[str, str]:
        """Every pod of a namespace and its node, "" for none."""
        items = self.plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return {
            one["metadata"]["name"]: one["spec"].get("nodeName", "")
            for one in items
            if "deletionTimestamp" not in one["metadata"]
        }

    @contextmanager
    def namespace(self, name: str, labels: Mapping[str, str] | None = None) -> Iterator[str]:
        """A namespace with its service account, whose pods are gone afterwards."""
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": dict(labels or {})},
            }
        )
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        self.wait(lambda: self.plane.api.exists(account), f"the service account of {name}")
        try:
            yield name
        finally:
            self.clear(name)

    def clear(self, namespace: str) -> None:
        """Delete a namespace; return when its pods hold no node any more."""
        self.plane.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")
        self.wait(
            lambda: not self.plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"],
            f"the pods of {namespace} to be gone",
        )

    def end_schedulers(self) -> None:
        for process in self.schedulers:
            process.close()
        self.schedulers.clear()


@contextmanager
def shipped_on(
    nodes: int, *, watch_lists: bool = True, apiserver_args: Sequence[str] = ()
) -> Iterator[Shipped]:
    """A control plane with every kind of PodGroup, simulated nodes and Fairlead's account.

    ``watch_lists=False`` makes the API server one that cannot stream lists, as older ones cannot: clients
    then list first and watch from there.
    """
    programs(*_PROGRAMS)
    with tempfile.TemporaryDirectory(prefix="fairlead-shipped-") as name:
        folder = Path(name)
        (folder / "policy.yaml").write_text(yaml.safe_dump(_POLICY))
        switches = pod_groups_on()
        plane = ControlPlane(
            feature_gates=switches["feature_gates"] | ({} if watch_lists else {"WatchList": False}),
            runtime_config=switches["runtime_config"],
            apiserver_args=[
                f"--audit-policy-file={folder / 'policy.yaml'}",
                f"--audit-log-path={folder / 'audit.log'}",
                "--audit-log-mode=blocking",
                *apiserver_args,
            ],
        )
        with plane:
            plane.start_controller_manager()
            plane.start_kwok()
            plane.add_nodes(nodes)
            plane.kubectl("apply", "--validate=strict", "-f", str(EXAMPLES / "crds"))
            plane.kubectl("apply", "--validate=strict", "-k", str(DEPLOY / "crds"))
            plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
            own = Shipped(plane, folder)
            try:
                yield own
            finally:
                own.end_schedulers()
