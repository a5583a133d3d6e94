"""What a cluster has of Fairlead, and which tool holds it.

Ours is what has the manifests' label and is either marked as installed by `fairlead install` or has a name
that the manifests have: what `kubectl apply -k` made may be taken over. What a Helm release holds is that
release's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.client.api import Client
from fairlead.client.discovery import served
from fairlead.errors import Missing, NotFound, Taken
from fairlead.install.manifests import NAME_LABEL, Loader, Obj, catalog
from fairlead.install.order import KINDS, in_order, key_of, ref_of
from fairlead.kube.resources import Resource, known

MANAGED = {"app.kubernetes.io/managed-by": "fairlead"}
"""On every object that `fairlead install` applies, beside the manifests' own labels."""
RECORD = "fairlead-install"
"""The ConfigMap that keeps the values of an installation, as Helm keeps those of a release."""

_RELEASE, _RELEASE_NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"


@dataclass(frozen=True, slots=True)
class Record:
    """An installation that `fairlead install` made: where, and the values that were given."""

    namespace: str
    values: Mapping[str, Any]
    version: str


def selector(labels: Mapping[str, str]) -> str:
    """The labels as a selector."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def record_object(record: Record) -> Obj:
    """The record as it is kept."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": RECORD, "namespace": record.namespace, "labels": {**NAME_LABEL, **MANAGED}},
        "data": {"values.json": json.dumps(record.values, sort_keys=True), "version": record.version},
    }


class Installed:
    """Reads of one cluster. It changes nothing."""

    def __init__(self, client: Client, resources: Iterable[Resource]) -> None:
        self.client = client
        self._resources = {(one.api_version, one.kind): one for one in reversed(list(resources))}

    @classmethod
    async def on(cls, client: Client) -> Installed:
        """What the cluster serves decides which kinds there are."""
        return cls(client, await served(client))

    def resource(self, api_version: str, kind: str) -> Resource:
        """The resource of a kind, or Missing."""
        found = self._resources.get((api_version, kind))
        if found is None:
            raise Missing(
                f"the cluster does not serve {kind} ({api_version}): install what defines it first, or leave "
                "out what needs it"
            )
        return found

    def check_served(self, objects: Iterable[Obj]) -> None:
        """Raise Missing for a kind that the cluster does not serve, before anything is written."""
        for item in objects:
            self.resource(item["apiVersion"], item["kind"])

    async def live(self, item: Obj) -> Obj | None:
        """The object as it is on the cluster."""
        resource = self.resource(item["apiVersion"], item["kind"])
        try:
            found: Obj = await self.client.get(
                resource, item["metadata"]["name"], item["metadata"].get("namespace")
            )
        except NotFound:
            return None
        return found

    async def records(self) -> list[Record]:
        """What `fairlead install` installed, in whichever namespace."""
        listing = await self.client.list(known("ConfigMap"), labels=selector(NAME_LABEL | MANAGED))
        return [
            Record(
                item["metadata"]["namespace"],
                json.loads(item["data"]["values.json"]),
                item["data"].get("version", ""),
            )
            for item in listing.items
            if item["metadata"]["name"] == RECORD
        ]

    async def objects(self, namespace: str) -> list[Obj]:
        """All objects of Fairlead there, in the order of their application; Taken when Helm holds them."""

        async def listed(api_version: str, kind: str) -> list[Obj]:
            resource = self._resources.get((api_version, kind))
            if resource is None:
                return []  # what is not served has no objects
            where = namespace if resource.namespaced else None
            listing = await self.client.list(resource, where, labels=selector(NAME_LABEL))
            return [{"apiVersion": api_version, "kind": kind, **item} for item in listing.items]

        names = _shipped_names(namespace)
        found = [
            item
            for part in await asyncio.gather(*(listed(*kind) for kind in KINDS))
            for item in part
            if item["kind"] != "Namespace" and (is_managed(item) or key_of(item) in names)
        ]
        self.refuse_held(found)
        return in_order(found)

    def refuse_held(self, items: Iterable[Obj]) -> None:
        """Raise Taken for what a Helm release holds; definitions that one left behind are free."""
        for item in items:
            notes = item["metadata"].get("annotations") or {}
            if _RELEASE in notes and not is_kept(item):
                release, where = notes[_RELEASE], notes.get(_RELEASE_NAMESPACE, "")
                raise Taken(
                    f"{ref_of(item)} is held by the Helm release {release!r} in namespace {where}: change it "
                    f"with helm upgrade, or remove it with helm -n {where} uninstall {release}"
                )


def is_managed(item: Obj) -> bool:
    """Whether `fairlead install` applied the object."""
    return MANAGED.items() <= (item["metadata"].get("labels") or {}).items()


def is_ours(item: Obj) -> bool:
    """Whether the object has the manifests' label."""
    return NAME_LABEL.items() <= (item["metadata"].get("labels") or {}).items()


def is_kept(item: Obj) -> bool:
    """Whether removal leaves the object, as Helm's does."""
    return bool((item["metadata"].get("annotations") or {}).get("helm.sh/resource-policy") == "keep")


def _shipped_names(namespace: str) -> set[tuple[str, str, str]]:
    """Every object that any values could render."""
    loader = Loader(namespace)
    for paths in catalog()["components"].values():
        for path in paths:
            loader.load(path)
    for one in catalog()["additions"]:
        loader.load(one["add"])
    return {key_of(item) for item in loader.objects}
