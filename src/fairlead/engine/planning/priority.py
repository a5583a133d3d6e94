"""A pod's priority: annotation `priority`, else ``spec.priority``, else 0.

The subtle thing: the annotation side-steps PriorityClass quota, so it may be honoured only in some
namespaces and only up to a cap; a value that is malformed, too high or in another namespace never stops
the pod, it is reported and replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from fairlead.kube.pod import Pod
from fairlead.kube.selectors import LabelSelector, matches, selector_text

ANNOTATION = "priority"

# Kubernetes' own system classes start here; such a pod is never a victim, whatever the preemptor.
UNTOUCHABLE = 2_000_000_000

HIGHEST = 1_000_000_000
"""What a PriorityClass of a user may have at most; above are Kubernetes' own."""

LOWEST = -(2**31)
"""What a priority is at least: it is an int32."""


class PriorityAnnotation(msgspec.Struct, frozen=True):
    """Where the annotation is honoured (None: everywhere) and how high it may reach."""

    namespace_selector: LabelSelector | None = None
    max: int = HIGHEST


class Priority(msgspec.Struct, frozen=True):
    """The priority that counts and, when the annotation was not taken as it stands, why."""

    value: int
    problem: str = ""


def priority_of(
    pod: Pod, annotation: PriorityAnnotation | None = None, namespace_labels: Mapping[str, str] | None = None
) -> Priority:
    """The priority that counts for `pod`.

    `namespace_labels` None: the namespace has not been seen. Its annotations are not honoured then, and
    nothing is reported yet: a watch may show a pod before its namespace.

    >>> from fairlead.kube.meta import ObjectMeta
    >>> priority_of(Pod(metadata=ObjectMeta(annotations={"priority": "7"}))).value
    7
    """
    declared = pod.spec.priority or 0
    text = pod.metadata.annotations.get(ANNOTATION)
    if text is None:
        return Priority(declared)
    limits = annotation or _EVERYWHERE
    selector = limits.namespace_selector
    if selector is not None and not selector.empty:
        if namespace_labels is None:
            return Priority(declared)
        if not matches(selector, namespace_labels):
            namespace = pod.metadata.namespace
            return Priority(
                declared,
                f"annotation {ANNOTATION} is ignored in namespace {namespace}: use a PriorityClass, or label "
                f"the namespace so that it matches {selector_text(selector)}; using {declared}",
            )
    if re.fullmatch(r"\s*[+-]?\d{1,20}\s*", text, re.ASCII) is None or int(text) < LOWEST:
        return Priority(
            declared, f"annotation {ANNOTATION}: {_shown(text)} is not an integer; using {declared}"
        )
    wanted = int(text)
    if wanted > limits.max:
        return Priority(limits.max, f"annotation {ANNOTATION}: {wanted} is above the cap; using {limits.max}")
    return Priority(wanted)


def may_be_victim(priority: int, preemptor: int) -> bool:
    """Whether a pod of `priority` may be evicted for one of `preemptor`."""
    return priority < preemptor and priority < UNTOUCHABLE


_EVERYWHERE = PriorityAnnotation()


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")
