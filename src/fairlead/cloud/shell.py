"""Quotes words of printed commands for a shell, because names in them come from clouds and clusters."""

from __future__ import annotations

import shlex


def word(text: str) -> str:
    r"""The text as one word, without control characters: a terminal would act on them, and so would a shell.

    >>> word("web-1"), word("a b; rm -rf /"), word("x\x1b[2Jy\n")
    ('web-1', "'a b; rm -rf /'", "'x[2Jy'")
    """
    return shlex.quote("".join(each for each in text if each.isprintable()))
