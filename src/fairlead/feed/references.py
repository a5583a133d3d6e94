"""What users write into a pod's metadata, checked before it becomes part of a path or is remembered.

At admission the API server has not validated a pod yet, and of an owner reference it never checks more than
that nothing is empty. So lengths and alphabets are checked here, by the rules that hold for whatever really
exists: then what is remembered by a name that a user chose is never longer than a name.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any

from fairlead.errors import BadObject
from fairlead.kube.meta import ObjectMeta, OwnerReference

LONGEST = 253
"""Characters of a name, and of what a door itself writes into an annotation."""
_LABEL_VALUE = 63
_LABEL_KEY = 253 + 1 + 63
_UID = 128
_GROUP = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*"
_API_VERSION = re.compile(rf"(?:(?=[^/]{{1,253}}/){_GROUP}/)?[a-z]([-a-z0-9]{{0,61}}[a-z0-9])?", re.ASCII)
_KIND = re.compile(r"[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?", re.ASCII)
_NAME = re.compile(rf"(?!\.{{1,2}}$)[^/%\x00-\x20\x7f]{{1,{LONGEST}}}")


def is_valid(reference: OwnerReference) -> bool:
    """Whether there can be such an owner.

    >>> is_valid(OwnerReference("Rollout", "web", "u", "argoproj.io/v1alpha1"))
    True
    >>> is_valid(OwnerReference("Rollout", "web", "u", "../../api/v1"))
    False
    """
    return (
        _KIND.fullmatch(reference.kind) is not None
        and _API_VERSION.fullmatch(reference.api_version) is not None
        and _NAME.fullmatch(reference.name) is not None
        and len(reference.uid) <= _UID
    )


def check_names(metadata: ObjectMeta) -> None:
    """BadObject where a name or label of a pod is longer than the API server will allow."""
    for field, text, most in (
        ("metadata.name", metadata.name, LONGEST),
        ("metadata.generateName", metadata.generate_name, LONGEST),
        ("metadata.namespace", metadata.namespace, _LABEL_VALUE),
        ("metadata.uid", metadata.uid, _UID),
    ):
        if len(text) > most:
            raise BadObject("Pod", field, f"longer than {most} characters")
    for key, value in metadata.labels.items():
        if len(key) > _LABEL_KEY or len(value) > _LABEL_VALUE:
            raise BadObject("Pod", "metadata.labels", f"{key[:_LABEL_VALUE]!r} or its value is too long")


def keep_newest(remembered: MutableMapping[Any, Any], most: int) -> None:
    """Forget what was remembered first, until there are at most this many."""
    while len(remembered) > most:
        del remembered[next(iter(remembered))]
