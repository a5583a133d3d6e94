"""Events: what happened to an object, as others wrote it down."""

from __future__ import annotations

from datetime import datetime

from fairlead.kube.meta import Object, ObjectMeta, ObjectReference, Time


class Series(Object, frozen=True, gc=False):
    """An event that happened again."""

    last_observed_time: Time | None = None


class Source(Object, frozen=True, gc=False):
    """The component that wrote an event, as the older of the two APIs says it."""

    component: str = ""


class Event(Object, frozen=True, gc=False):
    """An event, whichever of the two APIs it was written through."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    event_time: Time | None = None
    last_timestamp: Time | None = None
    series: Series | None = None
    source: Source = Source()
    reporting_component: str = ""

    @property
    def reporter(self) -> str:
        """The component that reports it."""
        return self.reporting_component or self.source.component

    @property
    def at(self) -> datetime | None:
        """When it last happened."""
        times = (
            self.event_time,
            self.last_timestamp,
            self.series.last_observed_time if self.series is not None else None,
        )
        return max((time for time in times if time is not None), default=None)
