"""Which slot tokens are real: those that a ledger has.

A pod with a token was admitted by the webhook, and the extender leaves it alone. But an annotation is what
any user writes, so a token counts only if the ledger of the pod's group has it.
"""

from __future__ import annotations

from dataclasses import replace

from fairlead.policy.groups.member import GroupKey, Member
from fairlead.policy.slots.ledger import Ledger

_LOOKED_UP = 10_000  # pods of which we remember that their token was looked up


class Tokens:
    """See the module. Ledgers go by ``namespace/name``."""

    def __init__(self) -> None:
        self._ledgers: dict[str, tuple[GroupKey, frozenset[str]]] = {}
        self._looked_up: dict[str, str] = {}  # by the pod's uid: the token, if its ledger has it

    def put(self, ledger: Ledger) -> None:
        """A ledger as it now is."""
        key = ledger.key
        tokens = frozenset(entry.token for entry in ledger.entries)
        self._ledgers[f"{key.namespace}/{key.ledger_name}"] = key, tokens

    def drop(self, name: str) -> GroupKey | None:
        """A ledger is gone; whose it was."""
        kept = self._ledgers.pop(name, None)
        return kept[0] if kept is not None else None

    def looked_up(self, uid: str, token: str) -> None:
        """A pod's ledger was read, beyond what `put` reported: it has this token; "": not the pod's."""
        self._looked_up[uid] = token
        if len(self._looked_up) > _LOOKED_UP:
            del self._looked_up[next(iter(self._looked_up))]

    def asks(self, key: GroupKey, uid: str, token: str) -> bool:
        """Whether a pod's ledger is to be read: its token is not known, and was not looked up yet."""
        return bool(token) and uid not in self._looked_up and not self._known(key, uid, token)

    def believed(self, key: GroupKey, member: Member) -> Member:
        """A pod as its group sees it, without a mark that no ledger has: a user can write one, too."""
        if not member.token or self._known(key, member.uid, member.token):
            return member
        return replace(member, token="", slot=None, tier=member.tier if member.placed else "")

    def _known(self, key: GroupKey, uid: str, token: str) -> bool:
        kept = self._ledgers.get(f"{key.namespace}/{key.ledger_name}")
        return (kept is not None and token in kept[1]) or self._looked_up.get(uid) == token
