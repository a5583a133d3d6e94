"""The report of a soak: everything in one file, and everything that was found in it."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

from tools.soak.observer.invariants import Violation
from tools.soak.report import page
from tools.soak.run import Result, Settings
from tools.soak.vitals import Sample


def result(violated: bool = False) -> Result:
    found = Result(Settings(seed=42, minutes=1), lasted_s=60.0, cycles=1)
    cut = {"cycle": 0, "at": 3.0, "do": "watch_cut", "what": {"door": "scheduler-a", "for_s": 4.0}}
    found.lines = [
        {"t": 0.0, "kind": "begin", "seed": 42},
        {"t": 1.0, "kind": "pods", "pods": 3, "pending": 1},
        {"t": 3.0, "kind": "action", "fault": True, **cut},
        {"t": 9.0, "kind": "pause", "cycle": 0},
        {"t": 20.0, "kind": "storm", "cycle": 1},
    ]
    found.samples = [Sample(float(at), "scheduler-a", 7, 80.0, 20) for at in range(0, 60, 5)]
    found.injected = Counter(Cut=3)
    if violated:
        found.violations = [Violation(30, "exclusive nodes", "n1", "<b> came, where a is")]
        said = {"invariant": "exclusive nodes", "subject": "n1", "message": "<b> came, where a is"}
        found.lines.append({"t": 30.0, "kind": "violation", **said})
    return found


class Addresses(HTMLParser):
    """Collects what a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_report_needs_nothing_but_itself():
    addresses = Addresses()
    addresses.feed(page(result(violated=True)))
    assert addresses.found == []


def test_it_shows_faults_memory_and_the_seed():
    html = page(result())
    for said in ("seed 42", "watch_cut", "No invariant was violated", "scheduler-a", "80.0"):
        assert said in html


def test_it_shows_a_violation_with_what_came_before_and_as_text():
    html = page(result(violated=True))
    assert "exclusive nodes" in html
    assert "&lt;b&gt; came, where a is" in html
    assert "<b>" not in html


def test_the_same_result_gives_the_same_page():
    assert page(result()) == page(result())
