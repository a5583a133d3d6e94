"""A kubeconfig for an embedded cluster, so that any client finds it."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml

__all__ = ["write_kubeconfig"]


def write_kubeconfig(
    path: Path, address: str, *, token: str = "", ca_pem: bytes = b"", name: str = "fairlead"
) -> Path:
    """Write a kubeconfig that points to `address` and return its path; readable by the owner alone."""
    cluster: dict[str, str] = {"server": address}
    if ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(ca_pem).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token} if token else {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path
