"""What IAM policies allow, roughly: enough to tell whether a role was ever given an action.

Where AWS cannot be asked to simulate, a role's own policies are read. Conditions, boundaries and
organisations' policies are not looked at: a statement with a condition neither allows nor denies for sure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from fairlead.nodegroups.aws.state import Access

__all__ = ["decide", "statements_of"]


def statements_of(policy: Any) -> list[Mapping[str, Any]]:
    """The statements of a policy document, given as data or as JSON."""
    document = json.loads(policy) if isinstance(policy, str) else policy
    statements = document.get("Statement") or []
    return list(statements) if isinstance(statements, list) else [statements]


def decide(action: str, statements: Iterable[Mapping[str, Any]], resource: str = "*") -> Access:
    """Whether statements allow an action on a resource; a denial anywhere wins.

    >>> decide("eks:DescribeNodegroup", [{"Effect": "Allow", "Action": "eks:Describe*", "Resource": "*"}])
    'allowed'
    >>> decide("eks:DescribeNodegroup", [{"Effect": "Allow", "Action": "autoscaling:*", "Resource": "*"}])
    'denied'
    """
    found: Access = "denied"
    for statement in statements:
        if not _about(action, statement) or not _covers(resource, statement):
            continue
        sure = not statement.get("Condition")
        if statement.get("Effect") == "Deny" and sure:
            return "denied"
        if statement.get("Effect") == "Allow":
            found = "allowed" if sure or found == "allowed" else "unknown"
    return found


def _about(action: str, statement: Mapping[str, Any]) -> bool:
    if "NotAction" in statement:
        return not _among(action, _listed(statement["NotAction"]))
    return _among(action, _listed(statement.get("Action")))


def _covers(resource: str, statement: Mapping[str, Any]) -> bool:
    if "NotResource" in statement:
        return not _among(resource, _listed(statement["NotResource"]))
    # What names no resource at all (as in a policy cut short) is taken to mean all.
    return _among(resource, _listed(statement.get("Resource", "*")))


def _among(action: str, patterns: Sequence[str]) -> bool:
    # IAM does not tell upper from lower case in actions; its * and ? are a shell's, but [ is not special.
    escaped = (pattern.lower().replace("[", "[[]") for pattern in patterns)
    return any(fnmatchcase(action.lower(), pattern) for pattern in escaped)


def _listed(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]
