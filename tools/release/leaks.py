"""What must not be in a release: the hosts that this machine takes packages from, and its paths."""

from __future__ import annotations

import gzip
import io
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tools.release import ROOT

__all__ = ["leaks", "private_words"]


def private_words(*folders: Path, configured: Path = Path("/etc/apt")) -> set[bytes]:
    """Hosts of apt's and pip's configuration, and the folders of the build."""
    texts = [path.read_text() for path in configured.glob("sources.list*") if path.is_file()]
    texts += [path.read_text() for path in configured.glob("sources.list.d/*.*") if path.is_file()]
    listed = [sys.executable, "-m", "pip", "config", "list"]
    texts.append(subprocess.run(listed, capture_output=True, text=True, check=False).stdout)
    urls = (found for text in texts for found in re.findall(r"\w+://[^\s'\"\],]+", text))
    hosts = {urlsplit(url).hostname or "" for url in urls}
    public = _public()
    private = (host for host in hosts if host and not host.endswith(public))
    return {word.encode() for word in (*private, str(ROOT), *map(str, folders))}


def _public() -> tuple[str, ...]:
    """Ends of hosts that say nothing of this machine: packages' own documents and metadata name them.

    They are those of the distribution, and those that pip takes where nothing is configured.
    """
    home = urlsplit(platform.freedesktop_os_release().get("HOME_URL", "")).hostname or "localhost"
    script = "from pip._internal.models.index import PyPI as p; print(p.netloc, p.file_storage_domain)"
    listed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    return (home.removeprefix("www."), "localhost", *listed.stdout.split())


def leaks(paths: Iterable[Path], words: Iterable[bytes]) -> list[str]:
    """Which file names which of the words, in folders and in archives within archives."""
    wanted = list(words)
    found = []
    for path in paths:
        for name, content in _contents(path):
            found += [f"{name} names {word.decode()}" for word in wanted if word in content]
    return found


def _contents(path: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_symlink():
            yield str(file), str(file.readlink()).encode()
        elif file.is_file():
            yield from _unpacked(str(file), file.read_bytes())


def _unpacked(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """The content itself and, of an archive, what is in it."""
    yield name, content
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
        yield name, content
    if content[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for entry in archive:
                if (source := archive.extractfile(entry) if entry.isfile() else None) is not None:
                    inner = source.read()
                    # What a tar holds as it is has been seen with it.
                    if inner[:2] == b"\x1f\x8b":
                        yield from _unpacked(f"{name}:{entry.name}", inner)
    elif content[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            for one in packed.infolist():
                yield f"{name}:{one.filename}", packed.read(one)
