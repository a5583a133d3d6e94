"""``fairlead demo``: the scheduler's story, told on a cluster while it happens.

`story` says what is asked of the cluster and what is waited for, `picture` is the cluster as it was seen,
`narrator` puts what changes in words, and `stages` are the clusters that the story can be told on.
"""

from __future__ import annotations

from fairlead.cli.demo.command import command

__all__ = ["command"]
