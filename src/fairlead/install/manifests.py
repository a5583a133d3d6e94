"""The shipped manifests, component by component: what kustomize would make of the folders of ``deploy/``.

Of a kustomization only what ours use is known: resources, and patches that add. A resource that was already
loaded is not loaded again, so that components share what they have in common. The namespace is written into
the text, before it is read, in every place that names it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fairlead.errors import BadInput

Obj = dict[str, Any]

NAMESPACE = "fairlead-system"
"""The namespace that the manifests name."""
DEPLOYMENTS = {
    "scheduler": "fairlead",
    **{name: f"fairlead-{name}" for name in ("webhook", "extender", "rebalance", "burst", "serve")},
}
"""Each component's Deployment, and its budget's name."""
NAME_LABEL = {"app.kubernetes.io/name": "fairlead"}
"""On every object of the manifests."""

_PACKAGE = Path(__file__).resolve().parents[1]


def shipped_text(path: str) -> str:
    """A shipped file: in the package where it was installed from a wheel, else in the source tree."""
    for base in (_PACKAGE, _PACKAGE.parents[1]):
        if (file := base / path).is_file():
            return file.read_text(encoding="utf-8")
    raise BadInput(f"no {_PACKAGE / path}: the installation of fairlead lacks its manifests")


@cache
def catalog() -> Obj:
    """What each component is made of: the chart's components.yaml."""
    found: Obj = _read(shipped_text("charts/fairlead/components.yaml"))[0]
    return found


def namespace_object(namespace: str) -> Obj:
    """The namespace to install into, as shipped."""
    (found,) = _read(shipped_text("deploy/namespace.yaml").replace(NAMESPACE, namespace))
    return found


class Loader:
    """Loads resources and patches, each once. `objects` are in the order in which they were loaded."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._seen: set[str] = set()
        self.objects: list[Obj] = []

    def load(self, path: str) -> None:
        """Load a manifest, or a folder with its kustomization."""
        path = posixpath.normpath(path)
        if path in self._seen:
            return
        self._seen.add(path)
        if path.endswith(".yaml"):
            self.objects += self._documents(path)
            return
        (kustomization,) = self._documents(f"{path}/kustomization.yaml")
        for resource in kustomization["resources"]:
            self.load(f"{path}/{resource}")
        for patch in kustomization.get("patches", ()):
            for one in self._targets(patch["target"]):
                for step in yaml.safe_load(patch["patch"]):
                    add(one, step["path"], step["value"])

    def _documents(self, path: str) -> list[Obj]:
        return _read(shipped_text(f"deploy/{path}").replace(NAMESPACE, self._namespace))

    def _targets(self, target: Mapping[str, str]) -> Iterable[Obj]:
        return [
            one
            for one in self.objects
            if one["kind"] == target["kind"] and one["metadata"]["name"] == target["name"]
        ]


def add(item: Obj, path: str, value: Any) -> None:
    """A JSON patch's ``add``, in place.

    >>> item = {"args": ["a"]}
    >>> add(item, "/args/-", "b"); add(item, "/notes", {}); add(item, "/notes/of~1it", 1); item
    {'args': ['a', 'b'], 'notes': {'of/it': 1}}
    """
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    holder: Any = item
    for part in parents:
        holder = holder[int(part)] if isinstance(holder, list) else holder[part]
    if last == "-":
        holder.append(value)
    else:
        holder[last] = value


def _read(text: str) -> list[Obj]:
    # In C where there is C: the manifests are long.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [one for one in yaml.load_all(text, Loader=loader) if one]
