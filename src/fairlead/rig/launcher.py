"""Starts a control plane's programs one by one, each on ports that are free and with a log of its own.

Subtle: a port that was free a moment ago may be taken by the time a program binds it; then, and only
then, the program is started again on others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from fairlead.errors import RigError
from fairlead.rig.processes import Guard, Program, free_ports

READY_S = 120.0
_ATTEMPTS = 4


class Launcher:
    """The programs of one control plane, by name. After `close` none runs."""

    def __init__(self, folder: Path, *, remove: bool) -> None:
        """Logs go to `folder`; with `remove` it disappears together with the last program."""
        self._folder = folder
        self._guard = Guard(remove=folder if remove else None)
        self._ports: dict[str, int] = {}
        self.programs: dict[str, Program] = {}

    def port(self, name: str) -> int:
        """The (first) port of `name`."""
        if name not in self._ports:
            raise RigError(f"{name} is not running here")
        return self._ports[name]

    def launch(self, name: str, ports: int, run: Callable[[list[int]], Program]) -> Program:
        """Call `run` with free ports until the program it starts got them."""
        if name in self.programs:
            raise RigError(f"{name} is running already")
        for attempt in range(_ATTEMPTS):
            free = free_ports(ports)
            self._ports[name] = free[0]
            try:
                self.programs[name] = run(free)
                return self.programs[name]
            except RigError as error:
                del self._ports[name]
                if "address already in use" not in str(error).lower() or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def restart(self, name: str, run: Callable[[list[int]], Program]) -> Program:
        """Kill one program that has a single port and start it again, with `run`, on the same one."""
        port = self.port(name)
        self.stop(name)
        self._ports[name] = port
        self.programs[name] = run([port])
        return self.programs[name]

    def run(
        self,
        name: str,
        binary: Path,
        *arguments: str,
        ready: Callable[[], bool],
        env: Mapping[str, str] | None = None,
    ) -> Program:
        """Start one program and return when it is ready; its log is ``NAME.log`` in the folder."""
        program = self._guard.start(name, [binary, *arguments], log=self._folder / f"{name}.log", env=env)
        try:
            program.wait_ready(ready, timeout_s=READY_S)
        except BaseException:
            program.stop()
            raise
        return program

    def stop(self, name: str) -> None:
        """Kill one program; it can be launched again."""
        self.programs.pop(name).stop()
        del self._ports[name]

    def close(self) -> None:
        """Kill every program."""
        self._guard.close()
        self.programs.clear()
        self._ports.clear()
