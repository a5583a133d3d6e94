from __future__ import annotations

import pytest

from fairlead.cloud.hcl import Expression, Template, attributes, block
from support.terraform import misformatted, parsed


def test_equal_signs_of_attributes_on_lines_of_their_own_are_aligned() -> None:
    values = {
        "a": 1,
        "several": {"x": True, "a key": None},
        "bb": "two",
        "c": Expression("var.c"),
        Template("${var.c}-d"): Template("${var.c}-d"),
        "empty": {},
    }
    text = block('outer "label"', attributes(values), block("inner", attributes({"long_name": []})), "# Why.")
    assert (
        text
        == """\
outer "label" {
  a = 1
  several = {
    x       = true
    "a key" = null
  }
  bb           = "two"
  c            = var.c
  "${var.c}-d" = "${var.c}-d"
  empty        = {}

  inner {
    long_name = []
  }

  # Why.
}"""
    )
    assert misformatted(f"{text}\n") == []


def test_a_list_that_is_too_long_for_a_line_takes_several() -> None:
    text = attributes({"short": ["a", "b"], "long": ["x" * 60, "y" * 60]})
    assert text == f'short = ["a", "b"]\nlong = [\n  "{"x" * 60}",\n  "{"y" * 60}",\n]'


def test_nothing_in_a_string_is_taken_for_an_expression() -> None:
    text = attributes({"a": 'a "quoted" \\ ${var.x} %{if} \n'})
    assert text == 'a = "a \\"quoted\\" \\\\ $${var.x} %%{if} \\n"'
    assert list(parsed(f"{text}\n")) == ["a"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("a {\nb = 1\n}\n", "2: is indented by 0, not 2"),
        ("a {\n  b = 1\n  cc = 2\n}\n", "2: its equal sign"),
        ("a {\n  b  = 1\n}\n", "2: its equal sign"),
        ("a {\n  b = {\n    c = 1\n    dd = 2\n  }\n}\n", "3: its equal sign"),
        ("a {\n  b = 1 \n}\n", "2: blanks"),
        ("a {\n\n\n  b = 1\n}\n", "3: a second empty line"),
        ("a {\n  b = 1\n  }\n", "3: is indented by 2, not 0"),
        ("a {}", "the end"),
        ("a {}\n\n", "the end"),
    ],
)
def test_what_terraform_fmt_would_change_is_found(wrong: str, said: str) -> None:
    assert any(found.startswith(said) for found in misformatted(wrong)), misformatted(wrong)
