"""The Cluster Autoscaler of a cluster: its version, flags and role, from its Deployment or as one is told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from fairlead.cloud import shell
from fairlead.errors import BadInput
from fairlead.nodegroups.aws.template import NODE_CACHE
from fairlead.nodegroups.aws.version import Version

__all__ = ["CaSettings", "find_autoscaler", "go_duration"]

_IMAGE = re.compile(r"(?:^|/)cluster-autoscaler(?:-\w+)?(?:[:@]|$)")
_ROLE = "eks.amazonaws.com/role-arn"
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True, slots=True)
class CaSettings:
    """What is known of the autoscaler. `version` None: not known, taken to be a new one."""

    version: Version | None = None
    flags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    role: str = ""
    namespace: str = "kube-system"
    name: str = "cluster-autoscaler"
    service_account: str = ""
    """``namespace/name``, "" when its Deployment was not found."""

    @property
    def as_version(self) -> Version:
        """Its version, or that of a new one."""
        return self.version or Version()

    @property
    def expire(self) -> timedelta:
        """For how long it remembers a group's last node."""
        given = self.flags.get("node-info-cache-expire-time", ())
        return (go_duration(given[-1]) if given else None) or NODE_CACHE

    @property
    def restart(self) -> str:
        """The command that makes it forget."""
        return (
            f"kubectl -n {shell.word(self.namespace)} rollout restart {shell.word(f'deployment/{self.name}')}"
        )

    def discovers_by(self) -> tuple[Mapping[str, str], ...] | None:
        """The tags that a group must have, each way of discovery for itself; None: flags not known."""
        if "node-group-auto-discovery" not in self.flags and "nodes" not in self.flags:
            return None
        specs = []
        for spec in self.flags.get("node-group-auto-discovery", ()):
            for one in re.split(r";|,(?=asg:)", spec.strip("[]")):
                kind, _, tags = one.partition("tag=")
                if kind == "asg:":
                    specs.append(dict(tag.partition("=")[::2] for tag in tags.split(",") if tag))
        return tuple(specs)

    def names(self) -> tuple[str, ...]:
        """The Auto Scaling groups that are given to it by name (``--nodes=min:max:name``)."""
        return tuple(each.split(":", 2)[2] for each in self.flags.get("nodes", ()) if each.count(":") >= 2)


def find_autoscaler(objects: Iterable[Mapping[str, Any]]) -> CaSettings | None:
    """The autoscaler among a cluster's objects; its role is on its ServiceAccount, if anywhere."""
    listed = list(objects)
    for deployment in listed:
        if deployment.get("kind") != "Deployment":
            continue
        spec = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
        for container in spec.get("containers") or ():
            if not _is_autoscaler(container):
                continue
            metadata = deployment.get("metadata") or {}
            namespace = metadata.get("namespace") or "default"
            account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
            return CaSettings(
                version=_version(str(container.get("image") or "")),
                flags=read_flags([*(container.get("command") or ()), *(container.get("args") or ())]),
                role=_role(listed, namespace, account),
                namespace=namespace,
                name=metadata.get("name") or "",
                service_account=f"{namespace}/{account}",
            )
    return None


def read_flags(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Flags with all their values, in the order they are given.

    >>> read_flags(["./cluster-autoscaler", "--v=4", "--nodes=0:3:a", "--nodes", "0:2:b", "--x"])
    {'v': ('4',), 'nodes': ('0:3:a', '0:2:b'), 'x': ('true',)}
    """
    found: dict[str, tuple[str, ...]] = {}
    for index, each in enumerate(words):
        if not each.startswith("-"):
            continue
        name, equals, value = each.lstrip("-").partition("=")
        if not equals:
            after = words[index + 1] if index + 1 < len(words) else "-"
            value = "true" if after.startswith("-") else after
        found[name] = (*found.get(name, ()), value)
    return found


def go_duration(text: str) -> timedelta | None:
    """A duration as Go spells it; None when it is none.

    >>> go_duration("87600h0m0s").days, go_duration("soon")
    (3650, None)
    """
    parts = _PART.findall(text)
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != text:
        return None
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))


def _is_autoscaler(container: Mapping[str, Any]) -> bool:
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return bool(_IMAGE.search(str(container.get("image") or ""))) or any(
        str(word).rpartition("/")[2] == "cluster-autoscaler" for word in words[:1]
    )


def _version(image: str) -> Version | None:
    try:
        return Version.read(image)
    except BadInput:
        return None  # by digest, or a tag of one's own


def _role(objects: Sequence[Mapping[str, Any]], namespace: str, account: str) -> str:
    for each in objects:
        metadata = each.get("metadata") or {}
        named = (metadata.get("namespace") or "default", metadata.get("name"))
        if each.get("kind") == "ServiceAccount" and named == (namespace, account):
            return str((metadata.get("annotations") or {}).get(_ROLE, ""))
    return ""
