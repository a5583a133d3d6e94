"""``fairlead tenant`` killed at any write: run again, the same command ends where an undisturbed one does."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cluster import Cluster
from support.command import Command, start_command
from support.crash_points import Dies, Outcome, Story
from support.tenancy import Tenancy

pytestmark = [pytest.mark.real, pytest.mark.slow]

NIGHTLY = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "${name}-nightly"},
    "spec": {
        "schedule": "0 0 1 1 *",
        "jobTemplate": {
            "spec": {
                "template": {
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "image"}]}
                }
            }
        },
    },
}


class CreatedAndDeleted(Story):
    """A tenant with every common kind of object is created and deleted.

    The command ends by itself, so its quiet window is the same command once more, which writes nothing.
    """

    name = "a tenant is created and deleted"
    heart = "PATCH deployments"
    steady = False

    def __init__(self, cluster: Cluster, kubeconfig: Path, folder: Path, plan: Dies) -> None:
        super().__init__(cluster, kubeconfig, folder, plan)
        self.tenancy = Tenancy(cluster, folder)
        self.tenancy.write_types(objects=[NIGHTLY])
        self.command: Command | None = None
        self.ends.callback(self.kill)
        self.created: dict[str, Any] = {}

    def prepare(self) -> None:
        self.cluster.add_nodes(1)

    def start(self) -> None:
        """The command is run by `act`."""

    def kill(self) -> None:
        if self.command is not None:
            self.command.kill()

    def act(self) -> None:
        create = ("create", "-t", "small", "--name", "acme", "--set", "config.A=1", "--set", "secret.S=2")
        self._run(*create)
        self.created = self.tenancy.outcome("acme")
        wrote = len(self.plan.writes)
        self._run(*create)
        assert self.plan.writes[wrote:] == [], "a steady tenant was written to"
        self._run("delete", "acme", "-n", self.cluster.namespace, "--yes")

    def outcome(self) -> Outcome:
        self.until(lambda: not self.tenancy.objects("acme"), "nothing of the tenant to be left")
        return _without(self.cluster.namespace, self.created)

    def _run(self, *arguments: str) -> None:
        """Run a command to its end; killed, it is run again."""
        verb, *more = arguments
        log = self.folder / "log"
        words = self.tenancy.arguments(verb, *more, kubeconfig=self.kubeconfig)
        for _ in range(2):
            died = self.died
            with log.open("wb") as said:
                self.command = start_command(*words, stdout=said.fileno(), stderr=said.fileno())
            code = self.until(self._ended, f"tenant {verb} to end")[0]
            if died != self.died:
                assert code == -signal.SIGKILL, log.read_text()
                continue
            said = log.read_text()
            # Killed after its last write, a deletion has nothing left to do, and says so.
            is_done = self.died and verb == "delete" and "error: there is no tenant 'acme'" in said
            assert code == 0 or is_done, said
            return

    def _ended(self) -> tuple[int] | None:
        assert self.command is not None
        try:
            return (self.command.wait(0),)
        except (subprocess.TimeoutExpired, TimeoutError):
            return None


def _without(namespace: str, found: Any) -> Any:
    """The same without the namespace's name, which differs from play to play."""
    if isinstance(found, dict):
        return {key.replace(namespace, "home"): _without(namespace, value) for key, value in found.items()}
    if isinstance(found, list):
        return [_without(namespace, value) for value in found]
    return found.replace(namespace, "home") if isinstance(found, str) else found


def test_a_command_killed_at_any_write_of_a_tenant_is_run_again_to_the_same_end(
    crash_everywhere: Callable[..., None],
) -> None:
    crash_everywhere(CreatedAndDeleted)
