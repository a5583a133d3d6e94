"""What the machines that decide inside the cluster share: typed objects from the store, and one timer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime, timedelta

import structlog

from fairlead.errors import BadObject
from fairlead.kube.meta import Object
from fairlead.world.api import Api
from fairlead.world.clock import Clock, Timer
from fairlead.world.controllers.writes import Obj
from fairlead.world.events import promised
from fairlead.world.schema.resources import Resource
from fairlead.world.store import Change
from fairlead.world.view import kind_of

_log = structlog.get_logger()


class Follower(ABC):
    """Follows a cluster from `attach` to `close`.

    Invariant: whatever the store has reported was handed on, and a turn is due within `pause` of it.
    """

    kinds: Mapping[str, type[Object]]
    """Every kind that is handed on, and the type it comes as."""
    pause = timedelta()
    attached = False
    _api: Api
    _clock: Clock
    _timer: Timer | None = None

    def attach(self, api: Api, clock: Clock) -> None:
        """Follow a cluster from now on."""
        self._api, self._clock, self.attached = api, clock, True
        for resource in api.store.resources():
            for item in api.store.list(resource):
                self._read(self._kind(resource), item)
        self._stop = api.store.subscribe(self._changed)
        self._look_at(clock.now())

    def close(self) -> None:
        """Let go of the store and the clock; what was not yet decided stays undecided."""
        self._stop()
        if self._timer is not None:
            self._timer.cancel()

    @abstractmethod
    def _seen(self, kind: str, thing: Object) -> None:
        """An object as it now is; BadObject for one that cannot be used, which counts as it last was."""

    @abstractmethod
    def _gone(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """An object is no more."""

    @abstractmethod
    def _turn(self) -> None:
        """Decide, and carry it out."""

    def _promised(self, uid: str) -> None:  # noqa: B027 (not every machine minds)
        """An autoscaler promised a node for a pod."""

    def _unread(self, kind: str, item: Obj, error: BadObject) -> None:
        _log.warning("object_unusable", error=str(error))

    def _kind(self, resource: Resource) -> str:
        return kind_of(resource)

    @property
    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _changed(self, change: Change) -> None:
        kind, meta = self._kind(change.resource), change.object["metadata"]
        if kind == "Event" and change.type != "DELETED" and (uid := promised(change.object)):
            self._promised(uid)
        elif kind not in self.kinds:
            return
        elif change.type == "DELETED":
            self._gone(kind, meta.get("namespace", ""), meta["name"], meta["uid"])
        else:
            self._read(kind, change.object)
        self._look_at(self._clock.now() + self.pause)

    def _read(self, kind: str, item: Obj) -> None:
        if kind not in self.kinds:
            return
        try:
            self._seen(kind, self._api.store.typed(item, self.kinds[kind]))
        except BadObject as error:
            self._unread(kind, item, error)

    def _look_at(self, at: datetime) -> None:
        """Have a turn at that time, unless there is one before."""
        if self._timer is not None and self._timer.pending:
            if self._timer.at <= at:
                return
            self._timer.cancel()
        self._timer = self._clock.call_at(at, self._turn)
