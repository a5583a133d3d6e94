"""The script that draws charts, from the installed package plotly, to be part of the file."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.errors import BadInput


@dataclass(frozen=True, slots=True)
class PlotlyScript:
    """plotly.js: its code, whose first lines are its licence, and its version."""

    code: str
    version: str


def plotly_script() -> PlotlyScript:
    """The script; BadInput where the extra is not installed."""
    try:
        from plotly.offline import get_plotlyjs, get_plotlyjs_version
    except ImportError as error:
        raise BadInput("reports need plotly: pip install 'fairlead[report]'") from error
    return PlotlyScript(get_plotlyjs(), get_plotlyjs_version())
