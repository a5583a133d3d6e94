"""A process that plays runs, one after the other, for `local_workers`: ``python -m … FD``.

It is in a session of its own, so that Ctrl-C reaches only the process that started it, and it ends as soon as
the connection to that process does, in the middle of a run too.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from multiprocessing.connection import Connection

from fairlead.simulation.sweep.run import Run, Shared, play


def serve(connection: Connection) -> None:
    """Answer each run with what came of it."""
    try:
        shared: Shared = connection.recv()
    except EOFError:
        return  # given up before it began
    runs: queue.SimpleQueue[Run] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, runs), daemon=True).start()
    while True:
        connection.send(play(shared, runs.get()))


def _receive(connection: Connection, runs: queue.SimpleQueue[Run]) -> None:
    try:
        while True:
            runs.put(connection.recv())
    except (EOFError, OSError):
        os._exit(0)  # the process that asked is gone, and with it the wish


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
