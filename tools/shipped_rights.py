"""Fairlead's shipped rights on a control plane: a kubeconfig that may do what the manifests grant, no more.

Only the account and its roles are applied, not the Deployment: on the rig Fairlead runs as a process, so
that it can be watched, stopped and killed.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from fairlead.errors import RigError
from fairlead.rig.controlplane import ControlPlane

__all__ = [
    "ACCOUNT",
    "DEPLOY",
    "NAMESPACE",
    "account_kubeconfig",
    "shipped_kubeconfig",
    "shipped_objects",
    "shipped_rights",
]

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
NAMESPACE = "fairlead-system"
ACCOUNT = "fairlead"

_TOKEN_S = 24 * 3600


def shipped_rights(door: str = "") -> list[dict[str, Any]]:
    """The namespace, a door's account, its roles and their bindings, as shipped; "" is the scheduler.

    The ConfigMap of marks is with them, which an account may write but not create, and the fence of pods.
    """
    own = f"{door}/rbac.yaml" if door else "rbac.yaml"
    shared = ("policies/rbac.yaml", "policies/marks.yaml", "policies/fence.yaml")
    return shipped_objects("namespace.yaml", *shared, own)


def shipped_objects(*files: str) -> list[dict[str, Any]]:
    """What is in these files of the shipped manifests."""
    if not DEPLOY.is_dir():
        raise RigError(f"no manifests in {DEPLOY}")
    return [found for file in files for found in yaml.safe_load_all((DEPLOY / file).read_text()) if found]


def shipped_kubeconfig(plane: ControlPlane, rights: Sequence[dict[str, Any]] | None = None) -> Path:
    """Apply the shipped rights (or `rights` in their place) and return a kubeconfig of the account."""
    objects = shipped_rights() if rights is None else rights
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
    return account_kubeconfig(plane)


def account_kubeconfig(plane: ControlPlane, *, namespace: str = NAMESPACE, account: str = ACCOUNT) -> Path:
    """A kubeconfig with a token of the ServiceAccount, as its pods would have one."""
    asked = plane.kubectl("create", "token", account, f"--namespace={namespace}", f"--duration={_TOKEN_S}s")
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "rig",
                "cluster": {
                    "server": plane.url,
                    "certificate-authority-data": base64.b64encode(plane.ca_file.read_bytes()).decode(),
                },
            }
        ],
        "users": [{"name": account, "user": {"token": asked.stdout.strip()}}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": account, "namespace": namespace}}],
        "current-context": "rig",
    }
    path = plane.folder / f"{namespace}.{account}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path
