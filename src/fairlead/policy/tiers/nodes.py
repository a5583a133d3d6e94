"""Which nodes a tier is, as a question about one node and as node affinity terms. Both say the same.

A node belongs to the first tier that names it or whose labels it carries; the tier with neither takes
what no other claims. As affinity that means: own names or labels, and *not* those of the tiers that come
first (of all others, for the tier that takes the rest). Terms are ORed and their parts ANDed, so "not
these two labels together" needs a term for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fairlead.policy.rule.model import PlacementPolicy, Tier

Term = dict[str, Any]
"""A nodeSelectorTerm as plain data: ``matchExpressions`` and ``matchFields``, those that are not empty."""

_NAME = "metadata.name"


def tier_of_node(policy: PlacementPolicy, name: str, labels: Mapping[str, str]) -> int | None:
    """The index of the tier that a node belongs to; None: none of this policy's.

    >>> from fairlead.policy.rule.model import read_policy
    >>> burst = read_policy({"apiVersion": "fairlead.dev/v1alpha1", "kind": "PlacementPolicy",
    ...     "metadata": {"name": "burst"}, "spec": {"tiers": [
    ...         {"name": "base", "max": 10}, {"name": "burst", "names": ["virtual"]}]}})
    >>> tier_of_node(burst, "virtual", {}), tier_of_node(burst, "n1", {})
    (1, 0)
    """
    rest = None
    for index, tier in enumerate(policy.spec.tiers):
        if tier.rest:
            rest = index
        elif name in tier.names or _carries(tier, labels):
            return index
    return rest


def terms_of_tier(policy: PlacementPolicy, index: int) -> tuple[Term, ...]:
    """The node selector terms, ORed, that exactly the nodes of a tier match.

    Empty for a tier that is all nodes: nothing need be required then. A tier none of whose nodes are
    left to it by those before has one term, which no node matches.
    """
    tiers = policy.spec.tiers
    tier = tiers[index]
    others = [one for one in tiers if not one.rest and one is not tier] if tier.rest else list(tiers[:index])
    found: list[_Conjunction] = [()] if tier.rest else _claims(tier)
    for other in others:
        if not other.rest:
            found = _distinct(
                merged
                for have in found
                for refusal in _refusals(other)
                if (merged := _both(have, refusal)) is not None
            )
    if not found:
        return (_term(_NOWHERE),)
    return () if found == [()] else tuple(_term(one) for one in found)


def intersect(existing: list[Term], wanted: tuple[Term, ...]) -> list[Term]:
    """Terms that match what both match; existing terms that already imply `wanted` stay as they are.

    So doing it twice changes nothing. An empty term matches no node and must not begin to match one.
    """
    if not wanted:
        return existing
    found: list[Term] = []
    for term in existing:
        if not _parts(term) or any(_parts(one) <= _parts(term) for one in wanted):
            joined = [term]
        else:
            every = [_joined(term, one) for one in wanted]
            # Two different names for one node match nothing. One such term stays: a list must not be empty.
            joined = [one for one in every if not _conflicting(one)] or every[:1]
        found += [one for one in joined if one not in found]
    return found


def nowhere() -> tuple[Term, ...]:
    """The term of a pod that belongs to no tier, beyond every max: no node matches it."""
    return (_term(_NOWHERE),)


class _Requirement(NamedTuple):
    """One part of a term; `field` tells ``matchFields`` (one value each) from ``matchExpressions``."""

    field: bool
    key: str
    operator: str
    values: tuple[str, ...] = ()


_Conjunction = tuple[_Requirement, ...]

# Said as a label, so that a user who wonders about a pending pod finds a word for it.
_NOWHERE = (_Requirement(False, "fairlead.dev/in-no-tier", "Exists"),)


def _carries(tier: Tier, labels: Mapping[str, str]) -> bool:
    return bool(tier.nodes) and all(labels.get(key) == value for key, value in tier.nodes.items())


def _claims(tier: Tier) -> list[_Conjunction]:
    """A tier's own names and labels, as alternatives."""
    found: list[_Conjunction] = [(_Requirement(True, _NAME, "In", (name,)),) for name in tier.names]
    if tier.nodes:
        found.append(
            tuple(_Requirement(False, key, "In", (value,)) for key, value in sorted(tier.nodes.items()))
        )
    return found


def _refusals(tier: Tier) -> list[_Conjunction]:
    """What a node that the tier does not claim looks like, as alternatives: the negation of `_claims`."""
    unnamed = tuple(_Requirement(True, _NAME, "NotIn", (name,)) for name in tier.names)
    if not tier.nodes:
        return [unnamed]
    return [
        (*unnamed, _Requirement(False, key, "NotIn", (value,))) for key, value in sorted(tier.nodes.items())
    ]


def _both(have: _Conjunction, refusal: _Conjunction) -> _Conjunction | None:
    """Both at once, in as few parts as say it; None when that cannot be."""
    found = list(have)
    for wanted in refusal:
        same = [one for one in found if one[:2] == wanted[:2]]
        chosen = next((one for one in same if one.operator == "In"), None)
        if chosen is not None:
            if chosen.values == wanted.values:
                return None
            continue  # another value than the refused one is asked for already
        refused = next((one for one in same if one.operator == "NotIn" and not one.field), None)
        if refused is not None:
            values = tuple(dict.fromkeys(refused.values + wanted.values))
            found[found.index(refused)] = refused._replace(values=values)
        elif wanted not in found:
            found.append(wanted)
    return tuple(found)


def _distinct(terms: Iterable[_Conjunction]) -> list[_Conjunction]:
    """Alternatives without those that another one includes: fewer parts match more."""
    every = list(dict.fromkeys(terms))
    return [one for one in every if not any(set(other) < set(one) for other in every)]


def _term(conjunction: _Conjunction) -> Term:
    found: Term = {}
    for requirement in conjunction:
        part: dict[str, Any] = {"key": requirement.key, "operator": requirement.operator}
        if requirement.values:
            part["values"] = list(requirement.values)
        found.setdefault("matchFields" if requirement.field else "matchExpressions", []).append(part)
    return found


def _parts(term: Term) -> set[_Requirement]:
    return {
        _Requirement(field, part["key"], part["operator"], tuple(part.get("values") or ()))
        for field, name in ((False, "matchExpressions"), (True, "matchFields"))
        for part in term.get(name) or ()
        if part is not None
    }


def _joined(term: Term, more: Term) -> Term:
    """A term with the parts of another that it lacks, after its own."""
    found = dict(term)
    for name in ("matchExpressions", "matchFields"):
        have = list(term.get(name) or ())
        lacking = [part for part in more.get(name) or () if part not in have]
        if lacking:
            found[name] = have + lacking
    return found


def _conflicting(term: Term) -> bool:
    names = [part for part in _parts(term) if part.field and part.key == _NAME]
    named = {part.values for part in names if part.operator == "In"}
    refused = {part.values for part in names if part.operator == "NotIn"}
    return len(named) > 1 or bool(named & refused)
