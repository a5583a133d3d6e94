"""What the threat model says is shown by code and tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations" / "threat-model.md").read_text()
SHOWN = sorted(set(re.findall(r"`((?:src|tests|tools|deploy)/[^`]+)`", PAGE)))


@pytest.mark.parametrize("shown", SHOWN)
def test_what_it_names_is_there(shown: str) -> None:
    path, _, name = shown.partition("::")
    file = ROOT / path
    assert file.exists(), f"there is no {path}"
    if name:
        tree = ast.parse(file.read_text())
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, functions)}


def test_every_row_names_what_shows_it() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "| attempt |" not in line]
    assert len(rows) > 50
    assert all(re.search(r"`(src|tests|tools|deploy)/", row.split(" | ")[-1]) for row in rows)
