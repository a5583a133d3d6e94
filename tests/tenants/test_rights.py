"""Who may edit one namespace can keep tenants there, and needs no right elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from support.cluster import Cluster, Host
from support.tenancy import Tenancy


def as_editor(tenancy: Tenancy) -> Tenancy:
    """The same commands as somebody who has the role `edit` in the test's namespace."""
    user = tenancy.cluster.unique("editor")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "editor"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    tenancy.cluster.create(binding)
    config = yaml.safe_load(tenancy.cluster.kubeconfig.read_text())
    for each in config.get("users", []):
        each["user"]["as"] = user
    tenancy.kubeconfig = tenancy.write("editor.kubeconfig", config)
    return tenancy


def test_tenants_are_made_shown_and_removed(tenancy: Tenancy) -> None:
    editor = as_editor(tenancy)
    editor.cluster.add_nodes(1, pods=10)
    editor.create("a", more=("--wait", "--timeout", "1m"))
    assert editor.listed()["a"]["status"] == "running"
    editor.ok("apply", "-f", str(editor.tenants_file({"name": "a", "type": "small"})))
    editor.ok("delete", "--name", "a", "-n", editor.home, "--yes")
    assert editor.objects() == {}


@pytest.mark.real  # the embedded cluster lets everybody do everything
def test_all_namespaces_are_not_theirs_to_see(real_host: Host, tmp_path: Path) -> None:
    cluster = Cluster(real_host)
    try:
        said = as_editor(Tenancy(cluster, tmp_path)).fails(1, "list")
    finally:
        cluster.close()
    assert "forbidden" in said
    assert "name a namespace with -n" in said
