"""Fairlead's own components beside a rig's control plane, as processes of their own.

They are started as a user starts them, by the command line, and show the rig's serving certificate.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from fairlead.errors import RigError
from fairlead.rig.autoscalers import Run
from fairlead.rig.identity import Identity
from fairlead.rig.processes import Program, answers

SYSTEM_NAMESPACE = "fairlead-system"

_FAIRLEAD = ("-m", "fairlead")
_RIGS_OWN = ("clientConnection", "leaderElection")


def run_extender(run: Run, *, kubeconfig: Path, port: int) -> Program:
    """``fairlead extender`` on a loopback port."""
    return run(
        "fairlead-extender",
        Path(sys.executable),
        *_FAIRLEAD,
        "extender",
        f"--kubeconfig={kubeconfig}",
        f"--listen=127.0.0.1:{port}",
        ready=lambda: answers(port, "/readyz"),
    )


def run_webhook(run: Run, identity: Identity, *, kubeconfig: Path, port: int) -> Program:
    """``fairlead webhook`` on a loopback port, registered with the API server."""
    return run(
        "fairlead-webhook",
        Path(sys.executable),
        *_FAIRLEAD,
        "webhook",
        f"--kubeconfig={kubeconfig}",
        f"--listen=127.0.0.1:{port}",
        "--register",
        f"--url=https://127.0.0.1:{port}",
        f"--tls-cert-file={identity.public('server')}",
        f"--tls-key-file={identity.private('server')}",
        f"--tls-ca-file={identity.public('ca')}",
        ready=lambda: answers(port, "/readyz", tls=identity.tls()),
    )


def extender_config(port: int) -> dict[str, Any]:
    """What kube-scheduler's configuration says of an extender on that port, as ``fairlead`` prints it."""
    command = [sys.executable, *_FAIRLEAD, "extender", "config", f"--url=http://127.0.0.1:{port}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RigError(f"fairlead extender config ended with {done.returncode}: {done.stderr.strip()}")
    printed = yaml.safe_load(done.stdout)
    # Where the API server is and whether to elect a leader is the rig's to say.
    return {key: value for key, value in printed.items() if key not in _RIGS_OWN}
