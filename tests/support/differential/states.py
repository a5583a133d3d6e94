"""Random clusters and pods over every rule, from a seed: small enough that rules meet often."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from support.differential.volumes import StorageGenerator, storage_objects

Object = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
HOSTNAME = "kubernetes.io/hostname"
KEYS = [ZONE, HOSTNAME, REGION, "rack"]
NAMESPACES = {"red": {"env": "prod", "team": "x"}, "green": {"env": "dev"}, "blue": {}}
APPS = ["web", "db", "cache"]
TAINTS = [
    {"key": "size", "value": "large", "effect": "NoSchedule"},
    {"key": "size", "value": "small", "effect": "NoExecute"},
    {"key": "spot", "effect": "NoSchedule"},
    {"key": "slow", "value": "yes", "effect": "PreferNoSchedule"},
]


@dataclass
class State:
    """What is there before the scheduler starts, and the pods it is to place, first to last."""

    objects: list[Object] = field(default_factory=list)
    placed: list[Object] = field(default_factory=list)
    # Claims that belong to a pod and must name its UID: (index into pending, claim).
    claims_of: list[tuple[int, Object]] = field(default_factory=list)
    pending: list[Object] = field(default_factory=list)


# What a state dwells on: the features its pods have more often, and how roomy and plain its nodes are. On
# one node every refusal is told, because the pod has nowhere else to go.
THEMES = ("mixed", "spread", "affinity", "volumes", "resources", "one node")


def generate(seed: int, pods: int) -> State:
    """The state of one seed."""
    return _Generator(random.Random(seed), THEMES[seed % len(THEMES)]).state(pods)


class _Generator:
    def __init__(self, rng: random.Random, theme: str) -> None:
        self.rng = rng
        self.theme = theme
        # Where something else is looked at, taints, cordons and full nodes would only hide it.
        self.plain = theme not in ("mixed", "resources")
        self.alone = theme == "one node"
        self.odd = 0.0 if self.alone else 0.04 if self.plain else 0.1
        self.storage = StorageGenerator(rng)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def state(self, pods: int) -> State:
        rng = self.rng
        state = State()
        for name, labels in NAMESPACES.items():
            state.objects.append(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            )
        # Now and then more than nine, because counts are sorted as strings.
        sizes = [(1, 1)] if self.alone else [(2, 7)] * 8 + [(10, 16), (30, 60)]
        number = rng.randint(*rng.choice(sizes))
        names = [f"n{index}" for index in range(number)]
        state.objects += [self.node(name) for name in names]
        state.objects += storage_objects(rng, names)
        for index in range(rng.randint(0, 4 if self.alone else 14)):
            state.placed.append(self.placed(index, rng.choice([*names, *names, "gone"])))
        for index in range(pods):
            pod = self.pending(index, 1000 - index)
            state.pending.append(pod)
            for claim, made in self.storage.take_claims():
                if made:
                    state.claims_of.append((index, claim))
                else:
                    state.objects.append(claim)
        state.objects += self.storage.take_volumes()
        return state

    # Nodes

    def node(self, name: str) -> Object:
        rng = self.rng
        labels = {}
        if self.chance(0.92):
            labels[HOSTNAME] = name
        if self.chance(0.85):
            labels[ZONE] = rng.choice("abc")
        if self.chance(0.5):
            labels["topology.ebs.csi.aws.com/zone"] = rng.choice("abc")
        if self.chance(0.3):
            labels[REGION] = rng.choice(["r1", "r2"])
        if self.chance(0.5):
            labels["disk"] = rng.choice(["ssd", "hdd"])
        if self.chance(0.6):
            labels["rack"] = rng.choice(["1", "5", "10", "x", "007"])
        taints = [taint for taint in TAINTS if self.chance(self.odd)]
        alloc = {
            "cpu": rng.choice(["1", "2", "1500m", "3900m", "8", "1e1"]),
            "memory": rng.choice(["1Gi", "2Gi", "3000M", "1234567890", "16Gi"]),
            "ephemeral-storage": rng.choice(["1Gi", "10Gi", "500M"]),
            "pods": rng.choice(["3", "10", "30", "110"]),
        }
        if self.plain:
            alloc.update({"cpu": "64", "memory": "256Gi", "pods": rng.choice(["10", "110", "110", "110"])})
        if self.chance(0.3):
            alloc["example.com/gpu"] = rng.choice(["0", "1", "4"])
        if self.chance(0.2):
            alloc["hugepages-2Mi"] = rng.choice(["4Mi", "64Mi"])
        status: Object = {"allocatable": alloc, "capacity": alloc}
        if self.chance(0.3):
            status["declaredFeatures"] = sorted(
                rng.sample(
                    ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"],
                    rng.randint(1, 2),
                )
            )
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "taints": taints,
                **({"unschedulable": True} if self.chance(self.odd) else {}),
            },
            "status": status,
        }

    # Pods

    def placed(self, index: int, node: str) -> Object:
        rng = self.rng
        pod = self.bare(f"placed-{index}")
        pod["spec"]["nodeName"] = node
        if self.chance(0.3):
            self.pod_affinity(pod, kinds=["podAntiAffinity"])
        if self.chance(0.15):
            self.ports(pod)
        if self.chance(0.15):
            self.storage.inline(pod)
        if self.chance(0.1):
            pod["metadata"]["finalizers"] = ["example.com/hold"]
            pod["terminating"] = True
        if self.chance(0.08):
            pod["status"] = {"phase": rng.choice(["Succeeded", "Failed"])}
        elif self.chance(0.12):
            container = pod["spec"]["containers"][0]
            resources = {"requests": {"cpu": rng.choice(["1", "10m", "700m"])}}
            pod["status"] = {
                "phase": "Running",
                "containerStatuses": [
                    {
                        "name": container["name"],
                        "image": "i",
                        "imageID": "i",
                        "ready": True,
                        "restartCount": 0,
                        "resources": resources,
                        "allocatedResources": {"cpu": rng.choice(["5m", "900m"])},
                    }
                ],
            }
            if self.chance(0.4):
                pod["status"]["conditions"] = [
                    {
                        "type": "PodResizePending",
                        "status": "True",
                        "reason": rng.choice(["Infeasible", "Deferred"]),
                    }
                ]
        return pod

    def pending(self, index: int, priority: int) -> Object:
        pod = self.bare(f"pending-{index}")
        pod["spec"]["priority"] = priority
        theme = self.theme
        aside = 0.3 if self.plain else 1.0
        features = [
            (self.node_affinity, 0.25 * aside),
            (self.node_selector, 0.15 * aside),
            (self.tolerations, 0.45),
            (self.pod_affinity, 0.85 if theme == "affinity" else 0.4 * aside),
            (self.spread, 0.9 if theme == "spread" else 0.35 * aside),
            (self.ports, 0.12),
            (self.features, 0.1),
            (self.shape, 0.7 if theme == "resources" else 0.35 * aside),
            (self.storage.inline, 0.2 if theme == "volumes" else 0.3 * aside),
            (self.storage.claims, 0.9 if theme == "volumes" else 0.45 if self.alone else 0.22 * aside),
            (self.big, 0.15 * aside),
            (self.gates, 0.03),
        ]
        for feature, share in features:
            if self.chance(share):
                feature(pod)
        return pod

    def bare(self, name: str) -> Object:
        rng = self.rng
        labels = {"app": rng.choice(APPS)}
        if self.chance(0.5):
            labels["tier"] = rng.choice(["front", "back"])
        if self.chance(0.3):
            labels["pod-template-hash"] = rng.choice(["h1", "h2"])
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": rng.choice(list(NAMESPACES)), "labels": labels},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "preemptionPolicy": "Never",
                "containers": [self.container("main")],
            },
        }

    def container(self, name: str) -> Object:
        rng = self.rng
        requests = {}
        if self.chance(0.75):
            requests["cpu"] = rng.choice(["100m", "250m", "333m", "0.5", "1", "1n", "0", "1100u", "0.3333"])
        if self.chance(0.6):
            requests["memory"] = rng.choice(["64Mi", "100M", "1", "256Mi", "0.5Gi", "1e8", "0", "123456789"])
        if self.chance(0.1):
            requests["ephemeral-storage"] = rng.choice(["100Mi", "1G", "1"])
        container: Object = {"name": name, "image": "image"}
        limits = {}
        if self.chance(0.12):
            requests["example.com/gpu"] = limits["example.com/gpu"] = rng.choice(["0", "1", "2"])
        if self.chance(0.06):
            requests["hugepages-2Mi"] = limits["hugepages-2Mi"] = rng.choice(["2Mi", "8Mi"])
            requests.setdefault("cpu", "100m")
        if self.chance(0.15):
            limits["cpu"] = "2"
        container["resources"] = {"requests": requests, "limits": limits}
        return container

    def big(self, pod: Object) -> None:
        if "resources" in pod["spec"]:
            return  # the pod as a whole would ask for less than its containers, which is refused
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        requests.update(
            self.rng.choice([{"cpu": "1900m"}, {"memory": "3Gi"}, {"cpu": "5"}, {"ephemeral-storage": "5Gi"}])
        )
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        limits.pop("cpu", None)

    def shape(self, pod: Object) -> None:
        rng, spec = self.rng, pod["spec"]
        for index in range(rng.randint(0, 2)):
            spec["containers"].append(self.container(f"more-{index}"))
        spec["initContainers"] = []
        for index in range(rng.randint(0, 3)):
            container = self.container(f"init-{index}")
            if self.chance(0.5):
                container["restartPolicy"] = "Always"
            if self.chance(0.2):
                container["ports"] = [{"containerPort": 80, "hostPort": rng.choice([8080, 9090])}]
            spec["initContainers"].append(container)
        if self.chance(0.3):
            spec["runtimeClassName"] = "heavy"
        if self.chance(0.3):
            # At least what the containers ask for, or it is refused.
            spec["resources"] = {"requests": {"cpu": rng.choice(["6", "7"])}}
            if self.chance(0.5):
                spec["resources"]["requests"]["memory"] = "12Gi"
            if self.chance(0.5):
                spec["resources"]["limits"] = {"cpu": "8", "memory": "13Gi"}

    def node_selector(self, pod: Object) -> None:
        pod["spec"]["nodeSelector"] = self.rng.choice(
            [{"disk": "ssd"}, {ZONE: "a"}, {"disk": "hdd", ZONE: "b"}, {"nope": "x"}, {}, {HOSTNAME: "n1"}]
        )

    def node_affinity(self, pod: Object) -> None:
        terms = [self.node_term() for _ in range(self.rng.randint(1, 3))]
        if self.chance(0.35):
            terms = [
                {
                    "matchFields": [
                        {
                            "key": "metadata.name",
                            "operator": "In",
                            "values": [self.rng.choice(["n0", "n1", "n9"])],
                        }
                    ]
                }
                for _ in range(self.rng.randint(1, 2))
            ]
            if self.chance(0.5):
                terms[0]["matchFields"].append(
                    {"key": "metadata.name", "operator": "In", "values": [self.rng.choice(["n0", "n1"])]}
                )
            if self.chance(0.3):
                terms[0]["matchExpressions"] = [self.expression()]
        affinity = pod["spec"].setdefault("affinity", {})
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
        if self.chance(0.3):
            affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": 10, "preference": {"matchExpressions": [self.expression()]}}
            ]

    def node_term(self) -> Object:
        if self.chance(0.05):
            return {}
        term: Object = {"matchExpressions": [self.expression() for _ in range(self.rng.randint(1, 2))]}
        if self.chance(0.1):
            term["matchFields"] = [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]
        return term

    def expression(self) -> Object:
        return self.rng.choice(
            [
                {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]},
                {"key": "disk", "operator": "NotIn", "values": ["hdd"]},
                {"key": ZONE, "operator": "In", "values": ["a", "b"]},
                {"key": ZONE, "operator": "Exists"},
                {"key": REGION, "operator": "DoesNotExist"},
                {"key": "rack", "operator": "Gt", "values": ["4"]},
                {"key": "rack", "operator": "Lt", "values": ["6"]},
                {"key": "rack", "operator": "Exists"},
            ]
        )

    def tolerations(self, pod: Object) -> None:
        pod["spec"]["tolerations"] = self.rng.choice(
            [
                [{"operator": "Exists"}],
                [{"key": "size", "operator": "Exists"}],
                [{"key": "size", "operator": "Equal", "value": "large", "effect": "NoSchedule"}],
                [
                    {"key": "spot", "operator": "Exists", "effect": "NoSchedule"},
                    {"key": "size", "value": "small"},
                ],
                [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}],
                [self.for_a_while(key="size", operator="Exists")],
                [self.for_a_while(key="size", value="small"), {"key": "spot", "operator": "Exists"}],
                [self.for_a_while(operator="Exists")],
            ]
        )

    def for_a_while(self, **toleration: str) -> Object:
        """A toleration that ends some time after the pod has started: where it may start is the same."""
        return {**toleration, "effect": "NoExecute", "tolerationSeconds": self.rng.choice([-1, 0, 30, 3600])}

    def gates(self, pod: Object) -> None:
        names = self.rng.sample(["example.com/quota", "example.com/approval"], self.rng.randint(1, 2))
        pod["spec"]["schedulingGates"] = [{"name": name} for name in names]

    def selector(self) -> Object | None:
        rng = self.rng
        return rng.choice(
            [
                {"matchLabels": {"app": rng.choice(APPS)}},
                {"matchLabels": {"app": rng.choice(APPS)}},
                {"matchExpressions": [{"key": "app", "operator": "In", "values": rng.sample(APPS, 2)}]},
                {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["front"]}]},
                {
                    "matchLabels": {"app": "web"},
                    "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}],
                },
                {},
                None,
            ]
        )

    def pod_term(self) -> Object:
        rng = self.rng
        term: Object = {"topologyKey": rng.choice(KEYS)}
        selector = self.selector()
        if selector is not None:
            term["labelSelector"] = selector
        if self.chance(0.25):
            term["namespaces"] = rng.sample(list(NAMESPACES), rng.randint(1, 2))
        if self.chance(0.25):
            term["namespaceSelector"] = rng.choice(
                [
                    {},
                    {"matchLabels": {"env": "prod"}},
                    {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]},
                    {"matchExpressions": [{"key": "env", "operator": "Exists"}]},
                ]
            )
        if selector is not None and self.chance(0.2):
            term[rng.choice(["matchLabelKeys", "mismatchLabelKeys"])] = ["pod-template-hash"]
        return term

    def pod_affinity(self, pod: Object, kinds: list[str] | None = None) -> None:
        rng = self.rng
        affinity = pod["spec"].setdefault("affinity", {})
        for kind in kinds or rng.choice(
            [["podAffinity"], ["podAntiAffinity"], ["podAffinity", "podAntiAffinity"]]
        ):
            found: Object = {}
            if self.chance(0.85):
                found["requiredDuringSchedulingIgnoredDuringExecution"] = [
                    self.pod_term() for _ in range(1 if self.chance(0.7) else 2)
                ]
            if self.chance(0.3):
                found["preferredDuringSchedulingIgnoredDuringExecution"] = [
                    {"weight": rng.randint(1, 100), "podAffinityTerm": self.pod_term()}
                ]
            affinity[kind] = found

    def spread(self, pod: Object) -> None:
        rng = self.rng
        constraints = {}
        for _ in range(1 if self.chance(0.7) else 2):
            when = "ScheduleAnyway" if self.chance(0.2) else "DoNotSchedule"
            constraint: Object = {
                "maxSkew": rng.choice([1, 1, 2]),
                "topologyKey": rng.choice(KEYS),
                "whenUnsatisfiable": when,
            }
            selector = self.selector()
            if selector is not None:
                constraint["labelSelector"] = selector
                if self.chance(0.2):
                    constraint["matchLabelKeys"] = ["pod-template-hash"]
            if when == "DoNotSchedule" and self.chance(0.3):
                constraint["minDomains"] = rng.randint(1, 4)
            if self.chance(0.3):
                constraint["nodeAffinityPolicy"] = rng.choice(["Honor", "Ignore"])
            if self.chance(0.4):
                constraint["nodeTaintsPolicy"] = rng.choice(["Honor", "Ignore"])
            constraints[constraint["topologyKey"], when] = constraint
        pod["spec"]["topologySpreadConstraints"] = list(constraints.values())

    def ports(self, pod: Object) -> None:
        rng = self.rng
        ports = {}
        for _ in range(rng.randint(1, 2)):
            port: Object = {"containerPort": 80, "hostPort": rng.choice([8080, 9090])}
            if self.chance(0.4):
                port["protocol"] = "UDP"
            if self.chance(0.5):
                port["hostIP"] = rng.choice(["10.0.0.1", "10.0.0.2", "0.0.0.0", "::"])
            ports[port["hostPort"], port.get("protocol", "TCP")] = port
        pod["spec"]["containers"][0]["ports"] = list(ports.values())

    def features(self, pod: Object) -> None:
        if self.chance(0.5):
            pod["spec"]["hostNetwork"] = True
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": 7070}]
        else:
            pod["spec"]["containers"][0]["restartPolicy"] = "Never"
            pod["spec"]["containers"][0]["restartPolicyRules"] = [
                {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
            ]
