"""The pinned requirements of `requirements/`: which file of which version, by its hash.

pip evaluates a requirement's marker for the Python that runs it. An image has a Python of its own, so markers
are evaluated here, for that one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass

from packaging.markers import Marker, default_environment
from packaging.utils import canonicalize_name

from tools.release import ROOT, ReleaseError

__all__ = ["Pin", "needed", "parse_pins", "read_pins", "requirement_lines", "target_environment"]

_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;]+)(?:\s*;\s*(?P<marker>.*))?$")


@dataclass(frozen=True, slots=True)
class Pin:
    """One project at one version, and the hashes that its files may have."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]


def read_pins(name: str) -> list[Pin]:
    """The pins of `requirements/NAME.txt`, in its order."""
    return parse_pins((ROOT / "requirements" / f"{name}.txt").read_text(), name)


def parse_pins(text: str, name: str) -> list[Pin]:
    """The pins of a requirements file; `name` is for its errors."""
    found = []
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in joined.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        requirement, *hashes = re.split(r"\s+--hash=", line.strip())
        match = _PIN.match(requirement.strip())
        if match is None or not hashes:
            raise ReleaseError(f"requirements/{name}.txt: {requirement!r} is not NAME==VERSION with hashes")
        found.append(
            Pin(canonicalize_name(match["name"]), match["version"], match["marker"] or "", tuple(hashes))
        )
    return found


def needed(pins: Iterable[Pin], python: str, machine: str) -> list[Pin]:
    """The pins that CPython `python` (such as 3.11) needs on Linux."""
    environment = target_environment(python, machine)
    return [pin for pin in pins if not pin.marker or Marker(pin.marker).evaluate(environment)]


def target_environment(python: str, machine: str) -> dict[str, str | Set[str]]:
    """What markers are compared with."""
    return {
        **{key: str(value) for key, value in default_environment().items()},
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }


def requirement_lines(pins: Iterable[Pin]) -> str:
    """The pins as a requirements file, without markers."""
    return "".join(
        f"{pin.name}=={pin.version} " + " ".join(f"--hash={one}" for one in pin.hashes) + "\n" for pin in pins
    )
