"""One pod for every reason that kube-scheduler has: together they show each rule at least once.

Of the four nodes one is cordoned, one is tainted and one is full; what the fourth has, and the pods that
run there, give each waiting pod its reason. None of them fits, so none changes what the next one sees.
"""

from __future__ import annotations

from typing import Any

from support.differential.states import HOSTNAME, ZONE, Object, State
from support.differential.volumes import BOUND, storage_class

__all__ = ["REASONS", "each_reason"]

# What kube-scheduler says, by rule, without counts and names.
REASONS = {
    "NodeUnschedulable": ["node(s) were unschedulable"],
    "TaintToleration": ["node(s) had untolerated taint(s)"],
    "NodeAffinity": [
        "node(s) didn't match Pod's node affinity/selector",
        "node(s) didn't satisfy plugin(s) [NodeAffinity]",
        "pod affinity terms conflict",
    ],
    "NodePorts": ["node(s) didn't have free ports for the requested pod ports"],
    "NodeResourcesFit": [
        "Too many pods",
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient ephemeral-storage",
        "Insufficient example.com/gpu",
        "Insufficient hugepages-2Mi",
    ],
    "VolumeRestrictions": [
        "node(s) had no available disk",
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod",
        "persistentvolumeclaim … not found",
    ],
    "NodeVolumeLimits": ["node(s) exceed max volume count"],
    "VolumeBinding": [
        "node(s) didn't match PersistentVolume's node affinity",
        "node(s) didn't find available persistent volumes to bind",
        "node(s) did not have enough free storage",
        "pod has unbound immediate PersistentVolumeClaims",
        "persistentvolumeclaim … bound to non-existent persistentvolume …",
        "persistentvolumeclaim … is being deleted",
        "PVC … was not created for pod … (pod is not owner)",
        "waiting for ephemeral volume controller to create the persistentvolumeclaim …",
    ],
    "VolumeZone": ["node(s) had no available volume zone", "persistentvolume … not found"],
    "PodTopologySpread": [
        "node(s) didn't match pod topology spread constraints",
        "node(s) didn't match pod topology spread constraints (missing required label)",
    ],
    "InterPodAffinity": [
        "node(s) didn't match pod affinity rules",
        "node(s) didn't match pod anti-affinity rules",
        "node(s) didn't satisfy existing pods anti-affinity rules",
    ],
    "NodeDeclaredFeatures": ["node(s) didn't match Pod's required features"],
    "SchedulingGates": ["Scheduling is blocked due to non-empty scheduling gates"],
}

_DRIVER = "make.example.com"


def each_reason() -> State:
    """The state in which every reason is given."""
    disk = {"name": "disk", "awsElasticBlockStore": {"volumeID": "vol-1"}}
    port = {"containerPort": 80, "hostPort": 7000}
    state = State(
        objects=[
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "red"}},
            _node("open"),
            _node("cordoned", unschedulable=True),
            _node("tainted", taints=[{"key": "spot", "effect": "NoSchedule"}]),
            _node("full", pods="1"),
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": "open"},
                "spec": {"drivers": [{"name": _DRIVER, "nodeID": "open", "allocatable": {"count": 1}}]},
            },
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIDriver",
                "metadata": {"name": "space.example.com"},
                "spec": {"storageCapacity": True},
            },
            storage_class("static", "kubernetes.io/no-provisioner"),
            storage_class("space", "space.example.com"),
            storage_class("now", _DRIVER, mode="Immediate"),
            # The only free volume is none for a claim that wants a file system.
            _volume("block", storageClassName="static", volumeMode="Block"),
        ],
        placed=[
            _pod("on-full", nodeName="full"),
            _pod("db", labels={"app": "db"}, nodeName="open"),
            _pod("alone", nodeName="open", affinity=_company("podAntiAffinity", "unwelcome")),
            _pod("with-port", nodeName="open", container={"ports": [port]}),
            _pod("with-disk", nodeName="open", volumes=[disk]),
            _pod("with-once", nodeName="open", volumes=[_use("once")]),
            _pod("with-csi", nodeName="open", volumes=[_use("attached")]),
        ],
        pending=[
            _pod("selector", nodeSelector={"nope": "x"}),
            _pod("names", affinity=_named("cordoned")),
            _pod("conflict", affinity=_named("open", "full")),
            _pod("ports", container={"ports": [port]}),
            _pod("cpu", container=_asks(cpu="1000")),
            _pod("memory", container=_asks(memory="10Ti")),
            _pod("ephemeral-storage", container=_asks(**{"ephemeral-storage": "1Ti"})),
            _pod("gpu", container=_asks(**{"example.com/gpu": "1"})),
            _pod("hugepages", container=_asks(**{"cpu": "1m", "hugepages-2Mi": "2Mi"})),
            _pod("disk", volumes=[disk]),
            _pod("absent", volumes=[_use("absent")]),
            *(_pod(f"wants-{name}", volumes=[_use(name)]) for name in _CLAIMS if name != "attached"),
            _pod("stolen", volumes=[_made("v")]),
            _pod("unmade", volumes=[_made("v")]),
            _pod("spread", labels={"app": "db"}, topologySpreadConstraints=[_spread(HOSTNAME)]),
            _pod("no-rack", topologySpreadConstraints=[_spread("rack")]),
            _pod("follower", affinity=_company("podAffinity", "nobody")),
            _pod("shy", affinity=_company("podAntiAffinity", "db")),
            _pod("unwelcome", labels={"app": "unwelcome"}),
            _pod("featured", container=_RESTARTS),
            _pod("gated", schedulingGates=[{"name": "example.com/quota"}]),
        ],
    )
    for name, (spec, volume) in _CLAIMS.items():
        state.objects += _claimed(name, dict(spec), volume)
    state.objects += _claimed("stolen-v", {"storageClassName": "now"}, None)
    for index, pod in enumerate(state.pending):
        pod["spec"]["priority"] = 1000 - index
    return state


