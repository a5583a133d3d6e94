"""What two clusters may differ in: names drawn at random, times, addresses, and who wrote what when.

Everything else that kubectl prints or stores must be equal.
"""

from __future__ import annotations

import difflib
import json
import re
from typing import Any

import yaml

__all__ = ["difference", "same_object", "same_output"]

_UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_AGE = re.compile(r"(?<![\w.-])(<invalid>|(\d+[dhms]){1,2})(?![\w.-])")
_ADDRESS = re.compile(r"\b(\d{1,3}\.){3}\d{1,3}\b")
# Kubernetes draws random suffixes and hashes from this alphabet.
_HASHED = re.compile(
    r"\b(web|once)-[bcdfghjklmnpqrstvwxz2456789]{5,10}(-[bcdfghjklmnpqrstvwxz2456789]{5})?\b"
)
_HASH_LABEL = re.compile(r"(pod-template-hash|controller-revision-hash)=[\w-]+")

# Times, identities, and what the nodes' players say of themselves.
_DROPPED = {
    "creationTimestamp",
    "generateName",
    "holderIdentity",
    "hostIP",
    "hostIPs",
    "managedFields",
    "podIP",
    "podIPs",
    "resourceVersion",
    "startTime",
    "uid",
}
_HASHES = {
    "pod-template-hash",
    "controller-revision-hash",
    "batch.kubernetes.io/controller-uid",
    "controller-uid",
}
_HASHES |= {"currentRevision", "updateRevision", "kubectl.kubernetes.io/restartedAt"}
_SCHEDULED = {"nodeName"}


def difference(embedded: Any, real: Any) -> str:
    """What differs, line by line; empty when nothing does."""
    left, right = (json.dumps(one, indent=1, sort_keys=True).splitlines() for one in (embedded, real))
    return "\n".join(difflib.unified_diff(left, right, "embedded", "real", n=2, lineterm=""))


def same_output(command: str, text: str, nodes: tuple[str, ...]) -> Any:
    """What of a command's output must be equal on both clusters."""
    if re.search(r"-o (yaml|json)\b", command) and text.strip():
        return same_object(yaml.safe_load(text))
    if "--raw /api" in command and text.strip():
        return same_object(json.loads(text))
    if command.startswith("api-versions"):
        # The embedded cluster serves fewer groups than a real one.
        return sorted(set(text.split()) & {"v1", "apps/v1", "batch/v1", "policy/v1"})
    text = _text(text)
    if "get nodes" in command or "get node " in command:
        # What the players of kubelets say of operating systems and of themselves is theirs.
        return [" ".join(line.split()[:2]) for line in text.splitlines()]
    lines = []
    for line in text.splitlines():
        fields = ["(node)" if field in nodes and "{node}" not in command else field for field in line.split()]
        lines.append(" ".join(fields))
    # Rows come in the order of names, some of which are drawn at random.
    return sorted(lines)


def same_object(value: Any) -> Any:
    """An object without what may differ."""
    if isinstance(value, dict):
        if value.get("kind") == "Node":
            return _same_node(value)
        return {key: _member(key, item) for key, item in value.items() if _counts(key, item)}
    if isinstance(value, list):
        return [same_object(item) for item in value if not _is_token_volume(item)]
    return _without_random(value) if isinstance(value, str) else value


def _member(key: str, value: Any) -> Any:
    if key in _HASHES:
        return "(hash)"
    if key in _SCHEDULED:
        return "(node)"
    if key == "kubectl.kubernetes.io/last-applied-configuration":
        return same_object(json.loads(value))
    if key == "conditions" and isinstance(value, list):
        # A set by type; what is said in words is the controller's own.
        kept = [{name: c[name] for name in ("type", "status", "reason") if name in c} for c in value]
        return sorted(kept, key=lambda condition: str(condition["type"]))
    return same_object(value)


def _counts(key: str, value: Any) -> bool:
    if key in _DROPPED or key.endswith(("Time", "Timestamp", "ID", "startedAt", "finishedAt")):
        return False
    return not (isinstance(value, list) and value and all(_is_token_volume(item) for item in value))


def _is_token_volume(item: Any) -> bool:
    """The service account's token, which a real API server mounts into every pod."""
    return isinstance(item, dict) and str(item.get("name", "")).startswith("kube-api-access-")


def _same_node(node: dict[str, Any]) -> dict[str, Any]:
    """What people do to nodes; the rest is what players of kubelets say of themselves."""
    taints = [
        {k: v for k, v in taint.items() if k != "timeAdded"} for taint in node["spec"].get("taints") or []
    ]
    return {
        "name": node["metadata"]["name"],
        "taints": taints,
        "unschedulable": node["spec"].get("unschedulable"),
    }


def _text(text: str) -> str:
    return _AGE.sub("(age)", _without_random(text))


def _without_random(text: str) -> str:
    for pattern, placeholder in (
        (_UID, "(uid)"),
        (_TIME, "(time)"),
        (_ADDRESS, "(address)"),
        (_HASHED, r"\1-(random)"),
        (_HASH_LABEL, r"\1=(hash)"),
    ):
        text = pattern.sub(placeholder, text)
    return text
