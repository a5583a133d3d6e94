"""The rows of workloads: how many are wanted, how many are there."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fairlead.world.conditions import condition_of
from fairlead.world.tables.columns import (
    Printer,
    age,
    age_of,
    columns,
    containers,
    count_in,
    human,
    labels,
    name_of,
    selector,
)
from fairlead.world.timestamps import parse

__all__ = ["WORKLOADS"]

Object = dict[str, Any]


def _template(item: Object) -> Object:
    template: Object = item["spec"].get("template", {}).get("spec", {})
    return template


def _deployment(item: Object, now: datetime) -> list[Any]:
    return [
        name_of(item),
        f"{count_in(item, 'readyReplicas')}/{item['spec'].get('replicas', 0)}",
        count_in(item, "updatedReplicas"),
        count_in(item, "availableReplicas"),
        age_of(item, now),
        *containers(_template(item)),
        selector(item["spec"].get("selector")),
    ]


def _replica_set(item: Object, now: datetime) -> list[Any]:
    chosen = item["spec"].get("selector")
    return [
        name_of(item),
        item["spec"].get("replicas", 0),
        count_in(item, "replicas"),
        count_in(item, "readyReplicas"),
        age_of(item, now),
        *containers(_template(item)),
        labels(chosen) if item["kind"] == "ReplicationController" else selector(chosen),
    ]


def _stateful_set(item: Object, now: datetime) -> list[Any]:
    ready = f"{count_in(item, 'readyReplicas')}/{item['spec'].get('replicas', 0)}"
    return [name_of(item), ready, age_of(item, now), *containers(_template(item))]


def _daemon_set(item: Object, now: datetime) -> list[Any]:
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        name_of(item),
        *(count_in(item, field) for field in counts),
        labels(_template(item).get("nodeSelector")),
        age_of(item, now),
        *containers(_template(item)),
        selector(item["spec"].get("selector")),
    ]


_JOB_STATES = (("Complete", "Complete"), ("Failed", "Failed"))
_JOB_LATER = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _job_state(item: Object) -> str:
    def holds(kind: str) -> bool:
        condition = condition_of(item, kind)
        return condition is not None and condition.get("status") == "True"

    for kind, word in _JOB_STATES:
        if holds(kind):
            return word
    if item["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((kind for kind in _JOB_LATER if holds(kind)), "Running")


def _job(item: Object, now: datetime) -> list[Any]:
    spec, status = item["spec"], item.get("status") or {}
    done = status.get("succeeded", 0)
    parallelism = spec.get("parallelism", 0)
    if "completions" in spec:
        completions = f"{done}/{spec['completions']}"
    else:
        completions = f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"
    took = ""
    if status.get("startTime"):
        end = parse(status["completionTime"]) if status.get("completionTime") else now
        took = human(end - parse(status["startTime"]))
    return [
        name_of(item),
        _job_state(item),
        completions,
        took,
        age_of(item, now),
        *containers(_template(item)),
        selector(spec.get("selector")),
    ]


def _cron_job(item: Object, now: datetime) -> list[Any]:
    spec, status = item["spec"], item.get("status") or {}
    last = status.get("lastScheduleTime")
    return [
        name_of(item),
        spec.get("schedule", ""),
        spec.get("timeZone") or "<none>",
        str(spec.get("suspend", False)),
        len(status.get("active") or ()),
        age(last, now) if last else "<none>",
        age_of(item, now),
        *containers(_template(spec.get("jobTemplate", {"spec": {}}))),
        selector(spec.get("jobTemplate", {}).get("spec", {}).get("selector")),
    ]


def _revision(item: Object, now: datetime) -> list[Any]:
    owner = next(
        (each for each in item["metadata"].get("ownerReferences") or () if each.get("controller")), None
    )
    shown = f"{_resource_of(owner)}/{owner['name']}" if owner else "<none>"
    return [name_of(item), shown, item.get("revision", 0), age_of(item, now)]


def _resource_of(owner: Object) -> str:
    group = owner["apiVersion"].rpartition("/")[0]
    return f"{owner['kind'].lower()}.{group}" if group else str(owner["kind"].lower())


_TEMPLATED = ("Containers", "Images", "Selector")

WORKLOADS: dict[str, Printer] = {
    "deployments.apps": Printer(
        columns("Name", "Ready", "Up-to-date", "Available", "Age", wide=_TEMPLATED), _deployment
    ),
    "replicasets.apps": Printer(
        columns("Name", "Desired:integer", "Current:integer", "Ready:integer", "Age", wide=_TEMPLATED),
        _replica_set,
    ),
    "replicationcontrollers": Printer(
        columns("Name", "Desired:integer", "Current:integer", "Ready:integer", "Age", wide=_TEMPLATED),
        _replica_set,
    ),
    "statefulsets.apps": Printer(
        columns("Name", "Ready", "Age", wide=("Containers", "Images")), _stateful_set
    ),
    "daemonsets.apps": Printer(
        columns(
            "Name",
            "Desired:integer",
            "Current:integer",
            "Ready:integer",
            "Up-to-date:integer",
            "Available:integer",
            "Node Selector",
            "Age",
            wide=_TEMPLATED,
        ),
        _daemon_set,
    ),
    "controllerrevisions.apps": Printer(columns("Name", "Controller", "Revision", "Age"), _revision),
    "jobs.batch": Printer(columns("Name", "Status", "Completions", "Duration", "Age", wide=_TEMPLATED), _job),
    "cronjobs.batch": Printer(
        columns(
            "Name",
            "Schedule",
            "Timezone",
            "Suspend:boolean",
            "Active:integer",
            "Last Schedule",
            "Age",
            wide=_TEMPLATED,
        ),
        _cron_job,
    ),
}
