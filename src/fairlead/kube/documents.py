"""YAML that people wrote, read with care.

Nothing here may be trusted to be small because the text is: anchors and merge keys can spell more than any
memory holds, so what they unfold to is bounded. And a key given twice is a mistake, whichever of the two
was meant: YAML says so, kubectl refuses it, and PyYAML would take the last one silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from fairlead.errors import BadInput
from fairlead.kube.decode import unfolded_size

# What a document's anchors may unfold to, in members and items; the largest clusters have less than is large.
_UNFOLDED, _UNFOLDED_LARGE = 1_000_000, 50_000_000
# The keys that a mapping may take over from others.
_MERGED = 10_000

_MERGE_KEY = "tag:yaml.org,2002:merge"


def documents(text: str | bytes, source: str, *, large: bool = False) -> Iterator[Any]:
    r"""The documents of a YAML stream, as plain data; `source` is how messages call it.

    What may be `large` is read ten times as fast by a reader in C, whose stack ends with the process where
    lists are nested ten thousand deep: not for files that a running process follows.

    >>> list(documents("min: 1\n---\nmin: 2", "a.yaml"))
    [{'min': 1}, {'min': 2}]
    >>> list(documents("min: 1\nmin: 2", "a.yaml"))
    Traceback (most recent call last):
    ...
    fairlead.errors.BadInput: a.yaml: line 2: 'min' is given twice
    """
    loader, most = (_LargeLoader, _UNFOLDED_LARGE) if large else (_Loader, _UNFOLDED)
    try:
        for document in yaml.load_all(text, Loader=loader):
            if unfolded_size(document) > most:
                raise BadInput("its anchors unfold to too much")
            yield document
    except BadInput as error:
        raise BadInput(f"{source}: {error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(f"{source}: is neither YAML nor JSON: {error}") from error
    except RecursionError as error:
        raise BadInput(f"{source}: is nested too deeply, or refers to itself") from error
    except (ValueError, LookupError, AttributeError) as error:
        # Values that YAML gives a meaning of their own: a date that is none, a number too long or empty.
        raise BadInput(f"{source}: has a value that cannot be read: {error}") from error


class _Careful(yaml.constructor.SafeConstructor):
    _looked_at: set[yaml.MappingNode]

    def construct_document(self, node: yaml.Node) -> Any:
        self._looked_at = set()
        return super().construct_document(node)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Called for every mapping, and again when another merges it."""
        if node not in self._looked_at:
            self._looked_at.add(node)  # before it takes over keys, which its own may replace
            _refuse_twins(node)
            self._bound_merges(node)
        super().flatten_mapping(node)

    def _bound_merges(self, node: yaml.MappingNode) -> None:
        """Merged mappings may merge others, ten times each."""
        taken = 0
        for key, value in node.value:
            if key.tag != _MERGE_KEY:
                continue
            for merged in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if isinstance(merged, yaml.MappingNode):
                    self.flatten_mapping(merged)
                    taken += len(merged.value)
                if taken > _MERGED:
                    raise BadInput("its merge keys (<<) unfold to too much")


class _Loader(_Careful, yaml.SafeLoader):
    pass


class _LargeLoader(_Careful, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # may lack C
    pass


def _refuse_twins(node: yaml.MappingNode) -> None:
    seen: set[tuple[str, str]] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE_KEY:
            continue
        spelt = (key.tag, key.value)
        if spelt in seen:
            raise BadInput(f"line {key.start_mark.line + 1}: {key.value!r} is given twice")
        seen.add(spelt)
