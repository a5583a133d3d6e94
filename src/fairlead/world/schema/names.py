"""Names, label keys and values: their syntax, and the API server's words when it is broken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fairlead.world.api_errors import FieldError, field_forbidden, invalid_value, required, too_long

Object = dict[str, Any]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_QUALIFIED})?"

_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN}')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    f"'{_LABEL}')"
)
_QUALIFIED_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    f"'{_QUALIFIED}')"
)
_SLASHES = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    f"'{_QUALIFIED}') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    f"for validation is '{_VALUE}')"
)

_RE_LABEL = re.compile(_LABEL)
_RE_SUBDOMAIN = re.compile(_SUBDOMAIN)
_RE_QUALIFIED = re.compile(_QUALIFIED)
_RE_VALUE = re.compile(_VALUE)

# Kinds whose names are one DNS label; all others take a subdomain.
_LABEL_KINDS = frozenset({"Namespace", "Service"})
_PATH_KINDS = frozenset({"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"})
_MAX_ANNOTATIONS = 256 * 1024
_OWNER_FIELDS = (
    ("apiVersion", "version must not be empty"),
    ("kind", "must not be empty"),
    ("name", "must not be empty"),
    ("uid", "must not be empty"),
)


def check_metadata(item: Object) -> list[FieldError]:
    """What is wrong with an object's metadata."""
    metadata, errors = item["metadata"], []
    name, kind = metadata.get("name", ""), item["kind"]
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    elif kind in _PATH_KINDS:
        if "/" in name or "%" in name or name in (".", ".."):
            errors.append(invalid_value("metadata.name", name, "may not contain '/'"))
    elif kind in _LABEL_KINDS and "." in name:
        errors.append(invalid_value("metadata.name", name, "must not contain dots"))
    elif kind in _LABEL_KINDS:
        errors += [invalid_value("metadata.name", name, why) for why in _label_problems(name)]
    else:
        errors += [invalid_value("metadata.name", name, why) for why in _subdomain_problems(name)]
    labels = metadata.get("labels")
    if labels:
        errors += check_labels(labels, "metadata.labels")
    annotations = metadata.get("annotations")
    if annotations:
        errors += _check_annotations(annotations)
    for owner in metadata.get("ownerReferences") or ():
        errors += [
            invalid_value(f"metadata.ownerReferences.{field}", "", why)
            for field, why in _OWNER_FIELDS
            if not owner.get(field)
        ]
    errors += _check_controllers(metadata.get("ownerReferences") or ())
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        path = f"metadata.finalizers[{index}]"
        problems = check_key("metadata.finalizers", finalizer)
        errors += problems
        if not problems and "/" not in finalizer and finalizer not in ("orphan", "foregroundDeletion"):
            why = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid_value(path, finalizer, why))
    return errors


def _check_controllers(owners: Sequence[Object]) -> list[FieldError]:
    names = [owner.get("name", "") for owner in owners if owner.get("controller")]
    if len(names) < 2:
        return []
    why = (
        'Only one reference can have Controller set to true. Found "true" in references for '
        f"{names[0]} and {names[1]}"
    )
    return [invalid_value("metadata.ownerReferences", owners, why)]


def check_labels(labels: dict[str, str], path: str) -> list[FieldError]:
    """What is wrong with a map of labels."""
    errors = []
    for key, value in labels.items():
        errors += check_key(path, key)
        if len(value) > 63:
            errors.append(invalid_value(path, value, "must be no more than 63 bytes"))
        elif _RE_VALUE.fullmatch(value) is None:
            errors.append(invalid_value(path, value, _VALUE_RULE))
    return errors


def check_selector(selector: Object | None, path: str) -> list[FieldError]:
    """What is wrong with a label selector."""
    held = selector or {}
    errors = check_labels(held.get("matchLabels") or {}, f"{path}.matchLabels")
    return errors + check_expressions(held.get("matchExpressions") or (), f"{path}.matchExpressions")


def check_expressions(terms: Sequence[Object], path: str, *, compared: bool = False) -> list[FieldError]:
    """What is wrong with expressions over labels; `compared`: numbers may be, as in node selectors."""
    errors = []
    for index, term in enumerate(terms):
        here = f"{path}[{index}]"
        operator, values = term.get("operator", ""), term.get("values") or ()
        if operator in ("In", "NotIn"):
            if not values:
                why = "must be specified when `operator` is 'In' or 'NotIn'"
                errors.append(required(f"{here}.values", why))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(field_forbidden(f"{here}.values", why))
        elif compared and operator in ("Gt", "Lt"):
            if len(values) != 1:
                why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                errors.append(required(f"{here}.values", why))
        else:
            errors.append(invalid_value(f"{here}.operator", operator, "not a valid selector operator"))
        errors += check_key(f"{here}.key", term.get("key", ""))
    return errors


def check_key(path: str, key: str) -> list[FieldError]:
    """What is wrong with a label key, or any other qualified name, that stands at a path."""
    return [invalid_value(path, key, why) for why in _key_problems(key)]


def label_errors(path: str, name: str) -> list[FieldError]:
    """What is wrong with a name that must be one DNS label."""
    return [invalid_value(path, name, why) for why in _label_problems(name)]


def _label_problems(name: str) -> list[str]:
    problems = ["must be no more than 63 characters"] if len(name) > 63 else []
    return problems if _RE_LABEL.fullmatch(name) else [*problems, _LABEL_RULE]


def _subdomain_problems(name: str) -> list[str]:
    problems = ["must be no more than 253 characters"] if len(name) > 253 else []
    return problems if _RE_SUBDOMAIN.fullmatch(name) else [*problems, _SUBDOMAIN_RULE]


def _key_problems(key: str) -> list[str]:
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return [_SLASHES]
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif prefix and _RE_SUBDOMAIN.fullmatch(prefix) is None:
        problems.append(f"prefix part {_SUBDOMAIN_RULE}")
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append("name part must be no more than 63 bytes")
    if _RE_QUALIFIED.fullmatch(name) is None:
        problems.append(_QUALIFIED_RULE)
    return problems


def _check_annotations(annotations: dict[str, str]) -> list[FieldError]:
    errors = []
    for key in annotations:
        # Annotation keys are compared in lower case.
        errors += check_key("metadata.annotations", key.lower())
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _MAX_ANNOTATIONS:
        errors.append(too_long("metadata.annotations", _MAX_ANNOTATIONS))
    return errors
