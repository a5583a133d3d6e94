"""A slot token counts only where a ledger has it: an annotation is what any user writes."""

from __future__ import annotations

from fairlead.policy.decide.filter.tokens import Tokens
from fairlead.policy.slots.ledger import Entry, Ledger
from support.members import KEY, member

KNOWN = Ledger(KEY, (Entry(1, "spot", "real", 0.0),))


def test_a_token_that_the_groups_ledger_has_is_believed() -> None:
    tokens = Tokens()
    tokens.put(KNOWN)
    admitted = member("a", token="real", slot=1, tier="spot")
    assert tokens.believed(KEY, admitted) is admitted
    assert not tokens.asks(KEY, admitted.uid, "real")


def test_a_mark_that_no_ledger_has_says_nothing_but_where_the_pod_is() -> None:
    tokens = Tokens()
    tokens.put(KNOWN)
    forged = tokens.believed(KEY, member("a", token="forged", slot=1, tier="spot", placed=False))
    assert (forged.token, forged.slot, forged.tier) == ("", None, "")
    placed = tokens.believed(KEY, member("a", token="forged", slot=1, tier="spot", placed=True))
    assert placed.tier == "spot"


def test_a_ledger_is_read_once_for_a_pod_and_what_was_found_counts() -> None:
    tokens = Tokens()
    admitted = member("a", token="real", slot=1)
    assert tokens.asks(KEY, admitted.uid, "real")
    tokens.looked_up(admitted.uid, "")
    assert not tokens.asks(KEY, admitted.uid, "real")
    assert not tokens.believed(KEY, admitted).token
    tokens.looked_up(admitted.uid, "real")
    assert tokens.believed(KEY, admitted).token == "real"


def test_a_ledger_that_is_gone_vouches_for_no_token() -> None:
    tokens = Tokens()
    tokens.put(KNOWN)
    assert tokens.drop(f"{KEY.namespace}/{KEY.ledger_name}") == KEY
    assert tokens.drop(f"{KEY.namespace}/{KEY.ledger_name}") is None
    assert not tokens.believed(KEY, member("a", token="real", slot=1)).token
