"""Objects on their way out: the asked version, lists, tables, metadata only."""

from __future__ import annotations

from typing import Any

from fairlead.world.events import to_events_api
from fairlead.world.http.request import Target
from fairlead.world.listing import Listing
from fairlead.world.store import Object
from fairlead.world.tables import table_of


def shown(target: Target, item: Object) -> Object:
    """A stored object in the version that was asked for."""
    api_version = target.served.api_version_of(target.version)
    if item.get("apiVersion") == api_version or item.get("kind") != target.served.resource.kind:
        return item
    if target.served.api_group == "events.k8s.io":
        return to_events_api(item)
    return {**item, "apiVersion": api_version}


def shown_list(target: Target, listing: Listing) -> Object:
    """A list; items of built-in kinds do not repeat what the list says of them."""
    items: list[Object] = [shown(target, item) for item in listing.items]
    if not target.served.custom:
        items = [
            {key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in items
        ]
    return {
        "kind": target.served.kind_of_list,
        "apiVersion": target.served.api_version_of(target.version),
        "metadata": _list_metadata(listing),
        "items": items,
    }


def shown_table(
    target: Target, listing: Listing, include: str, now: Any, *, with_columns: bool = True
) -> Object:
    """A list as rows."""
    table = table_of(target.served, target.version, listing.items, include, now)
    table["metadata"] = _list_metadata(listing)
    if not with_columns:
        table["columnDefinitions"] = None
    return table


def _list_metadata(listing: Listing) -> Object:
    metadata: Object = {"resourceVersion": str(listing.rv)}
    if listing.token:
        metadata["continue"] = listing.token
    if listing.remaining is not None:
        metadata["remainingItemCount"] = listing.remaining
    return metadata
