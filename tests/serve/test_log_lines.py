"""Log lines on a terminal: what users choose can neither add lines nor steer the terminal."""

from __future__ import annotations

import json
import re

import pytest
import structlog

from fairlead.doors.process import configure_logging

HOSTILE = {
    "newline": "web\n2026-01-01T00:00:00Z [info     ] bound pod=shop/other",
    "carriage return": "web\rerased",
    "escape": "web\x1b[2J\x1b]0;title\x07",
    "escape and spaces": "web \x1b[2J 'quoted' = more",
    "C1": "web\x9b2J\x85",
    "separators": "web\u2028line\u2029paragraph\x0b\x0c\x1c",
    "direction": "web\u202egnp.exe\u2066\u200f",
    "nothing to see": "we\u200bb\ufeff\xad\x00\x7f",
    "half a character": "web\ud800",
}
COLOURS = re.compile(r"\x1b\[\d*m")  # the renderer's own; none of the hostile texts has such a thing


def logged(capsys: pytest.CaptureFixture[str], **fields: object) -> str:
    configure_logging("text", "info")
    structlog.get_logger("test").info("bound", **fields)
    return capsys.readouterr().err


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_whatever_a_name_holds_is_one_printable_line(capsys: pytest.CaptureFixture[str], text: str) -> None:
    line = COLOURS.sub("", logged(capsys, pod=text, annotation=text))
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    assert "pod=" in line


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_texts_within_lists_and_errors_are_printable_too(
    capsys: pytest.CaptureFixture[str], text: str
) -> None:
    fields = {"pods": [text], "by_pod": {text: text}, "error": ValueError(text)}
    assert COLOURS.sub("", logged(capsys, **fields))[:-1].isprintable()


def test_what_prints_is_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    line = COLOURS.sub("", logged(capsys, pod="shop/web-1", reason="0/5 nodes: é 日本"))
    assert "pod=shop/web-1" in line
    assert "reason='0/5 nodes: é 日本'" in line


def test_a_traceback_keeps_its_lines_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("text", "info")
    try:
        raise ValueError(HOSTILE["escape"] + HOSTILE["direction"])
    except ValueError:
        structlog.get_logger("test").exception("failed")
    lines = COLOURS.sub("", capsys.readouterr().err).splitlines()
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-1].startswith("ValueError: web\\x1b[2J")
    assert all(line.isprintable() for line in lines)


def test_json_is_as_it_was(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    configure_logging("json", "info")
    structlog.get_logger("test").info("bound", pod=HOSTILE["newline"])
    (line,) = capsysbinary.readouterr().err.splitlines()
    assert json.loads(line)["pod"] == HOSTILE["newline"]


def test_a_line_begins_with_time_level_and_event_and_goes_on_as_it_was_said(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    configure_logging("json", "info")
    structlog.get_logger("test").info("held", pod="shop/web-1", node="n1", reason="Insufficient cpu")
    (line,) = capsysbinary.readouterr().err.splitlines()
    assert list(json.loads(line)) == ["timestamp", "level", "event", "pod", "node", "reason"]


def test_text_that_is_no_terminals_has_no_colours_and_the_same_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = logged(capsys, pod="shop/web-1", node="n1", reason="Insufficient cpu")
    assert not COLOURS.search(line)
    assert re.search(r"bound +pod=shop/web-1 node=n1 reason='Insufficient cpu'\n$", line)
