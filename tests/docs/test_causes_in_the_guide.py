"""The guide to asking a cluster names every cause that an answer may have, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from fairlead.engine.ask.diagnosis import CAUSES

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "ask.md"


def test_every_cause_is_in_the_guide() -> None:
    assert set(re.findall(r"^\| `([a-z-]+)` \|", GUIDE.read_text(), re.MULTILINE)) == set(CAUSES)
