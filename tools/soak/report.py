"""The report of a soak: one HTML file that needs nothing but a browser. A pure function of the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

from tools.soak import vitals
from tools.soak.run import Result

_WIDTH, _LEFT = 1100, 150
_COLOURS = {
    "scheduler-a": "#1f6feb",
    "scheduler-b": "#8250df",
    "webhook-a": "#1a7f37",
    "webhook-b": "#bf8700",
    "rebalancer": "#cf222e",
}
_STYLE = """
body{font:14px/1.5 system-ui,sans-serif;max-width:1160px;margin:2rem auto;padding:0 1rem}
body{color:#1f2328;background:#fff}
table{border-collapse:collapse;margin:.5rem 0}
td,th{padding:.15rem .8rem .15rem 0;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
svg{display:block;margin:.5rem 0}
svg text{font:11px system-ui,sans-serif;fill:#59636e}
.bad{color:#b31d28;font-weight:600}
.good{color:#1a7f37;font-weight:600}
pre{background:#f6f8fa;padding:.6rem;overflow:auto;font-size:12px}
@media(prefers-color-scheme:dark){
body{background:#0d1117;color:#e6edf3}
svg text{fill:#9198a1}
pre{background:#161b22}
}
"""


def page(result: Result) -> str:
    """The whole file."""
    seed = result.settings.seed
    verdict = (
        f'<p class="bad">{len(result.violations)} violations</p>'
        if result.violations
        else '<p class="good">No invariant was violated.</p>'
    )
    parts = [
        f"<h1>Soak, seed {seed}</h1>",
        f"<p>{result.lasted_s / 60:.1f} minutes, {result.cycles} cycles, each with a quiet point.</p>",
        verdict,
        _violations(result),
        "<h2>When</h2>",
        _timeline(result),
        "<h2>Pods</h2>",
        _pods(result),
        "<h2>Memory</h2>",
        _curves(result, "MiB", lambda one: one.rss_mib),
        "<h2>File descriptors</h2>",
        _curves(result, "open", lambda one: float(one.fds)),
        _slopes(result),
        "<h2>Counts</h2>",
        _counts(result),
    ]
    head = f'<meta charset="utf-8"><title>Soak {seed}</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _violations(result: Result) -> str:
    shown = []
    for index, line in enumerate(result.lines):
        if line["kind"] == "violation":
            before = [one for one in result.lines[:index] if one["kind"] not in ("sample", "pods")][-12:]
            around = "\n".join(_said(one) for one in before)
            shown.append(
                f"<h3>{escape(line['invariant'])}</h3><p>{line['t']:.0f} s, {escape(line['subject'])}: "
                f"{escape(line['message'])}</p><pre>{escape(around)}</pre>"
            )
    return "".join(shown[:40])


def _said(line: dict[str, Any]) -> str:
    rest = " ".join(f"{key}={value}" for key, value in line.items() if key not in ("t", "kind"))
    return f"{line['t']:8.1f} s  {line['kind']}  {rest}"


def _timeline(result: Result) -> str:
    faults = [line for line in result.lines if line["kind"] == "action" and line.get("fault")]
    kinds = sorted({line["do"] for line in faults})
    rows = [*kinds, "quiet", "violation"]
    height = 18 * len(rows) + 24
    x = _scale(result)
    drawn = []
    for row, name in enumerate(rows):
        y = 18 * row + 4
        drawn.append(f'<text x="0" y="{y + 10}">{escape(name)}</text>')
        drawn.append(f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y + 6}" y2="{y + 6}" stroke="#8884"/>')
    for line in faults:
        what = line["what"]
        wide = max(3.0, x(line["t"] + what.get("for_s", what.get("away_s", 0))) - x(line["t"]))
        y = 18 * rows.index(line["do"]) + 4
        colour = _COLOURS.get(what.get("door", ""), "#57606a")
        said = escape(f"{line['t']:.0f} s {line['do']} {what}")
        drawn.append(
            f'<rect x="{x(line["t"]):.1f}" y="{y}" width="{wide:.1f}" height="12" fill="{colour}" '
            f'opacity=".75"><title>{said}</title></rect>'
        )
    pause = None
    for line in result.lines:
        if line["kind"] == "pause":
            pause = line["t"]
        if line["kind"] == "storm" and pause is not None:
            y = 18 * rows.index("quiet") + 4
            drawn.append(
                f'<rect x="{x(pause):.1f}" y="{y}" width="{x(line["t"]) - x(pause):.1f}" height="12" '
                'fill="#1a7f37" opacity=".4"/>'
            )
        if line["kind"] == "violation":
            y = 18 * rows.index("violation") + 10
            said = escape(f"{line['t']:.0f} s {line['invariant']}: {line['subject']}")
            drawn.append(
                f'<circle cx="{x(line["t"]):.1f}" cy="{y}" r="5" fill="#cf222e">'
                f"<title>{said}</title></circle>"
            )
    return _svg(height, [*drawn, *_axis(result, height)])


def _pods(result: Result) -> str:
    lines = [line for line in result.lines if line["kind"] == "pods"]
    curves = [
        ("pods", "#1f6feb", [(line["t"], line["pods"]) for line in lines]),
        ("pending", "#cf222e", [(line["t"], line["pending"]) for line in lines]),
    ]
    return _chart(result, curves, "")


def _curves(result: Result, unit: str, value: Any) -> str:
    by_process: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for one in result.samples:
        by_process.setdefault((one.door, one.pid), []).append((one.at, value(one)))
    return _chart(result, [(door, _COLOURS[door], points) for (door, _), points in by_process.items()], unit)


def _chart(result: Result, curves: Sequence[tuple[str, str, list[tuple[float, float]]]], unit: str) -> str:
    height, x = 200, _scale(result)
    top = max((value for _, _, points in curves for _, value in points), default=1) or 1
    drawn = [f'<text x="0" y="14">{top:.0f} {unit}</text>', f'<text x="0" y="{height - 20}">0</text>']
    legend: dict[str, str] = {}
    for name, colour, points in curves:
        legend[name] = colour
        path = " ".join(
            f"{x(at):.1f},{(height - 24) - (height - 34) * value / top:.1f}" for at, value in points
        )
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    for row, (name, colour) in enumerate(legend.items()):
        drawn.append(f'<text x="0" y="{40 + 15 * row}" style="fill:{colour}">{escape(name)}</text>')
    return _svg(height, [*drawn, *_axis(result, height)])


def _slopes(result: Result) -> str:
    rows = "".join(
        f"<tr><td>{escape(one.door)}</td>{_numbers(one)}"
        f"<td>{'grows' if one.grows else '' if one.judged else 'too short to judge'}</td></tr>"
        for one in result.slopes
    )
    head = "".join(f'<th class="n">{name}</th>' for name in ("lived", "MiB", "MiB/h", "fds", "fds/h"))
    limits = f"{vitals.MOST_MIB_PER_HOUR:g} MiB/h and {vitals.MOST_FDS_PER_HOUR:g} fds/h"
    said = f"<p>Slopes at the quiet points of each process's second half; limits {limits}.</p>"
    return f"<table><tr><th>process</th>{head}<th></th></tr>{rows}</table>{said}"


def _numbers(one: vitals.Slope) -> str:
    shown = (
        f"{one.lived_s:.0f} s",
        f"{one.rss_mib:.1f}",
        f"{one.mib_per_hour:.1f}",
        one.fds,
        f"{one.fds_per_hour:.1f}",
    )
    return "".join(f'<td class="n">{value}</td>' for value in shown)


def _counts(result: Result) -> str:
    done = Counter(action.do for action in result.actions)
    tables = (
        ("actions", done),
        ("injected by proxies", result.injected),
        ("excused: decided on a watch that lied", result.excused),
        ("warnings of components", result.warnings),
        ("in all", Counter(result.counts)),
    )
    shown = []
    for name, counts in tables:
        if counts:
            rows = "".join(
                f'<tr><td>{escape(key)}</td><td class="n">{number}</td></tr>'
                for key, number in counts.most_common()
            )
            shown.append(f"<h3>{name}</h3><table>{rows}</table>")
    return "".join(shown)


def _scale(result: Result) -> Any:
    last = max(result.lasted_s, 1.0)
    return lambda at: _LEFT + (_WIDTH - _LEFT) * min(at, last) / last


def _axis(result: Result, height: int) -> list[str]:
    x, last = _scale(result), max(result.lasted_s, 1.0)
    step = next((one for one in (10, 30, 60, 120, 300, 600, 1800) if last / one <= 12), 3600)
    return [
        f'<text x="{x(at):.1f}" y="{height - 4}">{at // 60}:{at % 60:02}</text>'
        for at in range(0, int(last) + 1, step)
    ]


def _svg(height: int, drawn: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" width="100%" role="img">{"".join(drawn)}</svg>'
