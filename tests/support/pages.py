"""Pages of the documentation as a reader works through them: commands in order, each with the output shown.

A page's commands stand in ``console`` blocks behind ``$ ``; a line that ends with ``\\`` goes on in the next,
a here-document ends at its word. What follows a command, up to the next one, is output. Comments (``  # …``)
are for the reader; one that begins with *ends with N* says that the exit code is not 0. ``<!-- on: NAME -->``
before a block says on which cluster a test runs the page.

Output that is shown has to be what the command prints, apart from:

* how wide columns are, and blanks at the end of lines;
* what differs from run to run, which `normalised` replaces by a word in capitals;
* a line ``…``, which stands for any lines or none, and ``…`` within a line, which stands for any text.

A command without output shown may print anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

__all__ = ["Page", "Step", "difference", "normalised", "pages", "read_page"]

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("*.md", "docs/**/*.md", "examples/**/*.md")

_BLOCK = re.compile(r"^(?:<!-- on: (\w+) -->\n)?```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"\s+# .*$")
_ENDS_WITH = re.compile(r"\s# ends with (\d+)")
_HERE_DOCUMENT = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")

# What Kubernetes draws generated names from: no vowels, and nothing that looks like one.
_DRAWN = "[bcdfghjklmnpqrstvwxz2456789]"

# In this order: what is longer and more particular first.
_CHANGING = (
    ("ID", re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")),
    ("DIGEST", re.compile(r"\b[0-9a-f]{32,64}\b")),
    ("TIME", re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?")),
    ("TIME", re.compile(r"\b\d\d:\d\d:\d\d(?:\.\d+)?\b")),
    ("ADDRESS", re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b")),
    ("ADDRESS", re.compile(r"\blocalhost:\d+\b")),
    ("-HASH", re.compile(rf"-{_DRAWN}{{6,10}}-{_DRAWN}{{5}}\b")),  # a Deployment's pod
    ("-HASH", re.compile(rf"-(?=[a-z]*\d){_DRAWN}{{5,10}}\b")),  # a ReplicaSet, a Job's pod
    ("-HASH", re.compile(rf"-{_DRAWN}{{5}}\b")),
    ("PROCESS", re.compile(r"\b(?:process|pid) \d+\b", re.IGNORECASE)),
    ("AGE", re.compile(r"(?<![\w.-])(?:\d+(?:\.\d+)?(?:ms|d|h|m|s))+(?: ago)?(?![\w-])")),
    ("AGE", re.compile(r"\b\d+(?:\.\d+)? (?:s|ms|seconds?|minutes?)\b")),
)


@dataclass(frozen=True, slots=True)
class Step:
    """A command as it is typed, the exit code that it ends with, and what the page shows of its output."""

    command: str
    code: int
    output: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Page:
    """A document: its steps in order, and the clusters that its comments name."""

    path: Path
    steps: tuple[Step, ...]
    clusters: tuple[str, ...]

    @property
    def name(self) -> str:
        return str(self.path).removeprefix(f"{ROOT}/")

    @property
    def cluster(self) -> str:
        """The one cluster of the page, "" for none."""
        assert len(self.clusters) <= 1, f"{self.name} runs on one cluster, not on {', '.join(self.clusters)}"
        return self.clusters[0] if self.clusters else ""

    @property
    def runs_on(self) -> str:
        """What a test starts for it: its cluster, or the tools that it uses without one."""
        tools = any(step.command.startswith(("kubectl ", "helm ")) for step in self.steps)
        return self.cluster or ("kubectl" if tools else "")

    @property
    def names_its_cluster(self) -> bool:
        """Whether the reader is asked to say which cluster the page works on."""
        return any(step.command.startswith("export KUBECONFIG=") for step in self.steps)


def pages(root: Path = ROOT) -> list[Page]:
    """Every document that has commands."""
    paths = sorted(set(chain.from_iterable(root.glob(pattern) for pattern in FOLDERS)))
    return [page for page in map(read_page, paths) if page.steps]


def read_page(path: Path) -> Page:
    """The page in a Markdown file."""
    text = path.read_text()
    steps: list[Step] = []
    clusters: dict[str, None] = {}
    for block in _BLOCK.finditer(text):
        if block[1]:
            clusters[block[1]] = None
        steps.extend(_steps(block[2].splitlines(), text.count("\n", 0, block.start(2)) + 1))
    return Page(path, tuple(steps), tuple(clusters))


def _steps(lines: list[str], first: int) -> list[Step]:
    found: list[Step] = []
    at = 0
    while at < len(lines):
        begun = at
        typed = lines[at].removeprefix("$ ")
        assert typed != lines[at], f"line {first + at}: a console block begins with a command behind `$ `"
        at += 1
        command = _COMMENT.sub("", typed)
        ends_with = _ENDS_WITH.search(typed)
        while command.endswith("\\") and at < len(lines):
            command += "\n" + lines[at].removeprefix("> ")
            at += 1
        if ends := _HERE_DOCUMENT.search(command):
            while at < len(lines):
                command += "\n" + lines[at].removeprefix("> ")
                at += 1
                if lines[at - 1].removeprefix("> ").strip() == ends[1]:
                    break
        output = []
        while at < len(lines) and not lines[at].startswith("$ "):
            output.append(lines[at])
            at += 1
        while output and not output[-1].strip():
            output.pop()
        code = int(ends_with[1]) if ends_with else 0
        found.append(Step(command, code, tuple(output), first + begun))
    return found


def normalised(line: str, home: Path | None = None) -> str:
    """The line without what differs from run to run.

    >>> normalised("web-7c9d8f6b5-x2x4z   1/1     Running   0     12s   10.0.0.7   node-1  ")
    'web-HASH 1/1 Running 0 AGE ADDRESS node-1'
    >>> normalised("2026-01-02T03:04:05Z took 3.2 s")
    'TIME took AGE'
    >>> normalised("group-a waits for 3 members of gang-two")
    'group-a waits for 3 members of gang-two'
    """
    if home is not None:
        line = line.replace(str(home), "~")
    for word, pattern in _CHANGING:
        line = pattern.sub(word, line)
    return re.sub(r"\s+", " ", line).rstrip()


def difference(shown: tuple[str, ...], printed: str, home: Path | None = None) -> str:
    """What the page shows and the command did not print, "" when they agree.

    >>> difference(("a", "…", "d 3s"), "a\\nb\\nc\\nd   5s\\n")
    ''
    >>> difference(("a … c",), "a and b and c\\n")
    ''
    >>> difference(("a",), "a\\nb\\n")
    'more was printed than is shown'
    >>> difference(("a", "c"), "a\\nb\\n")
    "line 2 of what is shown was not printed there: 'c'"
    """
    expected = [normalised(line) for line in shown]
    real = [normalised(line, home) for line in printed.rstrip().splitlines()]
    if _agree(expected, real):
        return ""
    if _begins(expected, real):
        return "more was printed than is shown"
    agreed = max(n for n in range(len(expected)) if _begins(expected[:n], real))
    return f"line {agreed + 1} of what is shown was not printed there: {expected[agreed]!r}"


def _agree(expected: list[str], real: list[str]) -> bool:
    if not expected:
        return not real
    if expected[0] == "…":
        return any(_agree(expected[1:], real[n:]) for n in range(len(real) + 1))
    return bool(real) and _line(expected[0], real[0]) and _agree(expected[1:], real[1:])


def _begins(expected: list[str], real: list[str]) -> bool:
    return any(_agree(expected, real[:n]) for n in range(len(real) + 1))


def _line(expected: str, real: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, expected.split("…"))), real) is not None
