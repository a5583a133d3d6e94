"""How the site is built from the Markdown pages of this folder: ``make docs``.

The pages are written for a code host, where they must read well too. So what only a site needs is added here:
the navigation, and what becomes of links to files that are not pages.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.logging import getLogger

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from tools.reference import write  # noqa: E402 (the repository is not on the path before)

_log = getLogger(__name__)

project = "Fairlead"
project_copyright = "the Fairlead authors"
version = release = "0.1"

extensions = ["myst_parser"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
nitpicky = True

html_theme = "furo"
html_title = "Fairlead"
html_static_path = ["assets"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}
# No page asks another host for anything; tests/docs/test_site.py holds it to that.
html_use_opensearch = ""

NAVIGATION = {
    "Begin": ["start", "concepts", "examples", "running-on-a-cluster", "managed-clusters"],
    "How to": ["how-to/*"],
    "Operate": ["operations/*", "performance"],
    "Reference": ["reference/index", "reference/*"],
    "Background": ["comparison", "decisions/*"],
}
"""The site's navigation; a page that no line names is an error of the build."""

# A link, in Markdown: its text and where it leads.
_LINK = re.compile(r"!?\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def _toctrees() -> str:
    trees = (
        "```{toctree}\n:hidden:\n:glob:\n:caption: " + caption + "\n\n" + "\n".join(pages) + "\n```"
        for caption, pages in NAVIGATION.items()
    )
    return "\n\n" + "\n\n".join(trees) + "\n"


def _prepared(app: Sphinx, docname: str, source: list[str]) -> None:
    page = DOCS / f"{docname}.md"

    def led(link: re.Match[str]) -> str:
        text, target, _ = link.groups()
        if re.match(r"\w+:", target):
            return link[0]
        file = (page.parent / target).resolve()
        if file.is_relative_to(DOCS) and file.is_file():
            return link[0]
        path = file.relative_to(DOCS.parent).as_posix()
        if not file.exists():
            _log.warning("there is no %s", target, location=docname)
        # Folders and files of the repository are not part of the site: their path says where they are.
        return text if text.strip("`") == path else f"{text} (`{path}`)"

    source[0] = _LINK.sub(led, source[0])
    if docname == "index":
        source[0] += _toctrees()


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the reference, and prepare each page as it is read."""
    write(DOCS / "reference")
    app.connect("source-read", _prepared)
    return {"parallel_read_safe": True}