# Claims by name: what is special of each, and of the volume it is bound to, if there is one.
_CLAIMS: dict[str, tuple[Object, Object | None]] = {
    "attached": ({}, {"csi": {"driver": _DRIVER, "volumeHandle": "h1"}}),
    "unattached": ({}, {"csi": {"driver": _DRIVER, "volumeHandle": "h2"}}),
    "once": ({"accessModes": ["ReadWriteOncePod"]}, {}),
    "elsewhere": (
        {},
        {
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z"]}]}
                    ]
                }
            }
        },
    ),
    "zoned": ({}, {"labels": {ZONE: "z"}}),
    "unfound": ({"volumeName": "gone"}, None),
    "lost": ({"volumeName": "gone", "phase": "Lost"}, None),
    "going": ({"terminating": True}, {}),
    "static": ({"storageClassName": "static"}, None),
    "space": ({"storageClassName": "space"}, None),
    "now": ({"storageClassName": "now"}, None),
}

_RESTARTS: Object = {
    "restartPolicy": "Never",
    "restartPolicyRules": [
        {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    ],
}


def _node(name: str, *, pods: str = "110", **spec: Any) -> Object:
    amounts = {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "10Gi", "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: "a"}},
        "spec": spec,
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _pod(
    name: str, *, labels: dict[str, str] | None = None, container: Object | None = None, **spec: Any
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "red", "labels": labels or {}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "preemptionPolicy": "Never",
            "containers": [{"name": "main", "image": "image", **(container or {})}],
            **spec,
        },
    }


def _asks(**amounts: str) -> Object:
    return {"resources": {"requests": amounts, "limits": amounts}}


def _use(claim: str) -> Object:
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}


def _made(name: str) -> Object:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "now",
    }
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}


def _named(*names: str) -> Object:
    """Affinity to a node that has all the names at once."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _company(kind: str, app: str) -> Object:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _spread(key: str) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}},
    }


def _claimed(name: str, special: Object, volume: Object | None) -> list[Object]:
    """A claim, and its volume if it has one."""
    claim: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "red"},
    }
    if special.pop("terminating", False):
        claim["metadata"]["finalizers"] = ["example.com/hold"]
        claim["terminating"] = True
    if phase := special.pop("phase", ""):
        claim["status"] = {"phase": phase}
    if "storageClassName" not in special:
        claim["metadata"]["annotations"] = {BOUND: "yes"}
        special = {"storageClassName": "", "volumeName": f"pv-{name}", **special}
    modes = special.get("accessModes", ["ReadWriteOnce"])
    claim["spec"] = {"accessModes": modes, "resources": {"requests": {"storage": "1Gi"}}, **special}
    if volume is None:
        return [claim]
    reference = {"kind": "PersistentVolumeClaim", "namespace": "red", "name": name}
    return [claim, _volume(f"pv-{name}", accessModes=modes, claimRef=reference, **volume)]


def _volume(name: str, *, labels: dict[str, str] | None = None, **special: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            **({} if "csi" in special else {"hostPath": {"path": "/data"}}),
            **special,
        },
        "status": {"phase": "Bound" if "claimRef" in special else "Available"},
    }
