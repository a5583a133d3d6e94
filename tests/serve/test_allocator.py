"""What is kept of a large body once it is answered: nothing."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

MIB = 1024 * 1024

# Bodies are freed while smaller things that came after them stay.
PROGRAM = """
import sys
from pathlib import Path
from fairlead.doors.allocator import return_large_blocks

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
