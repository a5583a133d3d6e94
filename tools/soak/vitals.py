"""Memory and file descriptors of processes, and whether they grow.

The slope is that of a line, by least squares, through the samples of a process's second half that were
taken at quiet points: what a process takes while it starts is no leak, nor are connections that are in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

JUDGED_S = 240.0
"""A slope over less than this says nothing: it is printed, and not judged."""
MOST_MIB_PER_HOUR = 60.0
MOST_FDS_PER_HOUR = 30.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One process at one moment."""

    at: float
    door: str
    pid: int
    rss_mib: float
    fds: int
    at_rest: bool = False
    """Whether it was taken at a quiet point."""


@dataclass(frozen=True, slots=True)
class Slope:
    """How one process grew in the second half of its life."""

    door: str
    pid: int
    lived_s: float
    over_s: float
    """From the first sample of the line to the last."""
    rss_mib: float
    mib_per_hour: float
    fds: int
    fds_per_hour: float

    @property
    def judged(self) -> bool:
        """Whether it lived long enough to be judged."""
        return self.over_s >= JUDGED_S

    @property
    def grows(self) -> bool:
        """Whether it is beyond the limits."""
        return self.judged and (
            self.mib_per_hour > MOST_MIB_PER_HOUR or self.fds_per_hour > MOST_FDS_PER_HOUR
        )


def sample(at: float, door: str, pid: int, *, at_rest: bool = False) -> Sample | None:
    """What a process takes now; None when it has ended."""
    proc = Path("/proc") / str(pid)
    try:
        status = (proc / "status").read_text()
        fds = sum(1 for _ in (proc / "fd").iterdir())
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return Sample(at, door, pid, int(line.split()[1]) / 1024, fds, at_rest)
    return None  # it has ended, and waits for its parent


def slopes(samples: Sequence[Sample]) -> list[Slope]:
    """The slope of each process, by door and age."""
    by_process: dict[tuple[str, int], list[Sample]] = {}
    for one in samples:
        by_process.setdefault((one.door, one.pid), []).append(one)
    found = []
    for (door, pid), own in sorted(by_process.items(), key=lambda item: (item[0][0], item[1][0].at)):
        lived_s = own[-1].at - own[0].at
        half = [one for one in own if one.at_rest and one.at >= own[0].at + lived_s / 2]
        at = [one.at for one in half]
        found.append(
            Slope(
                door=door,
                pid=pid,
                lived_s=lived_s,
                over_s=at[-1] - at[0] if at else 0.0,
                rss_mib=own[-1].rss_mib,
                mib_per_hour=3600 * slope(at, [one.rss_mib for one in half]),
                fds=own[-1].fds,
                fds_per_hour=3600 * slope(at, [float(one.fds) for one in half]),
            )
        )
    return found


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Of the line through points that has the least squares.

    >>> slope([0, 1, 2], [5, 7, 9]), slope([3], [4])
    (2.0, 0.0)
    """
    if len(xs) < 2:
        return 0.0
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread if spread else 0.0
