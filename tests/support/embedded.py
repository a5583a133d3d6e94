"""An embedded API server in process, without controllers, on a clock that tests move."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairlead.errors import ApiError
from fairlead.world.api import Api
from fairlead.world.ids import CountedIds
from fairlead.world.schema.resources import PODS
from fairlead.world.store import Store

Object = dict[str, Any]


class StillClock:
    """Stands still until told otherwise."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def pass_s(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


def embedded_api(*, history: int = 20_000, hooks: Iterable[Any] = ()) -> Api:
    return Api(Store(history), StillClock(), CountedIds("test"), hooks=hooks)


def clock_of(api: Api) -> StillClock:
    assert isinstance(api.clock, StillClock)
    return api.clock


def refused(act: Callable[[], Any], code: int, reason: str | None = None) -> ApiError:
    """The refusal that `act` meets."""
    with pytest.raises(ApiError) as caught:
        act()
    assert caught.value.code == code, caught.value
    if reason is not None:
        assert caught.value.reason == reason
    return caught.value


def causes(error: ApiError) -> list[tuple[str, str]]:
    """The fields that a refusal names, with their reasons."""
    found = error.details.get("causes")
    assert isinstance(found, list)
    return [(cause["field"], cause["reason"]) for cause in found]


def running_pod(api: Api, body: Object, node: str = "n1", *, ready: bool = True) -> Object:
    """A pod that was bound and runs, as a kubelet would have it."""
    made = api.create(PODS, body, "default")
    name = made["metadata"]["name"]
    api.bind(name, {"target": {"name": node}}, "default")
    status = "True" if ready else "False"
    conditions = [{"type": "Ready", "status": status}]
    return api.patch(
        PODS,
        name,
        {"status": {"phase": "Running", "conditions": conditions}},
        "default",
        kind="strategic",
        subresource="status",
    )
