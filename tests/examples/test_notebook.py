"""The notebook is run cell by cell, and gives what it shows."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_every_cell_gives_what_the_notebook_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    notebook = json.loads((EXAMPLES / "ask.ipynb").read_text())
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 5
    for cell in cells:
        source = "".join(cell["source"])
        printed, value = run_cell(source, names)
        shown = {output["output_type"]: output for output in cell["outputs"]}
        assert printed == "".join(shown.get("stream", {}).get("text", [])), source
        result = shown.get("execute_result")
        assert (repr(value) if result is not None else None) == (
            "".join(result["data"]["text/plain"]) if result is not None else None
        ), source


def run_cell(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a cell prints, and what its last line is worth."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    value = None
    with contextlib.redirect_stdout(out):
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return out.getvalue(), value
