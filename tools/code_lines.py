"""Count lines of code: no blank lines, comments or docstrings. By package, or of the paths that are named.

python tools/code_lines.py [PATH ...]
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

_LAYOUT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
)


def code_lines(text: str) -> int:
    """Lines on which there is code.

    >>> code_lines('"A note."' + chr(10) + "x = 1  # why" + chr(10) * 2 + "# nothing" + chr(10))
    1
    """
    found = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _LAYOUT
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(found - _docstrings(ast.parse(text)))


def _docstrings(tree: ast.Module) -> set[int]:
    """Lines of strings that are statements: docstrings of modules, classes, functions and attributes."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def main(paths: list[str]) -> None:
    """Print a line for each path, and the sum."""
    root = Path("src/fairlead")
    chosen = [Path(path) for path in paths] or sorted(one for one in root.iterdir() if one.is_dir())
    total = 0
    for path in chosen:
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        number = sum(code_lines(file.read_text(encoding="utf-8")) for file in files)
        if files:
            print(f"{number:7,}  {path}")
        total += number
    print(f"{total:7,}  in all")


if __name__ == "__main__":
    main(sys.argv[1:])
