"""The contenders of the end-to-end benchmark are equal at the API server: account, rights, flow control."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.e2e_accounts import Requests, contender_kubeconfig, requests_in, rights
from benchmarks.e2e_rig import CONTENDERS, requests
from tools.shipped_rights import shipped_objects

from fairlead.rig.controlplane import ControlPlane
from support.rig import programs

METRICS = """
# TYPE apiserver_flowcontrol_dispatched_requests_total counter
apiserver_flowcontrol_dispatched_requests_total{flow_schema="exempt",priority_level="exempt"} 705
apiserver_flowcontrol_dispatched_requests_total{flow_schema="kube-system-service-accounts",priority_level="workload-high"} 1.2e+03
apiserver_flowcontrol_rejected_requests_total{flow_schema="kube-system-service-accounts",priority_level="workload-high",reason="queue-full"} 2
apiserver_flowcontrol_rejected_requests_total{flow_schema="kube-system-service-accounts",priority_level="workload-high",reason="time-out"} 3
apiserver_flowcontrol_rejected_requests_total{flow_schema="service-accounts",priority_level="workload-low",reason="time-out"} 7
"""  # noqa: E501 (as the API server writes them)


def of_kind(kind: str, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in objects if one["kind"] == kind]


def test_each_contender_is_one_service_account_in_kube_system_and_its_bindings_name_no_other() -> None:
    for name in CONTENDERS:
        objects = rights(name)
        (account,) = of_kind("ServiceAccount", objects)
        assert account["metadata"]["namespace"] == "kube-system"
        bindings = [*of_kind("ClusterRoleBinding", objects), *of_kind("RoleBinding", objects)]
        assert bindings
        for binding in bindings:
            (subject,) = binding["subjects"]
            assert subject["kind"] == "ServiceAccount"
            assert subject["namespace"] == "kube-system"
            assert subject["name"] == account["metadata"]["name"]


def test_each_scheduler_has_the_roles_that_it_ships_with() -> None:
    bound = {one["roleRef"]["name"] for one in of_kind("ClusterRoleBinding", rights("kube-scheduler"))}
    assert bound == {"system:kube-scheduler", "system:volume-scheduler"}
    for kind in ("ClusterRole", "Role"):
        shipped = of_kind(kind, shipped_objects("policies/rbac.yaml", "rbac.yaml"))
        assert [one["rules"] for one in of_kind(kind, rights("fairlead"))] == [
            one["rules"] for one in shipped
        ]


def test_only_the_requests_of_the_contenders_flow_schema_are_counted() -> None:
    assert requests_in(METRICS) == Requests("workload-high", 1200, 5)
    assert requests_in("") == Requests("", 0, 0)


@pytest.mark.real
@pytest.mark.slow
def test_every_contender_gets_the_same_priority_level_and_no_more_rights_than_its_own() -> None:
    programs("etcd", "kube-apiserver", "kubectl")
    with ControlPlane() as plane:
        for name in CONTENDERS:
            kubeconfig = contender_kubeconfig(name, plane)
            before = requests(plane).dispatched
            plane.kubectl("get", "pods", f"--kubeconfig={kubeconfig}")
            after = requests(plane)
            assert after.level == "workload-high"
            assert after.dispatched > before
            refused = plane.kubectl("get", "secrets", f"--kubeconfig={kubeconfig}", check=False)
            assert "Forbidden" in refused.stderr
