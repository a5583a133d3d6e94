"""Our CustomResourceDefinitions on a cluster: made when they are missing and we may, named when we may not.

Several processes start at once and may be of different versions, so the first writer wins and only a
definition with a lower schema version than ours is ever changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from typing import Any

import structlog
import yaml

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.errors import ApiError, Conflict, Missing, NotFound
from fairlead.kube.resources import Resource, known
from fairlead.policy.names import LEDGERS, POLICIES

_log = structlog.get_logger(__name__)

_CRD = known("CustomResourceDefinition")
_VERSION = "fairlead.dev/schema-version"
_HOW = "A user with that right must run: fairlead policy crds | kubectl apply -f -"
_LOOK_S = 0.2
_PATIENCE_S = 30.0  # an API server establishes a definition within a second or two


def crd_texts() -> list[str]:
    """The definitions as the package ships them, as YAML."""
    folder = resources.files("fairlead.policy") / "crds"
    return [
        file.read_text(encoding="utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".yaml")
    ]


def crds() -> dict[str, dict[str, Any]]:
    """The definitions as plain data, by name."""
    # In C where there is C: each door reads them when it starts, and in Python that takes 25 ms.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = [yaml.load(text, Loader=loader) for text in crd_texts()]
    return {definition["metadata"]["name"]: definition for definition in found}


async def ensure_crds(
    client: Client,
    which: Iterable[Resource] = (POLICIES, LEDGERS),
    *,
    clock: Clock = WALL_CLOCK,
    patience_s: float = _PATIENCE_S,
) -> None:
    """Return when the definitions are established; `Missing` says which are not and what to do.

    Cancelled half-way, some may have been made.
    """
    ours = crds()
    wanted = {name: ours[name] for name in (f"{each.plural}.{each.group}" for each in which)}
    for name, definition in wanted.items():
        await _put(client, name, definition)
    deadline = clock.now() + patience_s
    for name in wanted:
        while not await _established(client, name):
            if clock.now() > deadline:
                raise Missing(f"CustomResourceDefinition {name} is there but was not established in time")
            await asyncio.sleep(_LOOK_S)


async def _put(client: Client, name: str, ours: Mapping[str, Any]) -> None:
    try:
        found = await _found(client, name)
    except NotFound:
        await _create(client, name, ours)
        return
    # A user who may not read definitions may still use what they define.
    if found is None and not await _served(client, name):
        await _create(client, name, ours)
    if found is None or _version(found) >= _version(ours):
        return
    patch = {
        "metadata": {
            "resourceVersion": found["metadata"]["resourceVersion"],
            "annotations": {_VERSION: str(_version(ours))},
        },
        "spec": {"versions": ours["spec"]["versions"]},
    }
    # What we write an older one may refuse, and what we read it may leave out.
    refused = (
        f"CustomResourceDefinition {name} is that of an older Fairlead (schema {_version(found)}, not "
        f"{_version(ours)}) and we may not change it"
    )
    with _first_writer_wins(refused):
        await client.patch(_CRD, name, None, patch)
        _log.info("crd_updated", name=name, version=_version(ours))


async def _create(client: Client, name: str, ours: Mapping[str, Any]) -> None:
    with _first_writer_wins(f"CustomResourceDefinition {name} is missing and we may not create it"):
        await client.create(_CRD, ours)
        _log.info("crd_created", name=name)


@contextmanager
def _first_writer_wins(refused: str) -> Iterator[None]:
    try:
        yield
    except Conflict:
        pass  # another process of our version was faster
    except ApiError as error:
        if error.code != 403:
            raise
        raise Missing(f"{refused}: {error.message}. {_HOW}") from error


async def _found(client: Client, name: str) -> dict[str, Any] | None:
    """A definition; None where we may not read it. NotFound when there is none."""
    try:
        return await client.get(_CRD, name)
    except ApiError as error:
        if error.code != 403:
            raise
        return None


async def _established(client: Client, name: str) -> bool:
    found = await _found(client, name)
    conditions = ((found or {}).get("status") or {}).get("conditions") or []
    said = any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)
    # Established may come before the server's discovery knows; a list is what every caller does next.
    return (found is None or said) and await _served(client, name)


async def _served(client: Client, name: str) -> bool:
    resource = next(each for each in (POLICIES, LEDGERS) if name == f"{each.plural}.{each.group}")
    try:
        await client.read(f"{resource.path()}?limit=1")
    except NotFound:
        return False
    except ApiError as error:
        if error.code != 403:
            raise
        # Served, or the authorizer answered before the server looked: the caller that lists it will learn.
    return True


def _version(definition: Mapping[str, Any]) -> int:
    said = (definition["metadata"].get("annotations") or {}).get(_VERSION, "0")
    return int(said) if said.isdecimal() else 0
