"""A context of ours in the user's own kubeconfig: added, brought up to date, removed.

The file may be a user's only way to their clusters. So it is changed as a tree of YAML nodes, which keeps
every value as it is written (only comments and the names of anchors are lost, as with kubectl); the outcome
is compared with what was there; and it takes the file's place in one step, with its permissions, under the
lock that kubectl takes. The current context is the user's: it is switched only when asked, and put back.

Invariant: an entry that is not marked as ours is neither changed nor removed.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from fairlead.errors import BadInput

NAME = "fairlead"
"""Of the context, its cluster and its user."""

_MARK = "fairlead.dev/dev"
_LISTS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_STRING = "tag:yaml.org,2002:str"
_LOCK_S = 5.0
_LOOK_S = 0.05


def file_to_change(environ: Mapping[str, str], home: Path) -> Path:
    """Where kubectl would write a new entry: the first file of $KUBECONFIG that exists, else the last."""
    listed = [Path(part).expanduser() for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if not listed:
        return home / ".kube" / "config"
    return next((path for path in listed if path.exists()), listed[-1])


def check_addable(file: Path) -> None:
    """BadInput where `add_context` would refuse, before anything is started."""
    _refuse_foreign(file, _read(file))


def add_context(file: Path, own: Path, *, use: bool = False) -> str | None:
    """Add or update the context of `own`, a kubeconfig of ours; `use` makes it the current one.

    Returns the context that was current before it was switched, None when it was not switched.
    """
    entries = marked(own)
    before: list[str | None] = [None]

    def change(root: yaml.MappingNode) -> None:
        _refuse_foreign(file, root)
        for key, kind in _LISTS.items():
            items = _list(root, key)
            items.value = [item for item in items.value if not _is_ours(item, kind)]
            (entry,) = entries[key]
            items.flow_style = items.flow_style and bool(items.value)
            items.value.append(_node(entry))
        current = _text(_get(root, "current-context"))
        if use and current != NAME:
            before[0] = current
            _put(root, "current-context", NAME)

    _change(file, change)
    return before[0]


def remove_context(file: Path, *, back_to: str | None = None) -> bool:
    """Remove what is ours; where ours is the current context, `back_to` is again, if it is still there."""
    if not file.exists():
        return False
    removed = [False]

    def change(root: yaml.MappingNode) -> None:
        left: list[str] = []
        for key, kind in _LISTS.items():
            items = _list(root, key)
            kept = [item for item in items.value if not _is_ours(item, kind)]
            removed[0] = removed[0] or len(kept) < len(items.value)
            items.value = kept
            if key == "contexts":
                left = [_text(_get(item, "name")) for item in kept]
        if _text(_get(root, "current-context")) == NAME and NAME not in left:
            _put(root, "current-context", back_to if back_to in left else "")

    _change(file, change)
    return removed[0]


def marked(own: Path) -> dict[str, Any]:
    """A kubeconfig of ours with one context, its entries named and marked as those of ``fairlead dev``."""
    config: dict[str, Any] = yaml.safe_load(own.read_text())
    for key, kind in _LISTS.items():
        (entry,) = config[key]
        entry["name"] = NAME
        entry[kind]["extensions"] = [{"name": _MARK, "extension": {"provider": "fairlead dev"}}]
    config["contexts"][0]["context"]["user"] = NAME
    return config


def _change(file: Path, change: Callable[[yaml.MappingNode], None]) -> None:
    """Read, change, compare, replace; nothing is written when nothing differs."""
    file = Path(os.path.realpath(file))  # a link stays one
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(file):
        root = _read(file)
        before = yaml.serialize(root)
        change(root)
        after = yaml.serialize(root, width=10_000)
        if file.exists() and yaml.serialize(_read(file)) == yaml.serialize(root):
            return
        _compare(file, before, after)
        _replace(file, after)


def _read(file: Path) -> yaml.MappingNode:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file}: cannot be read: {error}") from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise BadInput(f"{file}: is no kubeconfig: {error}") from error
    if root is None:
        root = _node({"apiVersion": "v1", "kind": "Config"})
    if not isinstance(root, yaml.MappingNode):
        raise BadInput(f"{file}: is no kubeconfig: it holds no mapping")
    for key in _LISTS:
        value = _get(root, key)
        listed = value.value if isinstance(value, yaml.SequenceNode) else []
        absent = value is None or (isinstance(value, yaml.ScalarNode) and value.value in ("", "~", "null"))
        if not (absent or isinstance(value, yaml.SequenceNode)):
            raise BadInput(f"{file}: is no kubeconfig: {key} is no list")
        if not all(isinstance(one, yaml.MappingNode) for one in listed):
            raise BadInput(f"{file}: is no kubeconfig: {key} has an entry that is no mapping")
    return root


def _refuse_foreign(file: Path, root: yaml.MappingNode) -> None:
    for key, kind in _LISTS.items():
        for item in _list(root, key).value:
            if _text(_get(item, "name")) == NAME and not _is_ours(item, kind):
                raise BadInput(
                    f"{file}: has a {kind} {NAME!r} that is not from `fairlead dev up`; rename it "
                    "(kubectl config rename-context), or say --no-add-context"
                )


def _is_ours(item: yaml.Node, kind: str) -> bool:
    if _text(_get(item, "name")) != NAME:
        return False
    extensions = _get(_get(item, kind), "extensions")
    return isinstance(extensions, yaml.SequenceNode) and any(
        _text(_get(one, "name")) == _MARK for one in extensions.value
    )


def _compare(file: Path, before: str, after: str) -> None:
    """Refuse to write what would not have all that was there: then this module has a mistake."""
    was, now = yaml.safe_load(before), yaml.safe_load(after)
    changed = {"current-context", *_LISTS}
    same = {key: was.get(key) for key in was if key not in changed} == {
        key: now.get(key) for key in now if key not in changed
    }
    for key in _LISTS:
        kept = [one for one in was.get(key) or () if one.get("name") != NAME]
        same = same and kept == [one for one in now.get(key) or () if one.get("name") != NAME]
    if not same:
        raise BadInput(f"{file}: was left as it is: its other entries would not have stayed the same")


def _replace(file: Path, text: str) -> None:
    """Put `text` in the file's place in one step, with its permissions; a new file is its user's only."""
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as error:
        raise BadInput(f"{file}: cannot be written: {error.strerror or error}") from error
    try:
        with open(handle, "w", encoding="utf-8") as new:
            new.write(text)
            new.flush()
            os.fsync(new.fileno())
        os.chmod(name, mode)
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold the lock that kubectl takes: a file beside it that only one can create."""
    lock = file.with_name(f"{file.name}.lock")
    deadline = time.monotonic() + _LOCK_S
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            break
        except FileExistsError:
            if time.monotonic() > deadline:
                raise BadInput(f"{file}: another program is changing it; remove {lock} if none is") from None
            time.sleep(_LOOK_S)
        except OSError as error:
            raise BadInput(f"{file}: cannot be written: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _node(value: Any) -> Any:
    return yaml.compose(yaml.safe_dump(value, sort_keys=False), Loader=yaml.SafeLoader)


def _get(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if _text(name) == key), None)


def _put(root: yaml.MappingNode, key: str, text: str) -> None:
    new = yaml.ScalarNode(_STRING, text, style=None if text else '"')
    root.value = [pair for pair in root.value if _text(pair[0]) != key]
    root.value.append((yaml.ScalarNode(_STRING, key), new))


def _list(root: yaml.MappingNode, key: str) -> yaml.SequenceNode:
    """The list of that name, made where there is none."""
    found = _get(root, key)
    if isinstance(found, yaml.SequenceNode):
        return found
    made = yaml.SequenceNode("tag:yaml.org,2002:seq", [], flow_style=False)
    root.value = [pair for pair in root.value if _text(pair[0]) != key]
    root.value.append((yaml.ScalarNode(_STRING, key), made))
    return made


def _text(node: yaml.Node | None) -> str:
    return node.value if isinstance(node, yaml.ScalarNode) else ""
