"""The last steps into a container: change the root, give up every right, become the command.

A program of this machine. The root need not have any but the container's own: what this one needs is loaded
before the root changes.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT = 1, 2, 4, 32
_MNT_DETACH = 2
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 24, 38, 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def main(wanted: dict[str, Any]) -> None:
    """Never returns: the process becomes the container's first."""
    os.chdir(wanted["root"])
    _call("pivot_root", b".", b".old")
    os.chdir("/")
    _call("umount2", b"/.old", _MNT_DETACH)
    os.rmdir("/.old")
    _call("mount", None, b"/", None, _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID | _MS_NODEV, None)
    os.chdir(wanted["folder"])
    resource.setrlimit(resource.RLIMIT_DATA, (wanted["data"], wanted["data"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open("/proc/sys/kernel/cap_last_cap") as last:
        for capability in range(int(last.read()) + 1):
            _call("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
    _call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    os.setgroups([])
    os.setresgid(*[wanted["group"]] * 3)
    os.setresuid(*[wanted["user"]] * 3)
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    _call("capset", header, none)
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call("prctl", _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)  # a change of user would clear it
    os.umask(0o022)
    os.execvpe(wanted["command"][0], wanted["command"], wanted["env"])


def _call(name: str, *arguments: Any) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
