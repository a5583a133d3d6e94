"""What the rules found: findings per rule, put together into one verdict per node.

Only the first rule that refuses a node reports there, with all its findings; that is how kube-scheduler
counts reasons, and preemption needs to know whether evictions could help (`unresolvable`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.engine.rules.reasons import NotAmongNames, Reason, Rejection, available_message
from fairlead.engine.snapshot.nodes import Bools, NodeColumns

NO_NODES = "no nodes available to schedule pods"


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason and the slots where it holds. `unresolvable`: where no eviction could change that."""

    reason: Reason
    slots: Bools
    unresolvable: Bools | bool = False


class Verdicts:
    """Per node: fits, or the first refusing rule with its reasons.

    `rejection` is set when the pod was refused before nodes were looked at; then no node is feasible
    and none has reasons of its own.
    """

    __slots__ = ("_findings", "_nodes", "feasible", "first", "rejection", "rules", "unresolvable")

    def __init__(
        self,
        nodes: NodeColumns,
        rules: tuple[str, ...],
        findings: list[tuple[int, Finding]],
        rejection: Rejection | None,
        named: Bools | None,
    ) -> None:
        """`findings`: (index into `rules`, finding), in the rules' order; for `named` see `NotAmongNames`."""
        self._nodes = nodes
        self.rules = rules
        self.rejection = rejection
        self.first = np.full(nodes.capacity, -1, np.int16)
        self.unresolvable = np.zeros(nodes.capacity, np.bool_)
        self._findings = findings
        if named is not None:
            # Nodes that the pod's own affinity leaves out by name are never shown to the rules.
            names = Finding(NotAmongNames(), ~named & nodes.alive, True)
            self._findings = findings = [(len(rules), names), *findings]
        for index, finding in findings:
            new = finding.slots & ((self.first == -1) | (self.first == index))
            self.first[new] = index
            self.unresolvable |= new & finding.unresolvable
        if rejection is not None:
            self.feasible = np.zeros(nodes.capacity, np.bool_)
            self.unresolvable[:] = not rejection.resolvable
        else:
            self.feasible = nodes.alive & (self.first == -1)

    def reasons(self, slot: int) -> tuple[Reason | Rejection, ...]:
        """Why a node is refused; empty when it is feasible."""
        if self.rejection is not None:
            return (self.rejection,)
        index = self.first[slot]
        return tuple(found.reason for rule, found in self._findings if rule == index and found.slots[slot])

    def rule(self, slot: int) -> str:
        """The name of the rule that refuses a node, empty when none does."""
        if self.rejection is not None:
            return self.rejection.rule
        index = int(self.first[slot])
        if index < 0:
            return ""
        return self.rules[index] if index < len(self.rules) else "NodeAffinity"

    def counts(self) -> dict[str, int]:
        """On how many nodes each reason, in words, holds."""
        counts: dict[str, int] = {}
        for index, finding in self._findings:
            number = int(np.count_nonzero(finding.slots & (self.first == index) & self._nodes.alive))
            if number:
                text = str(finding.reason)
                counts[text] = counts.get(text, 0) + number
        return counts

    def message(self) -> str | None:
        """kube-scheduler's sentence, without what it says of preemption; None when some node is feasible."""
        if not self._nodes.count and (self.rejection is None or not self.rejection.sentence):
            return NO_NODES
        if self.rejection is not None:
            return self.rejection.sentence or f"0/{self._nodes.count} nodes are available: {self.rejection}."
        if self.feasible.any():
            return None
        return available_message(self._nodes.count, self.counts())
