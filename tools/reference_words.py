# ruff: noqa: E501 (a line for each, however long)
"""What the reference pages say of fields, labels and event reasons; `tools.reference` finds these in the code."""

from __future__ import annotations

__all__ = ["FIELDS", "LABELS", "REASONS"]

FIELDS = {
    "kubeconfig": "Path to the kubeconfig file; empty: the usual ones, or the pod's service account.",
    "context": "Context of the kubeconfig to use instead of the current one.",
    "schedulerNames": "Schedule pods with one of these `schedulerName`s.",
    "namespaces": "Schedule only pods of these namespaces; other pods still count. Empty: all.",
    "systemNamespace": "Namespace of the Lease and other objects of Fairlead's own.",
    "capacity": "`exclusive`: one Fairlead pod per node.",
    "ranking": "`spread` puts pods on nodes with much room, `pack` on nodes that are full already.",
    "listen": "Address and port of `/livez`, `/readyz` and `/metrics`; empty: no port.",
    "policies": "YAML file of policies to use in addition to the cluster's.",
    "inFlight": "Maximum number of concurrent binds.",
    "queue.order": "Order of units of equal priority: `smallest` first, or `fifo`.",
    "queue.reserveAfter": "The oldest unit held for longer than this has nodes reserved for it.",
    "queue.backoff": "First wait before a unit that did not fit is tried again; doubles.",
    "queue.backoffMax": "Longest such wait.",
    "gangs.settle": "A gang's size that follows from its owners is believed after this long without a change.",
    "gangs.commitTimeout": "A partly bound gang that is not complete after this long is released.",
    "preemption.evict": "Evict through the eviction API, or by deletion as kube-scheduler does.",
    "preemption.pdb": "Whether evictions must stay within PodDisruptionBudgets.",
    "preemption.others": "Whether pods of other schedulers may be evicted.",
    "preemption.timeout": "A nomination whose victims are not gone after this long is given up.",
    "preemption.retry": "Wait before an eviction that was refused is tried again.",
    "priorityAnnotation.namespaceSelector": "Honour the annotation `priority` in namespaces with these labels.",
    "priorityAnnotation.max": "The highest priority that the annotation can give.",
    "leaderElection.enabled": "Schedule only while holding the Lease.",
    "leaderElection.leaseName": "Name of the Lease.",
    "leaderElection.leaseDuration": "A standby takes over when the Lease was not renewed for this long.",
    "leaderElection.renewDeadline": "A leader that could not renew for this long stops writing.",
    "leaderElection.retryPeriod": "Time between tries to acquire or renew.",
    "record.file": "Write a recording for `fairlead replay`; empty: none.",
    "record.segmentBytes": "Size at which a segment of the recording is closed.",
    "record.segments": "How many segments are kept.",
    "rebuild.delay": "Wait before everything is listed again after an error in the scheduler's state.",
    "rebuild.interval": "Shortest time between two such lists.",
    "drift.interval": "How often the scheduler's state is compared with the API; 0: never.",
    "drift.settle": "A difference counts once it has lasted this long.",
    "drift.tolerated": "With more differences than this, everything is listed again.",
}

LABELS = {
    "Set by users": {
        "priority": "Annotation of pods: their priority, before `spec.priority`. Where it counts is configured.",
        "pod-group": "Annotation or label of pods: the gang's name.",
        "pod-group-min-member": "Annotation of pods: how many members start together.",
        "fairlead.dev/capacity": "Annotation of pods: `exclusive` for one pod per node.",
        "fairlead.dev/exclusive": "Label of pods: says the same to autoscalers and kube-scheduler, by anti-affinity.",
        "fairlead.dev/replicas": "Label of workloads, or of pod templates: `single` or `multiple` overrides inference.",
        "fairlead.dev/price-per-hour": "Label of nodes: what one costs.",
        "fairlead.dev/node-group": "Label of nodes: their node group, on simulated nodes.",
        "fairlead.dev/rotate": "Annotation of Secret `fairlead-webhook-ca`: a new value has another authority made.",
    },
    "Set by Fairlead": {
        "fairlead.dev/dev": "In a kubeconfig: marks the entries that `fairlead dev up` added.",
        "fairlead.dev/policy": "Annotation of pods: the policy that governs it.",
        "fairlead.dev/slot": "Annotation of pods: its slot in its group.",
        "fairlead.dev/tier": "Annotation of pods: the tier of that slot.",
        "fairlead.dev/slot-token": "Annotation of pods: ties the slot to its line in the PlacementLedger.",
        "fairlead.dev/passed-on": "Annotation of pods: tiers that were passed over.",
        "fairlead.dev/gang-minimum": "Annotation of pods: the minimum with which its gang started.",
        "fairlead.dev/Evicted": "Condition of pods: its gang is evicted as a whole.",
        "fairlead.dev/in-no-tier": "A term that no node matches, for a pod that no tier may take.",
        "fairlead.dev/rotated": "Annotation of Secret `fairlead-webhook-ca`: the rotation that was done last.",
        "fairlead.dev/rotation-step": "Annotation of Secret `fairlead-webhook-ca`: how far a rotation is.",
        "fairlead.dev/schema-version": "Annotation of our CustomResourceDefinitions.",
        "fairlead.dev/depends-on": "Annotation of a tenant's objects: what must be ready before them.",
        "fairlead.dev/tenant": "Label of a tenant's objects: its name.",
        "fairlead.dev/tenant-type": "Label of a tenant's objects: its type.",
        "fairlead.dev/further-kinds": "Annotation of a tenant's ServiceAccount: kinds of its further objects.",
        "fairlead.dev/config-checksum": "Annotation of a tenant's pods: restarts them when its configuration changes.",
    },
    "On the embedded cluster only": {
        "fairlead.dev/run-for": "Annotation of pods: they complete after this long.",
        "fairlead.dev/exit-code": "Annotation of pods: with which exit code.",
        "fairlead.dev/ready-after": "Annotation of pods: they are Ready after this long.",
        "fairlead.dev/interruption": "A spot node's notice that it will be taken away.",
        "fairlead.dev/world": "The provisioner of the embedded cluster's volumes.",
    },
}

REASONS = {
    "Scheduled": ("Normal", "The pod was bound to a node.", ""),
    "FailedScheduling": (
        "Warning",
        "No node takes the pod, or it cannot be used; the message is kube-scheduler's.",
        "`fairlead explain`",
    ),
    "WaitingForGang": (
        "Normal",
        "Members of the gang are missing, or its size is not settled.",
        "the missing members",
    ),
    "Rebalanced": (
        "Normal",
        "The pod was evicted so that its replacement goes to the tier where it belongs.",
        "",
    ),
    "GangIncomplete": (
        "Warning",
        "A partly bound gang could not be completed; its members are released or kept.",
        "the room that the gang needs",
    ),
    "Preempted": ("Normal", "The pod was evicted for one of higher priority, which is named.", ""),
    "PreemptionRefused": (
        "Warning",
        "An eviction was refused for good.",
        "the PodDisruptionBudgets of the victim",
    ),
    "PriorityAnnotation": (
        "Warning",
        "The annotation `priority` is ignored, malformed or too high.",
        "the label that the message names",
    ),
    "ExclusiveUnseen": (
        "Warning",
        "Only Fairlead knows that the pod wants a node of its own; autoscalers do not.",
        "the label and anti-affinity that the message names",
    ),
    "WaitsForTier": (
        "Warning",
        "A pod waits for a tier that takes no pods now.",
        "the tier's nodes, or `fallback: true`",
    ),
    "PassedOn": ("Normal", "A pending pod was deleted so that its replacement goes to the next tier.", ""),
}
