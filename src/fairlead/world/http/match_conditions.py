"""The part of CEL that match conditions mostly use: comparisons of fields with text, joined by && or ||.

``request.namespace != 'kube-system' && !has(object.metadata.labels.skip)`` is understood; a function
call, a list or arithmetic is not, and says so.
"""

from __future__ import annotations

import re
from typing import Any

from fairlead.world.admission import AdmissionRequest

__all__ = ["holds"]

_COMPARISON = re.compile(r"""^([\w.\-\[\]'"/]+)\s*(==|!=)\s*(?:'([^']*)'|"([^"]*)"|(true|false))$""")
_HAS = re.compile(r"^(!?)\s*has\(([\w.\-\[\]'\"/]+)\)$")
_STEP = re.compile(r"""\.?([\w\-]+)|\[['"]([^'"]+)['"]\]""")


def holds(expression: str, request: AdmissionRequest, item: Any) -> bool:
    """Whether an expression is true of a request; ValueError when it is more than we understand."""
    return any(
        all(_term(term.strip(), request, item) for term in part.split("&&"))
        for part in expression.split("||")
    )


def _term(term: str, request: AdmissionRequest, item: Any) -> bool:
    if found := _HAS.match(term):
        return (_read(found[2], request, item) is not None) != bool(found[1])
    found = _COMPARISON.match(term)
    if found is None:
        raise ValueError(f"{term!r} is not supported: only comparisons and has() are")
    value = _read(found[1], request, item)
    wanted: Any = found[5] == "true" if found[5] else found[3] if found[3] is not None else found[4]
    return bool(value == wanted) == (found[2] == "==")


def _read(path: str, request: AdmissionRequest, item: Any) -> Any:
    steps = [first or second for first, second in _STEP.findall(path)]
    view: Any = {
        "object": item,
        "oldObject": request.old,
        "request": {
            "operation": request.operation,
            "namespace": request.namespace,
            "name": request.name,
            "subResource": request.subresource,
            "dryRun": request.dry_run,
            "userInfo": {"username": request.user},
            "resource": {"resource": request.resource.plural, "group": request.resource.group},
        },
    }
    for step in steps:
        view = view.get(step) if isinstance(view, dict) else None
    return view
