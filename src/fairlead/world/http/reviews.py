"""Access and token reviews: everybody may do everything here, and says so in the right shape."""

from __future__ import annotations

from typing import Any

__all__ = ["answer_review", "is_review"]

Object = dict[str, Any]

_USER = {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]}


def is_review(kind: str) -> bool:
    """Whether creating this kind asks a question instead of storing something."""
    return kind.endswith(("Review",))


def answer_review(kind: str, api_version: str, body: Object) -> Object:
    """The review with its answer."""
    status: Object
    match kind:
        case "TokenReview":
            status = {"authenticated": bool((body.get("spec") or {}).get("token")), "user": _USER}
        case "SelfSubjectReview":
            status = {"userInfo": _USER}
        case "SelfSubjectRulesReview":
            rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            status = {
                "resourceRules": [rule],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": False,
            }
        case _:
            status = {"allowed": True}
    metadata = body.get("metadata") or {}
    return {**body, "kind": kind, "apiVersion": api_version, "metadata": metadata, "status": status}
