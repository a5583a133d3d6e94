"""Volumes that are bound with a pod: static ones pre-bound, others ordered for the chosen node.

A bind waits until every claim of the pod is really bound: a kubelet must not meet a pod whose volume
another node's provisioner is still making. Kubernetes' volume controller does the binding; we only say
what we want (``claimRef`` on the volume, the selected-node annotation on the claim) and watch. Claims and
volumes come with the bind, and newer versions of them from the session.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator

from fairlead.client.api import Client
from fairlead.engine.core.actions import VolumesToBind
from fairlead.engine.core.events import Event, Gone, Seen
from fairlead.errors import ApiError, Conflict, FairleadError
from fairlead.kube.resources import known
from fairlead.kube.storage import PersistentVolume, PersistentVolumeClaim

_CLAIM = known("PersistentVolumeClaim")
_VOLUME = known("PersistentVolume")
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class VolumesNotBound(FairleadError):  # noqa: N818 (reads as what happened)
    """A pod's volumes cannot be bound where it was placed; it is to be planned again."""


class Volumes:
    """See the module. Cancelled half-way, what was asked for stays asked for: the next plan finds it.

    Invariant: of every claim and volume that a bind under way waits for, the latest version that the session
    was told of is known.
    """

    def __init__(self, client: Client, *, timeout_s: float = 600.0) -> None:
        self._client = client
        self._timeout_s = timeout_s
        # By the names of claims and volumes: a claim's has a slash, a volume's has none.
        self._known: dict[str, PersistentVolumeClaim | PersistentVolume] = {}
        self._followed: Counter[str] = Counter()  # binds under way
        self._news = asyncio.Event()

    def follow(self, wanted: VolumesToBind) -> None:
        """Keep up to date what a bind waits for, until `bind` of it is over."""
        self._known |= wanted.known_claims
        self._known |= wanted.known_volumes
        self._followed.update(_names(wanted))

    def told(self, events: Iterable[Event]) -> None:
        """Take note of claims and volumes that changed: the binds that wait for them look again."""
        if not self._followed:
            return
        changed = False
        for event in events:
            if isinstance(event, Seen):
                thing = event.object
                if isinstance(thing, PersistentVolumeClaim | PersistentVolume):
                    name = thing.metadata.key
                    if name in self._followed:
                        self._known[name] = thing
                        changed = True
            elif isinstance(event, Gone) and event.kind in (_CLAIM.kind, _VOLUME.kind):
                name = f"{event.namespace}/{event.name}" if event.namespace else event.name
                changed |= self._known.pop(name, None) is not None
        if changed:
            news, self._news = self._news, asyncio.Event()
            news.set()

    async def bind(self, wanted: VolumesToBind, node: str) -> None:
        """Ask for what is wanted and wait for it; raises VolumesNotBound when it will not come."""
        try:
            await self._bind(wanted, node)
        finally:
            self._followed.subtract(_names(wanted))
            for name in _names(wanted):
                if self._followed[name] <= 0:
                    del self._followed[name]
                    self._known.pop(name, None)

    async def _bind(self, wanted: VolumesToBind, node: str) -> None:
        try:
            for claim, volume in wanted.static:
                await self._claim_volume(claim, volume)
            for claim in wanted.provision:
                await self._select_node(claim, node)
        except ApiError as error:
            raise VolumesNotBound(f"binding volumes: {error}") from error
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._all_bound(wanted, node)
        except TimeoutError:
            raise VolumesNotBound(f"binding volumes: not bound after {self._timeout_s:g} s") from None

    async def _claim_volume(self, claim: str, volume: str) -> None:
        meant_for, found = self._known.get(claim), self._known.get(volume)
        if meant_for is None or not isinstance(found, PersistentVolume):
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
        found = self._claim(claim)
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

    async def _all_bound(self, wanted: VolumesToBind, node: str) -> None:
        ordered: set[str] = set()  # claims that have been seen with our annotation
        while True:
            news = self._news
            waiting = False
            for claim in wanted.claims:
                found = self._claim(claim)
                if found.is_bound:
                    continue
                waiting = True
                if claim in wanted.provision:
                    selected = found.metadata.annotations.get(_SELECTED_NODE)
                    if selected == node:
                        ordered.add(claim)
                    elif claim in ordered:
                        # The provisioner gave the claim back: it cannot make the volume there.
                        raise VolumesNotBound(f"binding volumes: {claim} was given back by its provisioner")
            if not waiting:
                return
            await news.wait()

    def _claim(self, name: str) -> PersistentVolumeClaim:
        found = self._known.get(name)
        if not isinstance(found, PersistentVolumeClaim):
            raise VolumesNotBound(f"binding volumes: claim {name} is gone")
        return found


def _names(wanted: VolumesToBind) -> Iterator[str]:
    yield from wanted.claims
    yield from (volume for _, volume in wanted.static)
