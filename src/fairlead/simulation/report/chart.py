"""One chart, as plotly.js takes it (data and layout as plain data), and how all charts look.

Colours are names of the page's own (`var(--series-1)`), which its script looks up, so that they follow light
and dark. Lines differ by their dashes, too, and bars by their hatching, for readers to whom colours look
alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fairlead.kube.printable import printable

COLOURS = 7
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
HATCHES = ("", "/", ".", "\\", "x", "-", "|", "+")
HEIGHT = 280
FEW = 6
"""Of up to so many things, an axis has a tick for each."""

Words = Callable[[float], str]

Cell = str | tuple[str, str]
"""A table's cell: a text, or a number and what stands below it."""


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a chart's legend: a line, an area or a bar with its colour, dashes and hatching."""

    name: str
    colour: str
    dash: str = ""
    hatch: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: what plotly.js draws, and the same in words and numbers for all who do not see it."""

    title: str
    caption: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    legend: tuple[Key, ...]
    headings: tuple[str, ...]
    numbers: tuple[tuple[Cell, ...], ...]
    begins_row: bool = False
    """It is the first of several that are to stand beside each other."""


def series_colour(place: int) -> str:
    """The colour of a line or bar by its place among others."""
    return f"var(--series-{place % COLOURS + 1})"


def bar_marker(colour: str, hatch: str) -> dict[str, Any]:
    """How bars are filled."""
    return {
        "color": colour,
        "line": {"width": 0},
        "pattern": {"shape": hatch, "fgcolor": "var(--panel)", "fillmode": "overlay", "size": 6},
    }


def bar_keys(names: Iterable[str], bars: Iterable[dict[str, Any]]) -> tuple[Key, ...]:
    """The legend of bars."""
    return tuple(
        Key(name, bar["marker"]["color"], hatch=bar["marker"]["pattern"]["shape"] or "none")
        for name, bar in zip(names, bars, strict=True)
    )


def base_layout(x_title: str, y_title: str, height: int = HEIGHT) -> dict[str, Any]:
    """What charts have in common."""
    axis = {
        "automargin": True,
        "gridcolor": "var(--line)",
        "linecolor": "var(--line)",
        "zerolinecolor": "var(--line)",
        "tickfont": {"color": "var(--soft)"},
    }
    return {
        "height": height,
        "margin": {"l": 56, "r": 16, "t": 8, "b": 48},
        "hovermode": "x unified",
        "showlegend": False,
        "paper_bgcolor": "var(--panel)",
        "plot_bgcolor": "var(--panel)",
        "font": {"color": "var(--text)", "size": 12, "family": "system-ui, sans-serif"},
        "hoverlabel": {
            "bgcolor": "var(--panel)",
            "bordercolor": "var(--line)",
            "font": {"color": "var(--text)"},
            "namelength": -1,
        },
        "xaxis": {**axis, "title": {"text": x_title}},
        "yaxis": {**axis, "title": {"text": y_title, "standoff": 10}, "fixedrange": True},
    }


def plain(text: str) -> str:
    """Text that plotly.js shows as it stands, though it reads tags; what does not print is spelt out.

    >>> plain("a <b> & c")
    'a &lt;b&gt; &amp; c'
    """
    return printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
