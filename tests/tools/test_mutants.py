"""The tool that breaks the code in small ways: what it would run, and what a break looks like."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # where dataclasses look up their module
    spec.loader.exec_module(module)
    return module


def test_its_modules_and_their_tests_are_there(tool: ModuleType):
    missing = [name for name in tool.TESTS if not (ROOT / tool.PACKAGE / name).is_file()]
    tests = {one for several in tool.TESTS.values() for one in several}
    assert missing + sorted(one for one in tests if not (ROOT / one).exists()) == []


def test_every_break_is_a_change_that_python_can_read(tool: ModuleType):
    rng = random.Random(1)
    for module in tool.TESTS:
        source = (ROOT / tool.PACKAGE / module).read_text()
        found = tool.mutants(module)
        for one in rng.sample(found, min(5, len(found))):
            assert one.source != source
            compile(one.source, module, "exec")


def changes(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> set[str]:
    """What it would do to a module."""
    (tmp_path / tool.PACKAGE).mkdir(parents=True)
    (tmp_path / tool.PACKAGE / "one.py").write_text(source)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    return {one.change for one in tool.mutants("one.py")}


def test_a_comparison_a_condition_a_statement_and_an_argument_are_broken(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source = "def f(a, b):\n    if a < b and not a:\n        g(a, uid=b)\n    return a\n"
    assert changes(tool, tmp_path, monkeypatch, source) == {
        "a < b  →  (a <= b)",
        "a < b  →  (not a < b)",
        "a < b and not a  →  (a < b or not a)",
        "a < b and not a  →  (a < b)",
        "a < b and not a  →  (not a)",
        "not a  →  (a)",
        "g(a, uid=b)  →  pass",
        "g(a, uid=b)  →  (g(a))",
        "return a  →  return None",
    }


def test_documentation_types_messages_and_log_lines_are_left_alone(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source = (
        '"""Text."""\n__all__ = ["f"]\n_log = logger(1)\n\ndef f(a: "int" = None) -> "X < Y":\n'
        '    """More."""\n    _log.info("x", number=1)\n    raise ValueError(f"{a + 1}")\n'
    )
    assert changes(tool, tmp_path, monkeypatch, source) == {'raise ValueError(f"{a + 1}")  →  pass'}
