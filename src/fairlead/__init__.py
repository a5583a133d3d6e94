"""Fairlead: which pod goes on which node, why, and what it would cost.

The names in ``__all__`` are the public API; everything else may change without notice.
"""

from __future__ import annotations

from fairlead.errors import BadInput, BadObject, FairleadError

__version__ = "0.1.0"

__all__ = ["BadInput", "BadObject", "FairleadError", "__version__"]
