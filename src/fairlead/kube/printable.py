"""Text that users of a cluster chose, made safe for a terminal or a log: what would act there is escaped.

Names are limited by the API server; annotations, messages and what a kubeconfig says are not.
"""

from __future__ import annotations


def printable(text: str, kept: str = "") -> str:
    r"""The text with everything escaped that does not print: controls, line separators, changes of direction.

    >>> printable("web\x1b[2J\n\x9b\u2028\u202e"), printable("é 日本")
    ('web\\x1b[2J\\n\\x9b\\u2028\\u202e', 'é 日本')
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode("ascii")
        for each in text
    )
