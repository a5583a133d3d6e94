"""Runs played by the workers of a Dask cluster, which need Fairlead of this version and none of the files.

Subtle: what all runs share is a task's result, not scattered data. Dask computes a lost result again, but
cannot bring back data that was only scattered; so a worker may be lost at any time, with all that it held.
"""

from __future__ import annotations

import importlib.metadata
import logging
import threading
import uuid
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from fairlead.errors import BadInput, FairleadError
from fairlead.simulation.sweep.run import Played, Run, Shared, play, version

_CONNECTED_WITHIN_S = 20

# Threads of one process take turns anyway; two runs at a time would only share its memory.
_ONE_AT_A_TIME = threading.Lock()


def play_on_dask(shared: Shared, runs: Sequence[Run], address: str) -> Generator[Played, None, None]:
    """Each run's outcome, as they end. Closing the iterator gives up what has not ended."""
    dask, distributed = _dask()
    for handler in logging.getLogger("distributed").handlers:
        handler.setLevel(logging.CRITICAL)  # what concerns the sweep is said here
    called = f"--dask {address}"
    # Runs without their common part are small; that part may be large, and is sent once.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "10GB"}):
        try:
            client = distributed.Client(address, timeout=_CONNECTED_WITHIN_S, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise BadInput(f"{called}: no Dask scheduler answers there: {error}") from error
        try:
            with client:
                installed = client.run(importlib.metadata.version, "fairlead", on_error="return")
                _check_installed(installed, called)
                common = client.submit(_as_it_is, shared, key=f"fairlead-scenario-{uuid.uuid4()}")
                given = {
                    client.submit(play_there, common, run, key=f"fairlead-run-{uuid.uuid4()}"): run
                    for run in runs
                }
                for future in distributed.as_completed(list(given), loop=client.loop):
                    yield _outcome(future, given.pop(future), called)
        except (OSError, distributed.CancelledError) as error:
            raise FairleadError(f"{called}: the scheduler was lost, or gave the runs up") from error


def play_there(shared: Shared, run: Run) -> Played:
    """On a worker: play a run, unless this is another Fairlead than the one that asks."""
    if shared.version != version():
        raise BadInput(
            f"a worker has fairlead {version()}, and this is {shared.version}: install the same on all"
        )
    with _ONE_AT_A_TIME:
        return play(shared, run)


def _as_it_is(shared: Shared) -> Shared:
    return shared


def _outcome(future: Any, run: Run, called: str) -> Played:
    _, distributed = _dask()
    try:
        found = future.result()
    except BadInput as error:
        raise BadInput(f"{called}: {error}") from error
    except distributed.KilledWorker as error:
        return Played(run.id, b"", f"every worker that played it was lost: {error.last_worker.address} last")
    except (ImportError, AttributeError) as error:
        raise BadInput(f"{called}: a worker lacks fairlead {version()}: {error}") from error
    assert isinstance(found, Played)
    return found


def _check_installed(found: Mapping[str, Any], called: str) -> None:
    """What workers said of their Fairlead; one that could not say will do so when it has a run."""
    for worker, said in sorted(found.items()):
        if isinstance(said, importlib.metadata.PackageNotFoundError):
            raise BadInput(f"{called}: worker {worker} has no fairlead: install {version()} there")
        if isinstance(said, str) and said != version():
            raise BadInput(
                f"{called}: worker {worker} has fairlead {said}, and this is {version()}: install the same"
            )


def _dask() -> tuple[Any, Any]:
    try:
        import dask
        import distributed
    except ImportError as error:
        raise BadInput("--dask needs dask and distributed: pip install 'fairlead[dist]'") from error
    return dask, distributed
