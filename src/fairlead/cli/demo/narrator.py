"""Puts what changes in a cluster in words: one line per change, and why, where the cluster says why.

It only watches. Members of a gang mostly have the same to say, so for them it is said once, of the gang.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from fairlead.cli.demo.observed import Observed, Thing

# Reason of a scheduler's event → what it says about the pod, and how it looks.
_SAID = {
    "WaitingForGang": ("waits", "yellow"),
    "Preempted": ("must make room", "magenta"),
    "GangIncomplete": ("is given up", "red"),
}


class Narrator:
    """Print every change of the observed cluster. `elapsed_s` is the cluster's time since the start."""

    def __init__(self, console: Console, observed: Observed, elapsed_s: Callable[[], float]) -> None:
        self._console = console
        self._observed = observed
        self._elapsed_s = elapsed_s
        self._told: dict[str, set[str]] = {}  # who → why it waits, as far as that was said
        self._started: dict[str, bool] = {}  # gang → whether all of it has a node
        self._gangs: dict[str, str] = {}  # pod → its gang
        self._opened = False
        observed.on_change.append(self._changed)

    def chapter(self, text: str) -> None:
        """A new part of the story."""
        self._console.print()
        self._console.print(Text(text, style="bold"))

    def address(self, address: str) -> None:
        """Where the same can be watched in a browser; each address works once."""
        text = "opened; for another browser:" if self._opened else "watch it in a browser:"
        self._opened = True
        self.say("", f"{text} {address}")

    def say(self, who: str, text: str, style: str = "") -> None:
        """One line, with the time since the start."""
        when = (f"{self._elapsed_s():6.1f} s  ", "dim")
        whom = (f"{who:<28} " if who else "", "cyan")
        self._console.print(Text.assemble(when, whom, (text, style)))

    def _changed(self, kind: str, old: Thing | None, new: Thing | None) -> None:
        if new is None:
            if old is not None and kind in ("Node", "Pod"):
                self.say(old.name, "is gone", "dim")
                self._told.pop(old.name, None)
        elif kind == "Node":
            self._node(old, new)
        elif kind == "Pod":
            self._pod(old, new)
        elif kind == "Event" and old is None and new.reason in _SAID:
            self._event(new)

    def _node(self, old: Thing | None, new: Thing) -> None:
        now = new.condition("Ready").get("status")
        before = old.condition("Ready").get("status") if old is not None else None
        if new.ready and not (old is not None and old.ready):
            self.say(new.name, "is ready")
        elif before == "True" and now != "True":
            self.say(new.name, f"is not ready: {new.condition('Ready').get('message', '')}", "red")

    def _pod(self, old: Thing | None, new: Thing) -> None:
        if new.gang:
            self._gangs[new.name] = new.gang
        if old is None:
            priority = new.metadata.annotations.get("priority", "0")
            gang = f", in gang {new.gang}" if new.gang else ""
            self.say(new.name, f"is created: priority {priority}{gang}")
            old = Thing(new.metadata)
        refused = new.condition("PodScheduled")
        if refused.get("reason") == "Unschedulable" and not new.node:
            self._explain(new.name, f"cannot be placed: {refused.get('message', '')}", "yellow")
        if new.node and not old.node:
            self.say(new.name, f"→ {new.node}", "green")
        if new.ready and not old.ready and not new.leaving:
            self.say(new.name, f"runs on {new.node}")
        if new.leaving and not old.leaving:
            why = new.condition("DisruptionTarget").get("message") or "its workload does not want it any more"
            self.say(new.name, f"leaves {new.node}: {why}" if new.node else "is deleted", "yellow")
        if new.gang:
            self._gang(new.gang)

    def _gang(self, name: str) -> None:
        """Say when a gang that had not all its nodes has them, and when it has lost one."""
        members = self._observed.pods(gang=name)
        placed = [pod.node for pod in members if pod.node]
        whole = len(placed) == len(members) > 0
        before = self._started.get(name)
        if whole and not before:
            again = "is whole again" if before is False else "starts whole"
            self.say(f"gang {name}", f"{again}: {len(placed)} members on {', '.join(placed)}", "bold green")
            self._told.pop(f"gang {name}", None)
        if whole or (before and members):
            self._started[name] = whole
        elif not placed:
            self._started.pop(name, None)  # nothing of it is left: the next start is one

    def _event(self, event: Thing) -> None:
        said, style = _SAID[event.reason]
        pod = str(event.involved_object.get("name", ""))
        if event.reason == "Preempted":
            self.say(pod, f"{said}: {event.message}", style)  # each of them, gang or not
        else:
            self._explain(pod, f"{said}: {event.message}", style)

    def _explain(self, pod: str, text: str, style: str) -> None:
        gang = self._gangs.get(pod)
        who = f"gang {gang}" if gang else pod
        told = self._told.setdefault(who, set())
        if text not in told:
            told.add(text)
            self.say(who, text, style)
