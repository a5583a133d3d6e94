"""Label selectors (as objects and as query strings), field selectors, node selector terms' operators.

One evaluator serves labels everywhere; what differs upstream between label selectors and node
selectors (Gt and Lt, empty terms) is said where it is decided.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fairlead.errors import BadInput, BadObject
from fairlead.kube.meta import Object


class Requirement(Object, frozen=True, gc=False):
    """One expression: key, operator (In, NotIn, Exists, DoesNotExist; for nodes also Gt, Lt), values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy this expression; an unknown operator admits nothing."""
        held = labels.get(self.key)
        match self.operator:
            case "In":
                return held is not None and held in self.values
            case "NotIn":
                return held is None or held not in self.values
            case "Exists":
                return held is not None
            case "DoesNotExist":
                return held is None
            case "Gt" | "Lt":
                # A value that is not an integer never matches, on either side.
                if held is None or len(self.values) != 1:
                    return False
                have, want = _integer(held), _integer(self.values[0])
                if have is None or want is None:
                    return False
                return have > want if self.operator == "Gt" else have < want
        return False


class LabelSelector(Object, frozen=True, gc=False):
    """``matchLabels`` and ``matchExpressions``, all of which must hold. Empty selects everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether it has no requirement at all."""
        return not self.match_labels and not self.match_expressions


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy a selector. An absent selector selects nothing, an empty one everything."""
    if selector is None:
        return False
    for key, wanted in selector.match_labels.items():
        if labels.get(key) != wanted:
            return False
    return all(requirement.admits(labels) for requirement in selector.match_expressions)


def check_selector(object: str, field: str, selector: LabelSelector | None) -> None:  # noqa: A002 (as in errors)
    """Raise BadObject for a selector that the API server would not have let in."""
    if selector is None:
        return
    for requirement in selector.match_expressions:
        match requirement.operator:
            case "In" | "NotIn":
                problem = "" if requirement.values else "has no values"
            case "Exists" | "DoesNotExist":
                problem = "has values" if requirement.values else ""
            case _:
                problem = "is not an operator of label selectors"
        if problem:
            raise BadObject(object, f"{field}.{requirement.key}", f"{requirement.operator!r} {problem}")


def _integer(text: str) -> int | None:
    # What strconv.ParseInt accepts: an optional sign and digits, within int64.
    found = re.fullmatch(r"([+-]?)0*(\d{1,19})", text, re.ASCII)
    if found is None:
        return None
    number = int(found[1] + found[2])
    return number if -(2**63) <= number < 2**63 else None


# What stands between commas, those in parentheses excepted.
_PARTS = re.compile(r"(?:[^,(]|\([^)]*\)?)+")
_SET = re.compile(r"\s*([A-Za-z0-9./_-]+)\s+(in|notin)\s*\(([^()]*)\)\s*")
_PAIR = re.compile(r"\s*([A-Za-z0-9./_-]+)\s*(==|!=|=)\s*([A-Za-z0-9._-]*)\s*")
_INT = re.compile(r"\s*([A-Za-z0-9./_-]+)\s*([<>])\s*(-?\d+)\s*")
_KEY = re.compile(r"\s*(!?)\s*([A-Za-z0-9./_-]+)\s*")


def parse_label_selector(text: str) -> LabelSelector:
    """The selector that a ``labelSelector=`` query parameter or kubectl's ``-l`` spells.

    >>> selector = parse_label_selector("app=web,tier in (a,b),!old")
    >>> matches(selector, {"app": "web", "tier": "b"})
    True
    """
    requirements = []
    for part in _PARTS.findall(text):
        if not part.strip():
            continue
        if found := _SET.fullmatch(part):
            values = tuple(sorted(value.strip() for value in found[3].split(",")))
            requirements.append(Requirement(found[1], "In" if found[2] == "in" else "NotIn", values))
        elif found := _PAIR.fullmatch(part):
            requirements.append(Requirement(found[1], "NotIn" if found[2] == "!=" else "In", (found[3],)))
        elif found := _INT.fullmatch(part):
            requirements.append(Requirement(found[1], "Gt" if found[2] == ">" else "Lt", (found[3],)))
        elif found := _KEY.fullmatch(part):
            requirements.append(Requirement(found[2], "DoesNotExist" if found[1] else "Exists"))
        else:
            raise BadInput(f"label selector {text!r}: cannot read {part.strip()!r}")
    return LabelSelector(match_expressions=tuple(requirements))


def selector_text(selector: LabelSelector) -> str:
    """A selector as kubectl's ``-l`` spells it: `parse_label_selector` reads it back.

    >>> selector_text(LabelSelector({"app": "web"}, (Requirement("tier", "NotIn", ("a", "b")),)))
    'app=web,tier notin (a,b)'
    """
    parts = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    return ",".join([*parts, *map(_requirement_text, selector.match_expressions)])


def _requirement_text(requirement: Requirement) -> str:
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case "Gt" | "Lt" as operator:
            return f"{key}{'>' if operator == 'Gt' else '<'}{','.join(values)}"
        case operator if len(values) == 1:
            return f"{key}{'=' if operator == 'In' else '!='}{values[0]}"
        case operator:
            return f"{key} {operator.lower()} ({','.join(values)})"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Conjunction of ``path=value`` and ``path!=value``."""

    terms: tuple[tuple[str, bool, str], ...]

    def admits(self, field: Callable[[str], str]) -> bool:
        """Whether the object whose fields `field` reads (absent: empty string) satisfies all terms."""
        return all((field(path) == wanted) is equal for path, equal, wanted in self.terms)


def parse_field_selector(text: str) -> FieldSelector:
    """The selector that a ``fieldSelector=`` query parameter spells.

    >>> parse_field_selector("spec.nodeName=n1,status.phase!=Failed").terms
    (('spec.nodeName', True, 'n1'), ('status.phase', False, 'Failed'))
    """
    terms = []
    for part in text.split(","):
        if not part:
            continue
        found = re.fullmatch(r"([A-Za-z0-9.]+)(==|!=|=)(.*)", part)
        if found is None:
            raise BadInput(f"field selector {text!r}: cannot read {part!r}")
        terms.append((found[1], found[2] != "!=", found[3]))
    return FieldSelector(tuple(terms))
