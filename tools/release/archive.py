"""Tar archives that depend on nothing but the names, modes and contents of what is in them."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["normalised", "unpack", "write_tar"]


def write_tar(target: Path, files: Mapping[str, bytes], epoch: int) -> None:
    """An uncompressed archive of regular files, sorted by name, with the folders that they are in."""
    folders = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(folders | files.keys()):
            entry = tarfile.TarInfo(name)
            content = files.get(name)
            if content is None:
                entry.type = tarfile.DIRTYPE
            _normalise(entry, epoch)
            entry.size = len(content or b"")
            archive.addfile(entry, io.BytesIO(content or b""))


def normalised(packed: bytes, epoch: int) -> bytes:
    """A .tar.gz again, with its entries sorted, its times set to `epoch` and its owners to root."""
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as source,
        gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry in sorted(source.getmembers(), key=lambda one: one.name):
            content = source.extractfile(entry) if entry.isfile() else None
            _normalise(entry, epoch)
            archive.addfile(entry, content)
    return out.getvalue()


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive of regular files and folders."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as source:
        source.extractall(folder, filter="data")


def _normalise(entry: tarfile.TarInfo, epoch: int) -> None:
    """What archivers note of the machine and the hour is replaced; of a mode, only "executable" is kept."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = epoch
    entry.mode = 0o755 if entry.isdir() or (entry.mode & 0o100 and not entry.issym()) else 0o644
    entry.pax_headers = {}
