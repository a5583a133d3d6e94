"""What may be in a scenario's file, as a JSON Schema: for editors, and for the reference page.

The schema is made from the structs, so it is never behind them; what a field means is said here in a
sentence, and a field without one is an error.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import FieldInfo

from fairlead.nodegroups.file import GroupFields
from fairlead.policy.rule.model import PolicySpec
from fairlead.simulation.scenario.model import (
    Arrivals,
    AutoscalerSection,
    Fault,
    Market,
    Metadata,
    Natural,
    Planning,
    PodShape,
    ScaleStep,
    Scenario,
    Span,
    Spec,
    Workload,
)

SENTENCES: dict[type[msgspec.Struct], dict[str, str]] = {
    Scenario: {
        "apiVersion": "The version of the format.",
        "kind": "What the document is.",
        "metadata": "What the scenario is called, and what it shows.",
        "spec": "What is played.",
    },
    Metadata: {
        "name": "The scenario's name, in results and reports.",
        "description": "What the scenario shows, for readers.",
    },
    Spec: {
        "duration": "How long is played, in virtual time.",
        "seed": "Everything random is drawn from it: the same seed gives the same result, to the byte.",
        "sampleEvery": "How often the values over time are noted; left out, 240 times in all.",
        "scheduler": "The schedulerName of pods that do not say their own: fairlead or default-scheduler.",
        "components": "Fairlead's components that act.",
        "planning": "The scheduler's configuration.",
        "nodeGroups": "The nodes: groups as in a file of node groups, and nodes, a fixed number of them.",
        "autoscaler": "An autoscaler that adds nodes to groups for pending pods, and removes idle ones.",
        "workloads": "Services: replicas that a controller keeps up.",
        "arrivals": "Batch work that comes over time, each with its run time.",
        "policies": "Placement policies, as metadata and spec of a PlacementPolicy.",
        "markets": "How many nodes of spot groups can be had over time.",
        "spotNotice": "How long before it is taken away a spot node gets its notice.",
        "faults": "What happens to nodes, and when.",
        "objects": "Files of Kubernetes objects that are there at the beginning, relative to this file.",
    },
    PodShape: {
        "name": "The name, which no other workload or stream of arrivals has.",
        "namespace": "The namespace of its pods.",
        "requests": "What each pod asks for, by resource.",
        "labels": "Labels of its pods.",
        "annotations": "Annotations of its pods.",
        "nodeSelector": "Labels that a node must have.",
        "priority": "The priority of its pods; the PriorityClass is made.",
        "scheduler": "The schedulerName of its pods, instead of the scenario's.",
        "spec": "Fields of a pod's spec, which win over what the fields above make.",
    },
    Workload: {
        "kind": "The controller that keeps the replicas up.",
        "replicas": "How many pods it has.",
        "minAvailable": "How many pods, or which share of them, must be ready: what availability is measured "
        "against, and its PodDisruptionBudget.",
        "readyAfter": "How long a pod takes from its start until it is ready.",
        "scale": "Changes in the number of replicas.",
    },
    ScaleStep: {
        "at": "When the number changes, from the beginning.",
        "replicas": "The new number of replicas.",
    },
    Arrivals: {
        "at": "The times at which one comes, from the beginning.",
        "every": "One comes this often, the first at start.",
        "perHour": "So many come per hour on average, at random.",
        "trace": "A CSV file, relative to this one: when each comes, for how long, what it asks for.",
        "start": "None come before this time; the times of a trace count from here.",
        "until": "None come after this time.",
        "count": "At most this many come.",
        "pods": "How many pods each has; more than one are a gang, which starts together.",
        "runsFor": "How long each runs once it has started, or how long on average.",
        "runTimes": "Whether all run equally long, or as long as is drawn at random around that average.",
        "recreate": "Whether a pod that is evicted comes again and runs from its beginning.",
    },
    Market: {
        "groups": "The node groups that come and go together.",
        "zone": "The zone of these groups that the market is for; left out, all.",
        "trace": "A JSON file with the nodes that could be had at each probe, relative to this file.",
        "skip": "Where in the trace to begin.",
        "scale": "How many nodes each node of the trace stands for.",
        "up": "How long nodes can be had on average, where no trace says so.",
        "down": "How long none can be had on average.",
        "nodes": "How many can be had while there are any; left out, the group's max.",
    },
    Fault: {
        "at": "When it happens, from the beginning.",
        "action": "What happens: kill silences a node's machine and revive brings it back, remove takes the "
        "node away, drain evicts its pods within their budgets, cordon and uncordon, loseZone takes away a "
        "zone's nodes.",
        "node": "The node it happens to: the nodes of a group are called GROUP-1, GROUP-2, and so on.",
        "zone": "The zone that loseZone takes away.",
    },
    AutoscalerSection: {
        "scan": "How often it looks for pending pods and idle nodes.",
        "scaleDownAfter": "How long a node must be idle before it is removed.",
        "delayAfterAdd": "How long no node is removed after one was added.",
    },
    Planning: {
        "ranking": "Which of the nodes that fit is best: spread prefers much room, pack little.",
        "order": "The order of what waits at equal priority: smallest first, or fifo.",
        "capacity": "exclusive: one pod of Fairlead's per node.",
        "reserveAfter": "After waiting this long, the oldest unit held has nodes reserved for it.",
        "settle": "A gang's size that follows from its owners is believed after this long without a change.",
    },
}
"""What each field means, by the struct that has it; what a struct inherits is said once."""

GROUP_SENTENCES: dict[str, str] = {
    "name": "The group's name; its nodes are called NAME-1, NAME-2, and so on.",
    "nodes": "How many nodes it has from the beginning on; instead of min, desired and max.",
    "instanceTypes": "Instance types of AWS, which say what a node has.",
    "resources": "What each node has, by resource; cpu and memory are needed where no instance type says so.",
    "labels": "Labels of its nodes.",
    "taints": "Taints of its nodes, as key=value:Effect.",
    "zones": "The zones of its nodes, which are taken in turn.",
    "min": "The fewest nodes that an autoscaler leaves.",
    "desired": "How many nodes it has at the beginning; left out, min.",
    "max": "The most nodes that an autoscaler makes.",
    "pricePerHour": "What one node costs per hour.",
    "bootTime": "How long a new node takes until it is ready.",
    "volatile": "Whether its nodes can be taken away at any time (spot).",
}
"""What each field of a node group means."""

_SPAN = {
    "type": ["string", "number"],
    "pattern": r"^\s*((\d+(\.\d+)?w)?(\d+(\.\d+)?d)?((\d+(\.\d+)?)(ms|s|m|h))*)\s*$",
    "minimum": 0,
    "description": "A duration like 90s, 10m, 1h30m or 7d; a number is seconds.",
}


def sentence_of(kind: type[msgspec.Struct], field: FieldInfo) -> str:
    """What a field of a struct means."""
    for base in kind.__mro__:
        found = SENTENCES.get(base, {}).get(field.encode_name)
        if found is not None:
            return found
    raise LookupError(f"{__name__}.SENTENCES does not say what {kind.__name__}.{field.encode_name} means")


def default_of(field: FieldInfo) -> Any:
    """What a field has when it is left out, as the file spells it; None for nothing."""
    factory = field.default_factory
    found = factory() if factory is not msgspec.NODEFAULT else field.default
    if isinstance(found, Span):
        return f"{found:g}s"
    if found is msgspec.NODEFAULT or isinstance(found, msgspec.Struct):
        return None
    return list(found) if isinstance(found, tuple) else found


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a scenario's file."""
    kinds = (Scenario, GroupFields, PolicySpec)
    (root, group, policy), parts = msgspec.json.schema_components(
        kinds, schema_hook=_schema_of, ref_template="#/$defs/{name}"
    )
    for kind in SENTENCES:
        part = parts.get(kind.__name__)  # what others are made from is no part of the file itself
        for one in msgspec.structs.fields(kind) if part is not None else ():
            about = _described(parts[kind.__name__]["properties"][one.encode_name], sentence_of(kind, one))
            if (default := default_of(one)) is not None:
                about["default"] = default
            parts[kind.__name__]["properties"][one.encode_name] = about
    fields = parts[GroupFields.__name__]["properties"]
    fields["nodes"] = msgspec.json.schema(Natural)
    fields["pricePerHour"] = {"type": ["number", "string"]}
    for field, about in fields.items():
        fields[field] = _described(about, GROUP_SENTENCES[field])
    spec = parts[Spec.__name__]["properties"]
    spec["nodeGroups"]["items"] = group
    spec["policies"]["items"] = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "required": ["name"]},
            "spec": policy,
        },
        "required": ["metadata", "spec"],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A scenario of fairlead simulate",
        **root,
        "$defs": parts,
    }


def _described(about: dict[str, Any], sentence: str) -> dict[str, Any]:
    """A field's schema with what it means, which goes before what its type is."""
    return {**{key: value for key, value in about.items() if key != "description"}, "description": sentence}


def _schema_of(kind: type) -> dict[str, Any]:
    if kind is Span:
        return dict(_SPAN)
    raise NotImplementedError(f"no schema for {kind.__name__}")
