"""Workload controllers: defaults of their specs and templates, what an update may not change."""

from __future__ import annotations

from typing import Any

from fairlead.world.schema.pods import default_pod_spec

__all__ = [
    "default_cron_job",
    "default_daemon_set",
    "default_deployment",
    "default_job",
    "default_pod_template",
    "default_replica_set",
    "default_replication_controller",
    "default_stateful_set",
    "job_on_create",
]

Object = dict[str, Any]


def default_pod_template(item: Object) -> None:
    """Fill a PodTemplate's defaults."""
    _default_template(item)


def default_deployment(item: Object) -> None:
    """Fill a Deployment's defaults."""
    spec = item["spec"]
    _default_template(spec)
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


def default_replica_set(item: Object) -> None:
    """Fill a ReplicaSet's defaults."""
    _default_template(item["spec"])
    item["spec"].setdefault("replicas", 1)


def default_replication_controller(item: Object) -> None:
    """Fill a ReplicationController's defaults: its labels and selector are its template's."""
    default_replica_set(item)
    labels = item["spec"].get("template", {}).get("metadata", {}).get("labels")
    if labels:
        item["spec"].setdefault("selector", dict(labels))
        item["metadata"].setdefault("labels", dict(labels))


def default_stateful_set(item: Object) -> None:
    """Fill a StatefulSet's defaults."""
    spec = item["spec"]
    _default_template(spec)
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    update = spec.setdefault("updateStrategy", {})
    if update.setdefault("type", "RollingUpdate") == "RollingUpdate":
        update.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    for claim in spec.get("volumeClaimTemplates") or ():
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        claim["spec"].setdefault("volumeMode", "Filesystem")
        claim["status"] = {"phase": "Pending"}


def default_daemon_set(item: Object) -> None:
    """Fill a DaemonSet's defaults."""
    spec = item["spec"]
    _default_template(spec)
    spec.setdefault("revisionHistoryLimit", 10)
    update = spec.setdefault("updateStrategy", {})
    if update.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = update.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)


def default_job(item: Object) -> None:
    """Fill a Job's defaults."""
    _default_job_spec(item["spec"])
    labels = item["spec"]["template"].get("metadata", {}).get("labels")
    if labels:
        item["metadata"].setdefault("labels", dict(labels))


def default_cron_job(item: Object) -> None:
    """Fill a CronJob's defaults."""
    spec = item["spec"]
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    _default_template(spec.get("jobTemplate", {}).get("spec", {}))


def job_on_create(item: Object) -> None:
    """Give a Job its selector and its pods their labels, unless its creator chose them.

    Named after the Job's uid, which is known only now.
    """
    spec = item["spec"]
    if spec.get("manualSelector"):
        return
    uid, name = item["metadata"]["uid"], item["metadata"]["name"]
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    for key, value in (
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
        ("controller-uid", uid),
        ("job-name", name),
    ):
        labels[key] = value
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = uid
    item["metadata"].setdefault("labels", dict(labels))


def _default_job_spec(spec: Object) -> None:
    _default_template(spec)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    replacing = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", replacing)
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern.setdefault("status", "True")


def _default_template(spec: Object) -> None:
    if "template" in spec:
        default_pod_spec(spec["template"].setdefault("spec", {}))
