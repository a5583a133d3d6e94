"""What watches show over time: when something was first so, and what pods say of themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.wire import Watch

__all__ = ["first", "has_node", "history", "is_marked", "marked_because", "version"]

Manifest = dict[str, Any]


def history(watch: Watch, holds: Callable[[Manifest], bool], number: int) -> list[Manifest]:
    """All that is seen until so many objects have been seen so."""
    items: list[Manifest] = []
    while len(first(items, holds)) < number:
        items.append(watch.next()["object"])
    return items


def first(items: list[Manifest], holds: Callable[[Manifest], bool]) -> dict[str, int]:
    """The version at which each object was first so; versions order all that happens in a cluster."""
    found: dict[str, int] = {}
    for item in items:
        if holds(item):
            found.setdefault(item["metadata"]["name"], version(item))
    return found


def version(item: Manifest) -> int:
    return int(item["metadata"]["resourceVersion"])


def has_node(pod: Manifest) -> bool:
    return bool(pod["spec"].get("nodeName"))


def marked_because(pod: Manifest) -> str:
    """Why a pod is Unschedulable, in the terms that autoscalers read; "" when it is not."""
    for one in pod["status"].get("conditions", []):
        if (one["type"], one["status"], one.get("reason")) == ("PodScheduled", "False", "Unschedulable"):
            return str(one["message"])
    return ""


def is_marked(pod: Manifest) -> bool:
    return bool(marked_because(pod))
