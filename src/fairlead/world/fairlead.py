"""Fairlead's scheduler inside the embedded cluster: the same core as the door's, fed from the store.

What the door does over HTTP happens here on the spot, so in virtual time a whole day of scheduling is
decided by the very code that decides on a real cluster, and always the same way. It is thin on purpose:
claims that must first be bound for a pod are the door's business, such a pod is refused here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal

import structlog

from fairlead.engine.core.actions import (
    Action,
    BindPod,
    EvictPod,
    HoldPod,
    MarkTiers,
    NominatePod,
    ReleasePod,
    Say,
)
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import (
    BindFailed,
    Event,
    EvictFailed,
    Gone,
    PoliciesAre,
    Promised,
    Seen,
    Unread,
)
from fairlead.engine.core.state import KINDS
from fairlead.engine.objects import remains
from fairlead.engine.settings import Settings
from fairlead.errors import ApiError, BadObject, NotFound
from fairlead.kube.decode import convert
from fairlead.policy.model import PlacementPolicy
from fairlead.policy.names import EXEMPT
from fairlead.world.api import Api, DeleteOptions
from fairlead.world.clock import Clock, Timer
from fairlead.world.controllers.objects import split_key
from fairlead.world.controllers.writes import Emit, Obj
from fairlead.world.events import promised
from fairlead.world.recorder import Recorder
from fairlead.world.scheduler import unschedulable
from fairlead.world.schema.resources import PODS, Resource
from fairlead.world.store import Change
from fairlead.world.timestamps import stamp
from fairlead.world.view import kind_of

__all__ = ["Fairlead"]

_log = structlog.get_logger()


class Fairlead:
    """Schedules what asks for it, from now until `close`.

    Invariant: whatever the store has told and the core has not heard is in the inbox, and while that
    is not empty a timer is due at once.
    """

    def __init__(
        self,
        api: Api,
        clock: Clock,
        settings: Settings | None = None,
        policies: Iterable[PlacementPolicy] = (),
    ) -> None:
        """`policies` are placement policies that hold from now on."""
        self.core = Core(settings)
        self._api = api
        self._clock = clock
        self._recorder = Recorder(api, clock)
        self._component = self.core.settings.scheduler_names[0]
        self._inbox: deque[Event] = deque()
        if governing := tuple(policies):
            self._inbox.append(PoliciesAre(governing, EXEMPT))
        self._timer: Timer | None = None
        for resource in api.store.resources():
            for item in api.store.list(resource):
                self._seen(resource, item)
        self._stop = api.store.subscribe(self._changed)
        self._look_at(clock.now())

    def close(self) -> None:
        """Let go of the store and the clock; what was not yet decided stays undecided."""
        self._stop()
        if self._timer is not None:
            self._timer.cancel()

    # In

    def _changed(self, change: Change) -> None:
        kind = _kind(change.resource)
        if kind == "Event" and change.type != "DELETED" and (uid := promised(change.object)):
            self._inbox.append(Promised(uid, self._clock.now().timestamp()))
        elif kind not in KINDS:
            return
        elif change.type == "DELETED":
            meta = change.object["metadata"]
            self._inbox.append(Gone(kind, meta.get("namespace", ""), meta["name"], meta["uid"]))
        else:
            self._seen(change.resource, change.object)
        self._look_at(self._clock.now())

    def _seen(self, resource: Resource, item: Obj) -> None:
        kind = _kind(resource)
        if kind not in KINDS:
            return
        try:
            self._inbox.append(Seen(kind, convert(item, KINDS[kind])))
        except BadObject as error:
            # For the core it stays as it last was: what it holds it still holds.
            _log.warning("object cannot be used", error=str(error))
            if kind == "Pod":
                self._inbox.append(Unread(remains(item), str(error)))

    def _look_at(self, at: datetime) -> None:
        if self._timer is not None and self._timer.pending:
            if self._timer.at <= at:
                return
            self._timer.cancel()
        self._timer = self._clock.call_at(at, self._turn)

    # Decide

    def _turn(self) -> None:
        now = self._clock.now()
        events = list(self._inbox)
        self._inbox.clear()
        for action in self.core.handle(events, now.timestamp()):
            self._carry_out(action, now)
        if self._inbox:
            self._look_at(now)
        elif (wake_at := self.core.wake_at) is not None:
            self._look_at(max(now, datetime.fromtimestamp(wake_at, UTC)))

    # Out

    def _carry_out(self, action: Action, now: datetime) -> None:
        match action:
            case BindPod():
                self._bind(action)
            case EvictPod():
                self._evict(action)
            case HoldPod():
                self._hold(action, now)
            case NominatePod():
                self._write_status(action.pod, action.uid, {"nominatedNodeName": action.node or None})
            case ReleasePod():
                self._release(action)
            case Say():
                warns: Literal["Warning", "Normal"] = "Warning" if action.type == "Warning" else "Normal"
                self._tell(action.pod, action.reason, action.message, warns)
            case MarkTiers():
                pass  # the core goes by them itself, and nobody else is there to be told

    def _bind(self, bind: BindPod) -> None:
        namespace, _, name = bind.pod.partition("/")
        placed = self.core.state.snapshot.placed(bind.pod)
        if placed is not None and (placed.static or placed.provision):
            why = "its volumes must be bound first, which this scheduler does not do"
            self._inbox.append(BindFailed(bind.pod, bind.uid, bind.node, why))
            return
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": bind.uid,
                "annotations": bind.annotations,
            },
            "target": {"kind": "Node", "name": bind.node},
        }
        try:
            if bind.tolerations:
                spec = {"tolerations": [one.to_plain() for one in bind.tolerations]}
                self._api.patch(PODS, name, {"metadata": {"uid": bind.uid}, "spec": spec}, namespace)
            self._api.bind(name, binding, namespace)
        except ApiError as error:
            self._inbox.append(BindFailed(bind.pod, bind.uid, bind.node, error.message))
            return
        self._tell(
            bind.pod, "Scheduled", f"Successfully assigned {bind.pod} to {bind.node}", action="Binding"
        )

    def _evict(self, evict: EvictPod) -> None:
        namespace, _, name = evict.pod.partition("/")
        if not self.core.confirms(evict):
            return
        try:
            self._api.evict(name, namespace, {"deleteOptions": {"preconditions": {"uid": evict.uid}}})
        except NotFound:
            return  # it has left; the store has said so
        except ApiError as error:
            # 500: under two budgets, which no retry changes.
            refused = EvictFailed(evict.pod, evict.uid, error.message, final=error.code == 500)
            self._inbox.append(refused)
            return
        self._tell(evict.pod, "Preempted", evict.message, action="Preempting")

    def _hold(self, hold: HoldPod, now: datetime) -> None:
        known = self._api.store.get(PODS, *split_key(hold.pod))
        if hold.unschedulable or (known is not None and unschedulable(known)):
            said: Obj = {
                "type": "PodScheduled",
                "status": "False",
                "reason": hold.condition_reason,
                "message": hold.message,
                "lastProbeTime": None,
                "lastTransitionTime": stamp(now),
            }
            self._write_status(hold.pod, hold.uid, {"conditions": [said]})
        self._tell(hold.pod, hold.event_reason, hold.message, "Warning" if hold.unschedulable else "Normal")

    def _release(self, release: ReleasePod) -> None:
        namespace, _, name = release.pod.partition("/")
        try:
            self._api.delete(PODS, name, namespace, DeleteOptions(uid=release.uid))
        except ApiError as error:
            _log.info("not released", pod=release.pod, error=str(error))
            return
        self._tell(release.pod, "GangIncomplete", release.message, "Warning")

    def _write_status(self, pod: str, uid: str, status: dict[str, Any]) -> None:
        namespace, _, name = pod.partition("/")
        patch = {"metadata": {"uid": uid}, "status": status}
        try:
            self._api.patch(PODS, name, patch, namespace, kind="strategic", subresource="status")
        except ApiError as error:
            # Gone, or another pod of that name: the store has said so.
            _log.info("status not written", pod=pod, error=str(error))

    def _tell(
        self,
        pod: str,
        reason: str,
        message: str,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 (the field's own name)
        action: str = "Scheduling",
    ) -> None:
        namespace, _, name = pod.partition("/")
        about = self._api.store.get(PODS, namespace, name)
        if about is not None:
            self._recorder.record(Emit(about, reason, message, self._component, type, action))


def _kind(resource: Resource) -> str:
    """The kind as the core calls it: PodGroups are one kind, whichever project defines them."""
    return "PodGroup" if resource.kind == "PodGroup" else kind_of(resource)
