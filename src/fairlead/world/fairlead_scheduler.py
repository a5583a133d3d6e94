"""Fairlead's scheduler inside the embedded cluster: the same core as the door's, fed from the store.

What the door does over HTTP happens here on the spot, so in virtual time a whole day of scheduling is
decided by the very code that decides on a real cluster, and always the same way. It is thin on purpose:
claims that must first be bound for a pod are the door's business, such a pod is refused here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Any, Literal

import structlog

from fairlead.engine.ask.objects import remains
from fairlead.engine.core.actions import (
    Action,
    BindPod,
    EvictPod,
    HoldPod,
    MarkTiers,
    NominatePod,
    ReleasePod,
    Say,
    VolumesToBind,
)
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import (
    BindFailed,
    Event,
    EvictFailed,
    Gone,
    MarksAre,
    PoliciesAre,
    Promised,
    Seen,
    Unread,
)
from fairlead.engine.core.kinds import KINDS
from fairlead.engine.planning.settings import Settings
from fairlead.errors import ApiError, BadObject, NotFound
from fairlead.kube.meta import Object
from fairlead.policy.names import EXEMPT
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.marks import Mark, Marks
from fairlead.world.api import Api, DeleteOptions
from fairlead.world.clock import Clock
from fairlead.world.controllers.writes import Emit, Obj
from fairlead.world.events import Recorder
from fairlead.world.follower import Follower
from fairlead.world.objects import split_key, stamp
from fairlead.world.scheduler import unschedulable
from fairlead.world.schema.resources import PODS, Resource

_log = structlog.get_logger()


class Fairlead(Follower):
    """Schedules what asks for it, from now until `close`.

    Invariant: whatever the store has reported and the core has not received is in the inbox.
    """

    kinds = KINDS

    def __init__(
        self,
        api: Api,
        clock: Clock,
        settings: Settings | None = None,
        policies: Iterable[PlacementPolicy] = (),
        marks: dict[str, Marks] | None = None,
        *,
        events: Collection[str] | None = None,
    ) -> None:
        """`policies` are placement policies that hold from now on, `marks` theirs, that others write, too;
        `events` the reasons of the events that are written (None: of all).
        """
        self.core = Core(settings)
        self._recorder = Recorder(api, clock, events)
        self._component = self.core.settings.scheduler_names[0]
        self._inbox: deque[Event] = deque()
        self._marks = {} if marks is None else marks
        self._known_marks: dict[str, dict[str, Mark]] = {}  # as the core has them
        if governing := tuple(policies):
            self._inbox.append(PoliciesAre(governing, EXEMPT))
        self.attach(api, clock)

    # In

    def _seen(self, kind: str, thing: Object) -> None:
        self._inbox.append(Seen(kind, thing))

    def _gone(self, kind: str, namespace: str, name: str, uid: str) -> None:
        self._inbox.append(Gone(kind, namespace, name, uid))

    def _promised(self, uid: str) -> None:
        self._inbox.append(Promised(uid, self._now))

    def _unread(self, kind: str, item: Obj, error: BadObject) -> None:
        super()._unread(kind, item, error)
        if kind == "Pod":
            # For the core it stays as it last was: what it holds it still holds.
            self._inbox.append(Unread(remains(item), str(error)))

    def _kind(self, resource: Resource) -> str:
        # PodGroups are one kind for the core, whichever project defines them.
        return "PodGroup" if resource.kind == "PodGroup" else super()._kind(resource)

    # Decide

    def _turn(self) -> None:
        now = self._clock.now()
        for policy, marks in self._marks.items():
            if (found := dict(marks)) != self._known_marks.get(policy, {}):
                self._known_marks[policy] = found
                self._inbox.append(MarksAre(policy, found))
        events = list(self._inbox)
        self._inbox.clear()
        victims: dict[str, list[EvictPod]] = {}
        for action in self.core.handle(events, now.timestamp()):
            if isinstance(action, EvictPod):
                victims.setdefault(action.unit_id or f"gang:{action.gang}", []).append(action)
            else:
                self._carry_out(action, now)
        for evictions in victims.values():
            self._evict_all(evictions)
        if self._inbox:
            self._look_at(now)
        elif (wake_at := self.core.wake_at) is not None:
            self._look_at(max(now, datetime.fromtimestamp(wake_at, UTC)))

    # Out

    def _carry_out(self, action: Action, now: datetime) -> None:
        match action:
            case BindPod():
                self._bind(action)
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
                self._known_marks[action.policy] = dict(action.after)
                if (found := self._marks.get(action.policy)) is not None:
                    self._marks[action.policy] = found.merged(action.before, action.after)

    def _bind(self, bind: BindPod) -> None:
        namespace, _, name = bind.pod.partition("/")
        if isinstance(bind.volumes, VolumesToBind) and (bind.volumes.static or bind.volumes.provision):
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

    def _evict_all(self, evictions: list[EvictPod]) -> None:
        """Evict for one unit, until one is refused: the core plans again, so the rest are not wanted for now.

        Of a gang that leaves whole the others follow once the first has left.
        """
        protected = self.core.protected(evictions)
        stopped = f"budgets of {protected.evict.pod} do not allow it now" if protected is not None else ""
        begun: set[str] = set()
        for evict in evictions:
            if stopped and evict.gang not in begun:
                # Under two budgets, which no retry changes.
                final = protected is not None and evict is protected.evict and len(protected.budgets) > 1
                self._inbox.append(EvictFailed(evict.pod, evict.uid, stopped, final=final))
            elif (failed := self._evict(evict)) is not None:
                self._inbox.append(failed)
                stopped = "another eviction was refused"
            elif evict.gang:
                begun.add(evict.gang)

    def _evict(self, evict: EvictPod) -> EvictFailed | None:
        namespace, _, name = evict.pod.partition("/")
        if not self.core.confirms(evict, sending=True):
            return EvictFailed(evict.pod, evict.uid, "not wanted any more")
        try:
            self._api.evict(name, namespace, {"deleteOptions": {"preconditions": {"uid": evict.uid}}})
        except NotFound:
            return None  # it has left; the store has said so
        except ApiError as error:
            # 500: under two budgets, which no retry changes.
            return EvictFailed(evict.pod, evict.uid, error.message, final=error.code == 500)
        self._tell(evict.pod, "Preempted", evict.message, action="Preempting")
        return None

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
            _log.info("not_released", pod=release.pod, error=str(error))
            return
        self._tell(release.pod, "GangIncomplete", release.message, "Warning")

    def _write_status(self, pod: str, uid: str, status: dict[str, Any]) -> None:
        namespace, _, name = pod.partition("/")
        patch = {"metadata": {"uid": uid}, "status": status}
        try:
            self._api.patch(PODS, name, patch, namespace, kind="strategic", subresource="status")
        except ApiError as error:
            # Gone, or another pod of that name: the store has said so.
            _log.info("status_not_written", pod=pod, error=str(error))

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
