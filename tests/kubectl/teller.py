"""Tells stories to a cluster through the real kubectl."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.rig.arguments import KUBECTL_ENV
from kubectl.sameness import same_object
from kubectl.stories import Story

__all__ = ["Teller", "Told"]


@dataclass(frozen=True, slots=True)
class Told:
    """What one step came to."""

    command: str
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Teller:
    """Tells stories to one cluster through kubectl."""

    name: str
    kubectl: Path
    kubeconfig: Path
    cache: Path
    nodes: tuple[str, ...]

    @property
    def program(self) -> list[str]:
        """kubectl with what tells it the cluster."""
        return [str(self.kubectl), f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.cache}"]

    def begin(self, namespace: str) -> None:
        """A namespace for a story; it goes when all stories are told."""
        assert self.run(f"create namespace {namespace}").code == 0
        assert self.run(f"label namespace {namespace} fairlead.dev/story=told").code == 0

    def run(self, command: str, stdin: str | None = None) -> Told:
        done = subprocess.run(
            [*self.program, *shlex.split(command, posix=True)],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, **KUBECTL_ENV},
        )
        return Told(command, done.returncode, done.stdout, done.stderr)

    def tell(self, story: Story, folder: Path, namespace: str) -> tuple[list[Told], list[Any]]:
        words = {"ns": namespace, "f": str(folder), "node": self.nodes[0]}
        folder.mkdir()
        for name, text in story.manifests.items():
            (folder / name).write_text(text.replace("{node}", self.nodes[0]))
        self.begin(namespace)
        for step in story.setup:
            told = self.run(_fill(step, words))
            assert told.code == 0, f"{self.name}: {told}"
        told_steps = [self.run(_fill(step, words)) for step in story.steps]
        objects = [self.run(f"get {_fill(one, words)} -o json") for one in story.objects]
        assert all(told.code == 0 for told in objects), f"{self.name}: {objects}"
        return told_steps, [same_object(json.loads(told.out)) for told in objects]


def _fill(step: str, words: dict[str, str]) -> str:
    """The step's command line; JSON in it keeps its quotes."""
    filled = step.format(**words)
    return " ".join(shlex.quote(part) if part.startswith(("{", "[")) else part for part in filled.split(" "))
