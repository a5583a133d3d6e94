"""Equal conditions for the contenders at the API server: the kind of account, rights, flow control, limits.

* **Account**: each contender is a ServiceAccount in ``kube-system`` with a token. None is in
  ``system:masters``, whose requests API priority and fairness does not limit and RBAC does not check.
  Creating pods and observing is done as ``system:masters``, so that it takes no seat from a contender.
* **Rights**: each has what it is shipped with. kube-scheduler: the ClusterRoles ``system:kube-scheduler`` and
  ``system:volume-scheduler``. Fairlead: the roles of ``deploy/rbac.yaml`` and ``deploy/policies/rbac.yaml``,
  installed in ``kube-system``. The bind-only loop: ``system:kube-scheduler``.
* **Flow control**: the API server's own FlowSchema ``kube-system-service-accounts`` takes all of them into
  the priority level ``workload-high``; kube-scheduler's usual user would get the same level through the
  FlowSchema ``kube-scheduler``. The benchmark reads from the API server's metrics where requests went.
* **Client limits**: none that slows a contender down. kube-scheduler's is lifted to 5,000 requests a second
  and a burst of 10,000, which is more than the API server takes here. Fairlead and the bind-only loop have
  no rate limit, and at most 64 binds in flight, Fairlead's default.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tools.shipped_rights import ACCOUNT, account_kubeconfig, shipped_objects
from tools.shipped_rights import NAMESPACE as SHIPPED_NAMESPACE

from fairlead.rig.controlplane import ControlPlane
from fairlead.rig.processes import wait_until

__all__ = [
    "IN_FLIGHT",
    "KUBE_SCHEDULER_BURST",
    "KUBE_SCHEDULER_QPS",
    "NAMESPACE",
    "PRIORITY_LEVEL",
    "Requests",
    "conditions",
    "contender_kubeconfig",
    "requests_in",
    "rights",
]

NAMESPACE = "kube-system"
PRIORITY_LEVEL = "workload-high"
KUBE_SCHEDULER_QPS, KUBE_SCHEDULER_BURST = 5000, 10_000
IN_FLIGHT = 64

_FLOW_SCHEMA = "kube-system-service-accounts"
_UPSTREAM_ROLES = {
    "ceiling": ("system:kube-scheduler",),
    "kube-scheduler": ("system:kube-scheduler", "system:volume-scheduler"),
}
_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Requests:
    """What API priority and fairness did with a contender's requests."""

    level: str  # the priority level or levels that took them
    dispatched: int
    rejected: int


def conditions(name: str) -> str:
    """The contender's account and its client's limit, for the table.

    >>> conditions("kube-scheduler")
    'kube-system/kube-scheduler, 5000 requests/s, burst 10000'
    >>> conditions("fairlead")
    'kube-system/fairlead, no rate limit, 64 binds in flight'
    """
    limit = f"no rate limit, {IN_FLIGHT} binds in flight"
    if name == "kube-scheduler":
        limit = f"{KUBE_SCHEDULER_QPS} requests/s, burst {KUBE_SCHEDULER_BURST}"
    return f"{NAMESPACE}/{_account(name)}, {limit}"


def contender_kubeconfig(name: str, plane: ControlPlane) -> Path:
    """Create the contender's account and rights; a kubeconfig with its token."""
    # The API server creates this namespace itself, shortly after it is ready.
    wait_until(lambda: plane.api.exists(f"/api/v1/namespaces/{NAMESPACE}"), NAMESPACE, timeout_s=60)
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(rights(name)))
    return account_kubeconfig(plane, namespace=NAMESPACE, account=_account(name))


def rights(name: str) -> list[dict[str, Any]]:
    """The contender's ServiceAccount, and the roles and bindings that it is shipped with."""
    if name not in _UPSTREAM_ROLES:
        shipped = json.dumps(shipped_objects("policies/rbac.yaml", "rbac.yaml"))
        moved: list[dict[str, Any]] = json.loads(shipped.replace(f'"{SHIPPED_NAMESPACE}"', f'"{NAMESPACE}"'))
        return moved
    account = {"kind": "ServiceAccount", "name": _account(name), "namespace": NAMESPACE}
    bindings = [
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"benchmark:{name}:{role}"},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [account],
        }
        for role in _UPSTREAM_ROLES[name]
    ]
    metadata = {"name": account["name"], "namespace": account["namespace"]}
    return [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}, *bindings]


def _account(name: str) -> str:
    return name if name in _UPSTREAM_ROLES else ACCOUNT


def requests_in(metrics: str) -> Requests:
    """Where the requests of kube-system's accounts went, from the API server's metrics.

    Nothing but one contender uses such an account here. Leases have a FlowSchema of their own.
    """
    dispatched = _by_level(metrics, "dispatched")
    rejected = _by_level(metrics, "rejected")
    return Requests(
        ", ".join(sorted({*dispatched, *rejected})), sum(dispatched.values()), sum(rejected.values())
    )


def _by_level(metrics: str, what: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for labels, value in re.findall(
        rf"^apiserver_flowcontrol_{what}_requests_total{{(.*?)}} (\S+)$", metrics, re.MULTILINE
    ):
        named = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if named["flow_schema"] == _FLOW_SCHEMA:
            level = named["priority_level"]
            found[level] = found.get(level, 0) + int(float(value))
    return found
