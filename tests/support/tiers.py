"""Random policies and nodes, and an oracle for node affinity that knows nothing of how terms are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from fairlead.kube.selectors import Requirement
from fairlead.policy.rule.split import Demand
from support.policies import policy

__all__ = ["NODES", "NodeLike", "demands", "matched", "node_terms", "policies", "runs_on"]

NodeLike = tuple[str, dict[str, str]]

_NAMES = ("n1", "n2", "n3", "n4")
_LABELS = {"capacity": ("spot", "safe"), "zone": ("a", "b"), "gpu": ("yes",)}

NODES: list[NodeLike] = [
    (name, {key: value for key, value in zip(_LABELS, values, strict=True) if value})
    for name in _NAMES
    for values in (
        (capacity, zone, gpu)
        for capacity in ("", "spot", "safe")
        for zone in ("", "a", "b")
        for gpu in ("", "yes")
    )
]
"""Every name with every combination of labels: not a cluster, but all the nodes there can be."""

_some_labels = st.fixed_dictionaries(
    {}, optional={key: st.sampled_from(values) for key, values in _LABELS.items()}
)
_some_names = st.lists(st.sampled_from(_NAMES), max_size=2, unique=True)
_percent = st.integers(0, 100).map("{}%".format)
_min = st.one_of(st.just(0), st.integers(0, 6), _percent)
_max = st.one_of(st.none(), st.none(), st.integers(0, 12), _percent)

demands = st.one_of(
    st.just(Demand()),
    st.builds(Demand, min_available=st.integers(0, 12)),
    st.builds(Demand, min_percent=st.integers(0, 100)),
    st.builds(Demand, max_unavailable=st.integers(0, 12)),
    st.builds(Demand, max_unavailable_percent=st.integers(0, 100)),
)
"""What budgets demand."""


@st.composite
def policies(draw: st.DrawFn, **spec: Any) -> Any:
    """A policy of one to four tiers by label, name, both or neither; at most one takes the rest."""
    tiers: list[dict[str, Any]] = []
    rest = False
    for index in range(draw(st.integers(1, 4))):
        tier: dict[str, Any] = {"name": f"t{index}", "nodes": draw(_some_labels), "names": draw(_some_names)}
        if not tier["nodes"] and not tier["names"]:
            if rest:
                tier["names"] = [draw(st.sampled_from(_NAMES))]
            rest = True
        tiers.append(tier | draw(_amounts()))
    return policy("random", *tiers, **spec)


@st.composite
def _amounts(draw: st.DrawFn) -> dict[str, Any]:
    least, most = draw(_min), draw(_max)
    if isinstance(least, int) and isinstance(most, int):
        least, most = sorted((least, most))
    return {"min": least} | ({} if most is None else {"max": most})


def _requirements(field: bool) -> st.SearchStrategy[dict[str, Any]]:
    if field:
        return st.builds(
            lambda operator, name: {"key": "metadata.name", "operator": operator, "values": [name]},
            st.sampled_from(["In", "NotIn"]),
            st.sampled_from(_NAMES),
        )
    keyed = st.sampled_from([(key, value) for key, values in _LABELS.items() for value in values])
    return st.one_of(
        st.builds(
            lambda operator, pair: {"key": pair[0], "operator": operator, "values": [pair[1]]},
            st.sampled_from(["In", "NotIn"]),
            keyed,
        ),
        st.builds(
            lambda operator, key: {"key": key, "operator": operator},
            st.sampled_from(["Exists", "DoesNotExist"]),
            st.sampled_from(list(_LABELS)),
        ),
    )


node_terms = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "matchExpressions": st.lists(_requirements(False), max_size=2),
            "matchFields": st.lists(_requirements(True), max_size=1),
        },
    ),
    max_size=3,
)
"""What users write as nodeSelectorTerms, terms that match nothing included."""


def matched(terms: list[dict[str, Any]], node: NodeLike) -> bool:
    """Whether a node satisfies one of the terms. An empty term is satisfied by none."""
    name, labels = node
    return any(_holds(term, name, labels) for term in terms)


def runs_on(pod: Mapping[str, Any], node: NodeLike) -> bool:
    """Whether a pod's nodeSelector and required node affinity let it onto a node."""
    spec = pod["spec"]
    if any(node[1].get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or matched(required["nodeSelectorTerms"], node)


def _holds(term: dict[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(_admits(one, labels) for one in expressions) and all(
        _admits(one, {"metadata.name": name}) for one in fields
    )


def _admits(part: dict[str, Any], labels: Mapping[str, str]) -> bool:
    return Requirement(part["key"], part["operator"], tuple(part.get("values", ()))).admits(labels)
