"""Query parameters, read once and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.world.answers import (
    bad_request,
    bare,
    field_forbidden,
    invalid_options,
    invalid_value,
    not_supported,
)
from fairlead.world.api import DeleteOptions, Options, Page
from fairlead.world.listing import bad_version

__all__ = ["delete_options", "flag", "page", "watch_start", "write_options"]

_TRUE = frozenset({"true", "1", "t", "T", "True", "TRUE"})


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean parameter; present without a value means true."""
    value = query.get(name)
    return value is not None and (value == "" or value in _TRUE)


def number(query: Mapping[str, str], name: str) -> int | None:
    """An integer parameter; 400 when it is none."""
    value = query.get(name)
    if value is None or value == "":
        return None
    try:
        return int(value)
    except ValueError as error:
        raise bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax') from error


def page(query: Mapping[str, str]) -> Page:
    """Which part of a list is asked for, at which version."""
    return Page(
        max(number(query, "limit") or 0, 0),
        query.get("continue", ""),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
    )


def watch_start(query: Mapping[str, str]) -> tuple[int | None, bool]:
    """From which version a watch starts (None: with what there is), and whether that is marked off."""
    rv, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    initial = query.get("sendInitialEvents")
    if initial is None:
        if match:
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise invalid_options("ListOptions", field_forbidden("resourceVersionMatch", why))
        # Without a version the answer starts with what there is, and says where that ends.
        if rv in ("", "0"):
            return None, not rv and flag(query, "allowWatchBookmarks")
        return _watch_version(rv), False
    if match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid_options("ListOptions", field_forbidden("resourceVersionMatch", why))
    if flag(query, "sendInitialEvents"):
        if rv not in ("", "0"):
            _watch_version(rv)
        return None, flag(query, "allowWatchBookmarks")
    return (-1 if rv in ("", "0") else _watch_version(rv)), False


def write_options(query: Mapping[str, str], user: str) -> Options:
    """How a write is meant."""
    return Options(_dry_run(query.get("dryRun")), query.get("fieldManager", ""), flag(query, "force"), user)


def delete_options(query: Mapping[str, str], body: Any, user: str) -> DeleteOptions:
    """How an object is to go; a body wins over the query."""
    body = body if isinstance(body, dict) else {}
    if body.get("kind", "DeleteOptions") != "DeleteOptions":
        where = 'for version "meta.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"'
        raise bad_request(f'no kind "{body["kind"]}" is registered {where}')
    preconditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds", number(query, "gracePeriodSeconds"))
    policy = body.get("propagationPolicy") or query.get("propagationPolicy")
    if policy is not None and ("orphanDependents" in body or "orphanDependents" in query):
        why = "orphanDependents and deletionPropagation cannot be both set"
        raise invalid_options("DeleteOptions", invalid_value("propagationPolicy", policy, why))
    if policy is None and (orphan := body.get("orphanDependents", query.get("orphanDependents"))) is not None:
        policy = "Orphan" if orphan in (True, "true", "1") else "Background"
    if policy not in (None, "Background", "Foreground", "Orphan"):
        supported = ("Foreground", "Background", "Orphan", "nil")
        raise invalid_options("DeleteOptions", not_supported("propagationPolicy", policy, supported))
    dry = _dry_run(query.get("dryRun")) or bool(body.get("dryRun"))
    return DeleteOptions(
        grace, policy, preconditions.get("uid"), preconditions.get("resourceVersion"), dry, user
    )


def _watch_version(rv: str) -> int:
    if not rv.isdecimal():
        raise bare(500, str(bad_version(rv)))
    return int(rv)


def _dry_run(value: str | None) -> bool:
    if value in (None, ""):
        return False
    if value != "All":
        raise invalid_options("CreateOptions", not_supported("dryRun", [value], ("All",)))
    return True
