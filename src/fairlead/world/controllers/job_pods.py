"""Which pods a Job starts and which it gives up."""

from __future__ import annotations

from fairlead.world.controllers.deletion_order import by_startup_order
from fairlead.world.controllers.job_look import FINALIZER, INDEX, Look, completion_index, only_failed
from fairlead.world.controllers.objects import is_active, pod_from_template, terminating
from fairlead.world.controllers.writes import Create, Emit, Obj, Write

__all__ = ["creations", "too_many"]

_COMPONENT = "job-controller"
_BURST = 500


def too_many(look: Look) -> list[Obj]:
    """Active pods beyond what is wanted; of an Indexed Job also doubles and strays, whatever the number."""
    surplus = max(0, len(look.active) - _wanted(look))
    chosen: list[Obj] = []
    left = list(look.active)
    if look.indexed:
        seen: dict[int, Obj] = {}
        left = []
        completions = look.job["spec"].get("completions") or 0
        # The most advanced pod of an index stays.
        for pod in reversed(by_startup_order(look.active)):
            index = completion_index(pod)
            if index is None or index >= completions or index in seen:
                chosen.append(pod)
            else:
                seen[index] = pod
                left.append(pod)
    if len(chosen) < surplus:
        chosen += by_startup_order(left)[: surplus - len(chosen)]
    return chosen[:_BURST]


def creations(look: Look) -> list[Create]:
    """The pods that are missing."""
    leaving = look.terminating if only_failed(look.job) else 0
    missing = min(_wanted(look) - len(look.active) - leaving, _BURST)
    if missing <= 0:
        return []
    if not look.indexed:
        return [_creation(look.job, None)] * missing
    return [_creation(look.job, index) for index in _open_indexes(look)[:missing]]


def _wanted(look: Look) -> int:
    if look.suspended:
        return 0
    spec = look.job["spec"]
    parallelism = spec.get("parallelism", 1)
    if spec.get("completions") is None:
        # A work queue: the first success means there is no more work to hand out.
        return len(look.active) if look.succeeded > 0 else int(parallelism)
    return max(0, min(int(spec["completions"]) - look.succeeded, int(parallelism)))


def _open_indexes(look: Look) -> list[int]:
    only = only_failed(look.job)
    taken = [completion_index(pod) for pod in look.pods if is_active(pod) or (only and terminating(pod))]
    done = look.succeeded_indexes
    return [i for i in range(look.job["spec"].get("completions") or 0) if i not in done and i not in taken]


def _creation(job: Obj, index: int | None) -> Create:
    pod = pod_from_template(job["spec"]["template"], job)
    metadata = pod["metadata"]
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), FINALIZER]
    if index is not None:
        name = job["metadata"]["name"]
        metadata["generateName"] = f"{name}-{index}-"
        metadata["annotations"][INDEX] = str(index)
        metadata["labels"][INDEX] = str(index)
        spec = pod["spec"]
        pod["spec"] = {
            **spec,
            "hostname": f"{name}-{index}",
            "containers": [_with_index(each) for each in spec["containers"]],
            **(
                {"initContainers": [_with_index(each) for each in spec["initContainers"]]}
                if spec.get("initContainers")
                else {}
            ),
        }

    def created(made: Obj) -> list[Write]:
        return [Emit(job, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}", _COMPONENT)]

    return Create(pod, created)


def _with_index(container: Obj) -> Obj:
    name = "JOB_COMPLETION_INDEX"
    env = container.get("env") or []
    if any(each["name"] == name for each in env):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*env, {"name": name, "valueFrom": source}]}
