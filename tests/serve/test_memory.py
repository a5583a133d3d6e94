"""The memory of a process: nothing is kept of large bodies, and doors do not disturb each other."""

from __future__ import annotations

import ast
import gc
import platform
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairlead.doors
from fairlead.doors.memory import Memory

DOORS = Path(fairlead.doors.__file__).parent
MIB = 1024 * 1024

# Bodies are freed while smaller things that came after them stay.
PROGRAM = """
import sys
from pathlib import Path
from fairlead.doors.memory import return_large_blocks

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))

if sys.argv[1] == "returning":
    return_large_blocks()
for _ in range(3):
    bytearray(b"x") * (9 << 20)
before, kept = resident(), []
for _ in range(4):
    bodies = [bytearray(b"x") * (8 << 20) for _ in range(4)]
    kept.append(bytearray(b"x") * 100_000)
    del bodies
print(resident() - before)
"""


def grown(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], check=True, capture_output=True, text=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left alone")
def test_the_memory_of_large_bodies_goes_back_to_the_system() -> None:
    assert grown("returning") < 4 * MIB < grown("learning")


@pytest.fixture
def collector() -> Iterator[None]:
    """Leaves the collector of this process as it was."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("collector")
class TestTheCollector:
    def test_rests_until_the_last_of_several_doors_has_loaded(self) -> None:
        memory = Memory()
        with memory.loading():
            with memory.loading():
                assert not gc.isenabled()
            assert not gc.isenabled(), "another door still loads"
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0

    def test_works_again_after_a_door_that_failed_to_load(self) -> None:
        with pytest.raises(ZeroDivisionError), Memory().loading():
            raise ZeroDivisionError
        assert gc.isenabled()

    def test_lets_go_of_what_a_door_loaded_before(self) -> None:
        memory, loaded = Memory(), _Cycle()
        gone = weakref.ref(loaded)
        with memory.loading():
            pass
        del loaded
        gc.collect()
        assert gone() is not None, "it was set aside"
        memory.start_over()
        assert gone() is None
        assert gc.get_freeze_count() > 0, "what other doors loaded stays set aside"

    def test_sets_aside_no_garbage_where_a_door_settles(self) -> None:
        garbage = _Cycle()
        gone = weakref.ref(garbage)
        del garbage
        Memory().settle()
        assert gone() is None

    def test_looks_after_as_many_objects_as_the_doors_want(self) -> None:
        before = gc.get_threshold()
        Memory().set_up(takes_bodies=False, garbage=0)
        assert gc.get_threshold() == before
        Memory().set_up(takes_bodies=False, garbage=50_000)
        assert gc.get_threshold() == (50_000, *before[1:])


class _Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_no_door_touches_what_is_the_process() -> None:
    """Signals, collector and allocator have one owner: doors share a process."""
    owners = {"memory.py", "process.py"}
    found = {
        f"{path.relative_to(DOORS)}: {name}"
        for path in DOORS.rglob("*.py")
        if str(path.relative_to(DOORS)) not in owners
        for one in ast.walk(ast.parse(path.read_text()))
        if isinstance(one, ast.Import | ast.ImportFrom)
        for name in ([one.module] if isinstance(one, ast.ImportFrom) else [each.name for each in one.names])
        if name in ("ctypes", "gc", "signal")
    }
    assert found == set()
