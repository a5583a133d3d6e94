"""Lists: selected, in pages, at a version.

A continue token names the version of the first page and the last key given, nothing is kept on the
server: later pages are read from the history, so all pages are of one instant, or 410.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import msgspec

from fairlead.errors import ApiError, BadInput, Gone
from fairlead.kube.selectors import (
    FieldSelector,
    LabelSelector,
    matches,
    parse_field_selector,
    parse_label_selector,
)
from fairlead.world.api_errors import (
    Expired,
    FieldError,
    bad_request,
    field_forbidden,
    invalid_options,
    invalid_value,
    not_supported,
)
from fairlead.world.schema.resources import Resource
from fairlead.world.store import Object, Store, key_of


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list, at which version: ``limit``, ``continue``, ``resourceVersion(Match)``."""

    limit: int = 0
    token: str = ""
    rv: str = ""
    match: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects in key order, the version they are of, and how to go on."""

    items: list[Object]
    rv: int
    token: str = ""
    remaining: int | None = None


_MATCHES = ("Exact", "NotOlderThan", "")


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


def list_page(store: Store, resource: Resource, namespace: str, selection: Selection, page: Page) -> Listing:
    """One page of a list; the whole list when no limit is asked for."""
    start = ""
    if page.token:
        if page.match:
            raise _forbidden("resourceVersionMatch is forbidden for continue")
        token = _decode(page.token)
        if page.rv not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        rv, start = token.rv, token.start
        try:
            found = store.at(resource, rv, namespace)
        except Gone as error:
            raise _expired(store, start) from error
    else:
        rv = _version(store, page)
        found = (
            store.at(resource, rv, namespace)
            if rv != store.rv
            else _current(store, resource, namespace, selection)
        )
    if start:
        found = [item for item in found if key_of(item) > start]
    if not selection.everything:
        found = [item for item in found if selection.admits(item)]
    if not page.limit or len(found) <= page.limit:
        return Listing(found, rv)
    items = found[: page.limit]
    # The API server does not count ahead what a selector may still drop.
    remaining = len(found) - page.limit if selection.everything else None
    return Listing(items, rv, _encode(rv, key_of(items[-1])), remaining)


def bad_version(rv: str) -> FieldError:
    """What is wrong with a resourceVersion that is no number."""
    return invalid_value("resourceVersion", rv, f'strconv.ParseUint: parsing "{rv}": invalid syntax')


def too_large(rv: int, current: int) -> ApiError:
    """The answer to a version that has not happened yet."""
    details: dict[str, object] = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return ApiError.of(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {rv}, current: {current}",
        retry_after_s=1,
        details=details,
    )


def _current(store: Store, resource: Resource, namespace: str, selection: Selection) -> list[Object]:
    if selection.node and resource.plural == "pods":
        on_node = store.pods_on(selection.node)
        if not namespace:
            return on_node
        return [pod for pod in on_node if pod["metadata"]["namespace"] == namespace]
    return store.list(resource, namespace)


def _version(store: Store, page: Page) -> int:
    if page.match not in _MATCHES:
        raise invalid_options("ListOptions", not_supported("resourceVersionMatch", page.match, _MATCHES))
    if page.match and not page.rv:
        raise _forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if page.match == "Exact" and page.rv == "0":
        raise _forbidden('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if not page.rv:
        return store.rv
    if not page.rv.isdecimal():
        raise bad_request(f"invalid resource version: {bad_version(page.rv)}")
    asked = int(page.rv)
    if asked > store.rv:
        raise too_large(asked, store.rv)
    # An exact version is also what a limited list without a match means; otherwise any newer one will do.
    if page.match == "Exact" or (page.limit and not page.match and asked > 0):
        return asked
    return store.rv


def _forbidden(why: str) -> ApiError:
    return invalid_options("ListOptions", field_forbidden("resourceVersionMatch", why))


def _expired(store: Store, start: str) -> ApiError:
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a "
        "new list without the continue parameter, or use the continue token in this response to retrieve "
        "the remainder of the results. Continuing with the provided token results in an inconsistent "
        "list - objects that were created, modified, or deleted between the time the first chunk was "
        "returned and now may show up in the list."
    )
    return Expired(message, _encode(store.rv, start))


def _encode(rv: int, start: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(_Token("v1", rv, start))).decode().rstrip("=")


def _decode(text: str) -> _Token:
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    if token.v != "v1":
        why = "server does not recognize this encoded version"
        raise bad_request(f"invalid continue token: continue key is not valid: {why}")
    return token


_ALWAYS = frozenset({"metadata.name", "metadata.namespace"})
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

# What the API server can select on, beyond the name and namespace.
_FIELDS: dict[str, frozenset[str]] = {
    "pods": frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        }
    ),
    "nodes": frozenset({"spec.unschedulable"}),
    "namespaces": frozenset({"status.phase", "name"}),
    "secrets": frozenset({"type"}),
    "services": frozenset({"spec.clusterIP", "spec.type"}),
    "events": frozenset(
        {
            *(f"involvedObject.{name}" for name in _INVOLVED),
            *(f"regarding.{name}" for name in _INVOLVED),
            "reason",
            "reportingComponent",
            "reportingController",
            "source",
            "type",
        }
    ),
    "replicationcontrollers": frozenset({"status.replicas"}),
    "replicasets.apps": frozenset({"status.replicas"}),
    "jobs.batch": frozenset({"status.successful"}),
}


@dataclass(frozen=True, slots=True)
class Selection:
    """A compiled pair of selectors. `node` is set when the pods of one node are asked for."""

    labels: LabelSelector | None = None
    fields: FieldSelector | None = None
    node: str | None = None

    @property
    def everything(self) -> bool:
        """Whether nothing is filtered."""
        return self.labels is None and self.fields is None

    def admits(self, item: Object) -> bool:
        """Whether an object is asked for."""
        if self.labels is not None and not matches(self.labels, item["metadata"].get("labels") or {}):
            return False
        return self.fields is None or self.fields.admits(lambda path: _field(item, path))


EVERYTHING = Selection()


def select(resource: Resource, labels: str = "", fields: str = "") -> Selection:
    """Compile the selectors of a request; 400 for one that cannot be read or is not supported."""
    if not labels and not fields:
        return EVERYTHING
    try:
        by_label = parse_label_selector(labels) if labels else None
        by_field = parse_field_selector(fields) if fields else None
    except BadInput as error:
        raise bad_request(f"unable to parse requirement: {error}") from error
    node = None
    for path, equal, wanted in by_field.terms if by_field else ():
        if path not in _ALWAYS and path not in _FIELDS.get(resource.qualified, ()):
            if resource.qualified in _FIELDS:
                raise bad_request(f"field label not supported: {path}")
            known = (
                'only "metadata.name", "metadata.namespace"'
                if resource.namespaced
                else 'only "metadata.name"'
            )
            raise bad_request(f'"{path}" is not a known field selector: {known}')
        if path == "spec.nodeName" and equal and resource.plural == "pods":
            node = wanted
    return Selection(by_label, by_field, node)


def _field(item: Object, path: str) -> str:
    if path == "name":
        path = "metadata.name"
    elif path.startswith("regarding."):
        path = "involvedObject." + path.removeprefix("regarding.")
    elif path in ("reportingComponent", "reportingController"):
        return str(item.get("reportingComponent") or item.get("source", {}).get("component", ""))
    elif path == "source":
        return str(item.get("source", {}).get("component") or item.get("reportingComponent", ""))
    elif path == "status.successful":
        path = "status.succeeded"
    value: Any = item
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return _ABSENT.get(path, "")
    return str(value)


# A Go field that is absent in JSON still has its zero value when it is selected on.
_ABSENT = {
    "spec.unschedulable": "false",
    "spec.hostNetwork": "false",
    "status.replicas": "0",
    "status.succeeded": "0",
}
