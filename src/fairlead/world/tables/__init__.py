"""Server-side tables: the columns that kubectl prints, made where the objects are."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from fairlead.world.schema.resources import Served
from fairlead.world.tables.columns import Printer, printer_of_custom
from fairlead.world.tables.kinds import PRINTERS
from fairlead.world.tables.pods import print_pod_conditions

__all__ = ["metadata_only", "table_of"]

Object = dict[str, Any]


def table_of(served: Served, version: str, items: list[Object], include: str, now: datetime) -> Object:
    """A ``meta.k8s.io/v1`` Table of objects; `include` is how much of each object a row carries."""
    printer = _printer(served, version)
    rows = []
    for item in items:
        row: Object = {"cells": printer.cells(item, now)}
        conditions = print_pod_conditions(item) if item.get("kind") == "Pod" else None
        if conditions:
            row["conditions"] = conditions
        shown = {"Object": item, "None": None}
        row["object"] = shown[include] if include in shown else metadata_only(item)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [asdict(column) for column in printer.columns],
        "rows": rows,
    }


def metadata_only(item: Object) -> Object:
    """An object as PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}


def _printer(served: Served, version: str) -> Printer:
    if served.custom:
        return printer_of_custom(served.columns.get(version, ()))
    return PRINTERS.get(served.resource.qualified, PRINTERS[""])
