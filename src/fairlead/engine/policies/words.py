"""What a held pod is told of its tier, behind the usual text."""

from __future__ import annotations

from fairlead.engine.policies.reach import Reach
from fairlead.engine.policies.sending import Sent

__all__ = ["words"]


def words(sent: Sent, reach: Reach) -> str:
    """Which tier a pod waits for, and why; "" where no tier keeps it waiting."""
    policy, choice = sent.policy, sent.choice
    if policy.spec.enforce == "preferred":
        return ""
    if choice.tier is None:
        return f"Policy {policy.name}: every tier has reached its max."
    tier = policy.spec.tiers[choice.tier].name
    match choice.why:
        case "single":
            why = "where single replicas go"
        case "min":
            why = "whose min must be kept"
        case "fallback":
            why = "because its own is unavailable"
        case "stuck":
            why = "no other has room"
        case _:
            after = "" if choice.firm else f"; the next after {policy.spec.fallback.after}"
            why = f"whose min it is part of{after}" if choice.firm else f"by its place in the order{after}"
    trouble = reach.trouble(choice.tier)
    return f"Policy {policy.name}: waits for tier {tier}, {why}" + (f" ({trouble})." if trouble else ".")
