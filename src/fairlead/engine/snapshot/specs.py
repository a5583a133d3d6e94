"""What the rules read of a pod's spec, compiled once per distinct spec.

Terms and selectors are given the form in which they are matched: namespaces resolved, the labels that
``matchLabelKeys`` names merged in (the API server does it too; doing it twice changes nothing).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from fairlead.engine.snapshot.counts import PodSelector, Scope
from fairlead.engine.snapshot.masks import NodePredicate
from fairlead.engine.snapshot.requests import Requests, requests_of
from fairlead.kube.pod import Pod, PodAffinityTerm, PodSpec, Volume
from fairlead.kube.selectors import LabelSelector, Requirement, check_selector

# Labels that a controller makes different for each of its pods, and those that name a gang: equal gangs
# are placed in one run only when their pods are of one class.
UNIQUE_LABELS = frozenset(
    (
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "pod-group",
        "scheduling.k8s.io/group-name",
        "scheduling.volcano.sh/group-name",
        "scheduling.x-k8s.io/pod-group",
        "statefulset.kubernetes.io/pod-name",
    )
)

# One spelling per value: dicts in sorted order.
encode = msgspec.msgpack.Encoder(order="deterministic").encode

# A value that takes more bytes than this is known by their digest: specs with many terms take kilobytes.
_SPELT_OUT = 256


def identity(value: object) -> bytes:
    """What equal values, and only they, have in common."""
    spelling = encode(value)
    return spelling if len(spelling) <= _SPELT_OUT else blake2b(spelling, digest_size=32).digest()


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port taken on the node itself; an empty address is every address."""

    protocol: str
    port: int
    address: str


class SpecFacts:
    """What the rules read of a spec; `spec` is the one object that all its pods share, without nodeName."""

    def __init__(self, pod: Pod, spec: PodSpec) -> None:
        self.spec = spec
        self.requests: Requests = requests_of(pod)
        self.ports = tuple(sorted(set(_host_ports(spec)), key=lambda p: (p.protocol, p.port, p.address)))
        self.volumes: tuple[Volume, ...] = tuple(volume for volume in spec.volumes if _matters(volume))
        # A claim made for a volume is named after its pod: such pods are never alike.
        self.made_claims = any(volume.ephemeral is not None for volume in self.volumes)
        self.features = _features(spec)
        self.gates = tuple(gate.name for gate in spec.scheduling_gates)
        self.reads = frozenset(_label_keys(spec)) & UNIQUE_LABELS
        self.key = (
            self.requests,
            self.ports,
            self.features,
            self.gates,
            identity(
                (
                    spec.node_selector,
                    spec.affinity,
                    spec.tolerations,
                    spec.topology_spread_constraints,
                    self.volumes,
                    spec.resource_claims,
                    spec.workload_ref,
                )
            ),
        )


def required_nodes(spec: PodSpec) -> NodePredicate | None:
    """What the spec demands of nodes' labels and names, None when nothing."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    terms = affinity.required.node_selector_terms if affinity and affinity.required else None
    if not spec.node_selector and terms is None:
        return None
    return NodePredicate(tuple(sorted(spec.node_selector.items())), terms)


def target(pod: Pod, term: PodAffinityTerm, field: str) -> PodSelector:
    """The pods that an affinity term of `pod` speaks of."""
    selector = term.label_selector
    name = f"Pod {pod.metadata.key}"
    check_selector(name, f"spec.affinity.{field}.labelSelector", selector)
    check_selector(name, f"spec.affinity.{field}.namespaceSelector", term.namespace_selector)
    if selector is not None:
        selector = with_keys(selector, pod.metadata.labels, term.match_label_keys, term.mismatch_label_keys)
    names = frozenset(term.namespaces)
    if not names and term.namespace_selector is None:
        names = frozenset((pod.metadata.namespace,))
    return PodSelector(Scope(names, term.namespace_selector), selector)


def with_keys(
    selector: LabelSelector, labels: Mapping[str, str], same: tuple[str, ...], other: tuple[str, ...]
) -> LabelSelector:
    """The selector, narrowed to the pod's own value of the keys `same` and to others than its of `other`."""
    more = [Requirement(key, "In", (labels[key],)) for key in same if key in labels]
    more += [Requirement(key, "NotIn", (labels[key],)) for key in other if key in labels]
    if not more:
        return selector
    return LabelSelector(selector.match_labels, (*selector.match_expressions, *more))


def selector_key(selector: PodSelector) -> bytes:
    """A selector's identity."""
    return encode((sorted(selector.scope.names), selector.scope.selector, selector.selector))


def equality(selector: LabelSelector | None) -> tuple[str, str] | None:
    """A label that everything the selector matches has, if it demands one outright."""
    if selector is None:
        return None
    for item in selector.match_labels.items():
        return item
    for requirement in selector.match_expressions:
        if requirement.operator == "In" and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None


def _host_ports(spec: PodSpec) -> Iterator[HostPort]:
    # Plain init containers' ports do not count: they are gone before the pod runs.
    sidecars = (c for c in spec.init_containers if c.restart_policy == "Always")
    for container in (*sidecars, *spec.containers):
        for port in container.ports:
            # With the host's network every port is the host's; the API server says so in hostPort.
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number > 0:
                address = "" if port.host_ip == "0.0.0.0" else port.host_ip
                yield HostPort(port.protocol or "TCP", number, address)


def _matters(volume: Volume) -> bool:
    """Whether it has a source that a rule reads: all that are decoded, but for CSI's inline volumes."""
    return volume != Volume(name=volume.name, csi=volume.csi)


def _features(spec: PodSpec) -> tuple[str, ...]:
    """Names of the features that a node must declare to run the pod."""
    features = []
    for container in (*spec.containers, *spec.init_containers):
        if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules):
            features.append("RestartAllContainersOnContainerExits")
            break
    if spec.host_network and spec.host_users is False:
        features.append("UserNamespacesHostNetworkSupport")
    return tuple(features)


def _label_keys(spec: PodSpec) -> Iterator[str]:
    """The keys of pods' labels that the spec's selectors read."""
    selectors: list[LabelSelector | None] = []
    for constraint in spec.topology_spread_constraints:
        selectors.append(constraint.label_selector)
        yield from constraint.match_label_keys
    affinity = spec.affinity
    for pods in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
        if pods is None:
            continue
        for term in (*pods.required, *(weighted.pod_affinity_term for weighted in pods.preferred)):
            selectors.append(term.label_selector)
            yield from term.match_label_keys
            yield from term.mismatch_label_keys
    for selector in selectors:
        if selector is not None:
            yield from selector.match_labels
            for requirement in selector.match_expressions:
                yield requirement.key
