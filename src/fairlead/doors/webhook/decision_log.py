"""What is logged of slots that were given: one line and one count for all pods admitted together.

A line for every pod would say little more, most pods having no name yet, and cost as much as its patch.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from fairlead.doors.webhook.metrics import Metrics
from fairlead.policy.groups.member import Place
from fairlead.policy.slots.placing import Placing, in_words

_log = structlog.get_logger(__name__)


_MOST = 3  # names in a line


def tell(metrics: Metrics, given: Sequence[tuple[str, Place, Placing]]) -> None:
    """Of slots that were given in one group; to pods by name, or by how their names will begin."""
    by_tier: dict[str, list[int]] = {}
    for _, place, placing in given:
        tier = placing.choice.tier
        name = "" if tier is None else place.policy.spec.tiers[tier].name
        by_tier.setdefault(name, []).append(placing.slot)
    key = given[0][1].key
    names = sorted({name for name, _, _ in given})
    for name, slots in by_tier.items():
        metrics.slots.labels(key.policy, name).inc(len(slots))
    _log.info(
        "admitted",
        group=str(key),
        pod=", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" if len(names) > _MOST else ""),
        pods=len(given),
        slots=in_words(by_tier),
        reason=", ".join(sorted({placing.choice.why for _, _, placing in given})),
    )
