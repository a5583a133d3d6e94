"""Volumes that are bound with a pod: static ones pre-bound, others ordered for the chosen node.

A bind waits until every claim of the pod is really bound: a kubelet must not meet a pod whose volume
another node's provisioner is still making. Kubernetes' volume controller does the binding; we only say
what we want (``claimRef`` on the volume, the selected-node annotation on the claim) and watch.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fairlead.client.api import Client
from fairlead.engine.snapshot.placed import Placed
from fairlead.engine.snapshot.storage import Storage, claim_name
from fairlead.errors import ApiError, Conflict, FairleadError
from fairlead.kube.resources import known
from fairlead.kube.storage import PersistentVolumeClaim

__all__ = ["Volumes", "VolumesNotBound", "Wanted"]

_CLAIM = known("PersistentVolumeClaim")
_VOLUME = known("PersistentVolume")
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class VolumesNotBound(FairleadError):  # noqa: N818 (reads as what happened)
    """A pod's volumes cannot be bound where it was placed; it is to be planned again."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one pod's bind waits for: all its claims, those with a volume chosen, those to be made."""

    node: str
    claims: tuple[str, ...]
    static: tuple[tuple[str, str], ...]
    provision: tuple[str, ...]


class Volumes:
    """See the module. Cancelled half-way, what was asked for stays asked for: the next plan finds it."""

    def __init__(self, client: Client, storage: Storage, *, timeout_s: float = 600.0) -> None:
        self._client = client
        self._storage = storage
        self._timeout_s = timeout_s
        self._news = asyncio.Event()

    def changed(self) -> None:
        """Claims or volumes have changed: those who wait look again."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def wanted(self, placed: Placed | None) -> Wanted | None:
        """What a placed pod's bind must wait for; None for nothing."""
        if placed is None or not placed.cls.facts.volumes:
            return None
        namespace, pod_name = placed.pod.metadata.namespace, placed.pod.metadata.name
        names = (claim_name(pod_name, volume) for volume in placed.cls.facts.volumes)
        claims = tuple(f"{namespace}/{name}" for name in names if name is not None)
        if all(_is_bound(self._storage.claims.get(claim)) for claim in claims):
            return None
        return Wanted(placed.node, claims, placed.static, placed.provision)

    async def bind(self, wanted: Wanted) -> None:
        """Ask for what is wanted and wait for it; raises VolumesNotBound when it will not come."""
        try:
            for claim, volume in wanted.static:
                await self._claim_volume(claim, volume)
            for claim in wanted.provision:
                await self._select_node(claim, wanted.node)
        except ApiError as error:
            raise VolumesNotBound(f"binding volumes: {error}") from error
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._all_bound(wanted)
        except TimeoutError:
            raise VolumesNotBound(f"binding volumes: not bound after {self._timeout_s:g} s") from None

    async def _claim_volume(self, claim: str, volume: str) -> None:
        meant_for, found = self._storage.claims.get(claim), self._storage.volumes.get(volume)
        if meant_for is None or found is None:
            raise VolumesNotBound(f"binding volumes: claim {claim} or volume {volume} is gone")
        reference = found.spec.claim_ref
        if reference is not None and reference.uid == meant_for.metadata.uid:
            return  # asked for before a restart
        namespace, _, name = claim.partition("/")
        patch = {
            "metadata": {
                "resourceVersion": found.metadata.resource_version,
                "annotations": {} if reference is not None else {_BOUND_BY_CONTROLLER: "yes"},
            },
            "spec": {
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": namespace,
                    "name": name,
                    "uid": meant_for.metadata.uid,
                }
            },
        }
        await self._client.patch(_VOLUME, volume, None, patch)

    async def _select_node(self, claim: str, node: str) -> None:
        found = self._storage.claims.get(claim)
        if found is None:
            raise VolumesNotBound(f"binding volumes: claim {claim} is gone")
        if found.metadata.annotations.get(_SELECTED_NODE) == node:
            return
        namespace, _, name = claim.partition("/")
        patch = {
            "metadata": {
                "uid": found.metadata.uid,
                "resourceVersion": found.metadata.resource_version,
                "annotations": {_SELECTED_NODE: node},
            }
        }
        try:
            await self._client.patch(_CLAIM, name, namespace, patch)
        except Conflict as error:
            raise VolumesNotBound(f"binding volumes: claim {claim} changed meanwhile") from error

    async def _all_bound(self, wanted: Wanted) -> None:
        ordered: set[str] = set()  # claims that have been seen with our annotation
        while True:
            news = self._news
            waiting = False
            for claim in wanted.claims:
                found = self._storage.claims.get(claim)
                if found is None:
                    raise VolumesNotBound(f"binding volumes: claim {claim} is gone")
                if _is_bound(found):
                    continue
                waiting = True
                if claim in wanted.provision:
                    selected = found.metadata.annotations.get(_SELECTED_NODE)
                    if selected == wanted.node:
                        ordered.add(claim)
                    elif claim in ordered:
                        # The provisioner gave the claim back: it cannot make the volume there.
                        raise VolumesNotBound(f"binding volumes: {claim} was given back by its provisioner")
            if not waiting:
                return
            await news.wait()


def _is_bound(claim: PersistentVolumeClaim | None) -> bool:
    return (
        claim is not None and bool(claim.spec.volume_name) and _BIND_COMPLETED in claim.metadata.annotations
    )
