"""A story played once cleanly, and then once more for each write of its door, which dies there.

A door dies before a write, which then never arrives, or after it, which was applied and whose answer nobody
reads. It is a process of its own and ends by SIGKILL, and nothing that it sends later arrives; what it sent
before lands. Then another one is started, and the story must end where the clean one did.

Subtle: doors write concurrently, so the order of writes differs from play to play. A point is therefore the
nth write *of a kind* (verb, resource and subresource), in the order in which the proxy sees them, and not the
nth of all. Of a few kinds (events, what is coalesced) a play may have fewer: one without such a write is
compared like every other one, and counted apart.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from fairlead.client.config import load
from support.cluster import Cluster, Host
from support.door import kubeconfig_of
from support.faults import Faithful, FaultProxy, LoseReply, LoseRequest, Plan, RequestFault
from support.manifests import pod
from support.wire import PATIENCE_S, Watch

__all__ = ["Enumerated", "Outcome", "Point", "Story", "enumerate_crashes", "kind_of", "thinned"]

T = TypeVar("T")
Manifest = dict[str, Any]
Outcome = Any
"""What is compared between plays: plain data without names that differ from play to play."""

SIDES = ("before", "after")


@dataclass(frozen=True, slots=True)
class Point:
    """Where a door dies: before or after its nth write of a kind."""

    kind: str
    number: int
    side: str

    def __str__(self) -> str:
        return f"{self.side} {self.kind} #{self.number}"


def kind_of(method: str, path: str) -> str:
    """What a write is, without names.

    >>> kind_of("POST", "/api/v1/namespaces/shop/pods/web-1/binding?a=b")
    'POST pods/binding'
    >>> kind_of("PATCH", "/apis/fairlead.dev/v1alpha1/placementpolicies/web/status")
    'PATCH placementpolicies/status'
    >>> kind_of("DELETE", "/api/v1/namespaces/shop")
    'DELETE namespaces'
    """
    parts = path.partition("?")[0].strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    resource, _, *sub = [*parts, ""][:3]
    return f"{method} {'/'.join([resource, *filter(None, sub)])}"


class Dies(Faithful):
    """Notes the writes of a door once it is `armed`, but for those of leases; at a point, the door is dead.

    Leases are renewed by the clock: when, is no part of a story.
    """

    def __init__(self, point: Point | None = None) -> None:
        self.armed = False
        self.writes: list[str] = []
        self.wrote_at = time.monotonic()
        self.reached = threading.Event()
        self._point = point
        self._dead = False

    def on_request(self, method: str, path: str) -> RequestFault | None:
        if self._dead:
            return LoseRequest()
        if method == "GET" or "/leases" in path or "dryRun" in path or not self.armed:
            return None
        kind = kind_of(method, path)
        self.writes.append(kind)
        self.wrote_at = time.monotonic()
        point = self._point
        if point is None or self.reached.is_set():
            return None
        if (kind, self.writes.count(kind)) != (point.kind, point.number):
            return None
        self._dead = True
        self.reached.set()
        return LoseRequest() if point.side == "before" else LoseReply()

    def revived(self) -> None:
        """Another door is started: what it sends arrives."""
        self._dead = False


class Proxy:
    """A proxy before a host that lives in a thread of its own; `kubeconfig` leads doors through it."""

    def __init__(self, host: Host, folder: Path) -> None:
        self._started: Future[FaultProxy] = Future()
        self._host = host
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), daemon=True)
        self._thread.start()
        self._proxy = self._started.result(PATIENCE_S)
        self.kubeconfig = kubeconfig_of(self._proxy.url, folder)

    def use(self, plan: Plan) -> None:
        """Go by this plan from now on."""
        self._proxy.plan = plan

    def landed(self) -> None:
        """Wait until what was passed on has been applied."""
        asyncio.run_coroutine_threadsafe(self._proxy.landed(), self._loop).result(PATIENCE_S)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(PATIENCE_S)

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        try:
            async with FaultProxy(load(self._host.kubeconfig)) as proxy:
                self._started.set_result(proxy)
                await self._ended.wait()
        except Exception as error:
            if self._started.done():
                raise
            self._started.set_exception(error)


class Story(ABC):
    """One play of a story, in a namespace of its own. The door that may die goes through `kubeconfig`."""

    name: ClassVar[str]
    heart: ClassVar[str]
    """The kind of write that the story is about."""
    steady: ClassVar[bool] = True
    """Whether the door goes on after the story's end, so that it can be seen to write no more."""

    def __init__(self, cluster: Cluster, kubeconfig: Path, folder: Path, plan: Dies) -> None:
        self.cluster = cluster
        self.kubeconfig = kubeconfig
        self.folder = folder
        self.plan = plan
        self.died = False
        self.ends = ExitStack()
        """What it started, to be ended with it."""
        self._landed: Callable[[], None] = lambda: None

    # What a story is

    def prepare(self) -> None:  # noqa: B027 (some need nothing)
        """What is there before the door is started."""

    @abstractmethod
    def start(self) -> None:
        """Start a door, and wait until it works."""

    @abstractmethod
    def kill(self) -> None:
        """End it by SIGKILL."""

    @abstractmethod
    def act(self) -> None:
        """What users do, up to the end; waits with `until` only, so that the door may die at any time."""

    @abstractmethod
    def outcome(self) -> Outcome:
        """What there is at the end."""

    def while_down(self) -> None:  # noqa: B027 (in some nothing happens)
        """What happens between a door's death and the start of another."""

    def check(self, moments: list[list[Manifest]]) -> None:  # noqa: B027 (some have nothing besides)
        """Look at the pods of the namespace, as they were after each change of one."""

    # What it has

    def until(self, look: Callable[[], T], what: str) -> T:
        """Wait for something; meanwhile the door dies, if its point is reached, and another is started."""

        def seen() -> T:
            if self.plan.reached.is_set() and not self.died:
                self.died = True
                self._landed()
                self.kill()
                self.while_down()
                self.plan.revived()
                self.start()
            return look()

        return self.cluster.wait(seen, what)

    def play(self, landed: Callable[[], None], quiet_s: float) -> Outcome:
        """From beginning to end, the quiet window included; the outcome."""
        self._landed = landed
        self.prepare()
        self.start()
        with _watched(self.cluster) as moments:
            self.plan.armed = True
            self.act()
            if self.steady:
                self.until(lambda: time.monotonic() - self.plan.wrote_at > quiet_s, "a quiet window")
            found = self.outcome()
            seen = moments()
        _check_binds(self.cluster, seen)
        self.check(seen)
        return found


@dataclass
class Enumerated:
    """What was enumerated of a story."""

    story: str
    writes: list[str]
    """The kinds of the clean play's writes, in the order in which they came."""
    points: int = 0
    missed: list[Point] = field(default_factory=list)
    """Points to which no write came, in plays that ended like every other one."""
    seconds: float = 0.0

    def row(self) -> tuple[str, ...]:
        """As a table shows it."""
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(Counter(self.writes).items()))
        played = f"{self.points} ({len(self.missed)} missed)" if self.missed else str(self.points)
        return self.story, str(len(self.writes)), played, f"{self.seconds:.0f} s", kinds


def enumerate_crashes(
    story: type[Story],
    host: Host,
    folder: Path,
    *,
    quiet_s: float,
    choose: Callable[[list[Point]], list[Point]] = list,
    varying: tuple[str, ...] = (),
) -> Enumerated:
    """Play a story cleanly, then with a death at each point that is chosen; each must end like the clean one.

    `varying` are kinds of writes whose number differs from play to play: all but the first may fail to come.
    """
    began = time.monotonic()
    proxy = Proxy(host, folder)
    try:
        clean, plan = _play(story, host, proxy, folder, None, quiet_s)
        found = Enumerated(story.name, list(plan.writes))
        for point in choose(points_of(plan.writes)):
            try:
                outcome, plan = _play(story, host, proxy, folder, point, quiet_s)
                assert outcome == clean
            except Exception as error:
                error.add_note(f"{story.name}: the door died {point}, of {len(found.writes)} writes")
                raise
            found.points += 1
            if not plan.reached.is_set():
                may_fail = point.kind in varying and point.number > 1
                assert may_fail, f"{story.name}: no write came for {point}, only {plan.writes}"
                found.missed.append(point)
    finally:
        proxy.close()
    found.seconds = time.monotonic() - began
    return found


def points_of(writes: list[str]) -> list[Point]:
    """Both sides of every write."""
    seen: Counter[str] = Counter()
    found = []
    for kind in writes:
        seen[kind] += 1
        found += [Point(kind, seen[kind], side) for side in SIDES]
    return found


def thinned(points: list[Point], heart: str) -> list[Point]:
    """Both sides of the first write, of the middle one of this kind and of the last."""
    of_kind = [index for index, point in enumerate(points) if point.kind == heart and point.side == "before"]
    chosen = {0, of_kind[(len(of_kind) - 1) // 2], len(points) - 2}
    return [points[index + side] for index in sorted(chosen) for side in (0, 1)]


def _play(
    story: type[Story], host: Host, proxy: Proxy, folder: Path, point: Point | None, quiet_s: float
) -> tuple[Outcome, Dies]:
    plan = Dies(point)
    proxy.use(plan)
    cluster = Cluster(host)
    try:
        played = story(cluster, proxy.kubeconfig, folder, plan)
        with played.ends:
            return played.play(proxy.landed, quiet_s), plan
    finally:
        cluster.close()


@contextmanager
def _watched(cluster: Cluster) -> Iterator[Callable[[], list[list[Manifest]]]]:
    """Record what becomes of a namespace's pods from here on; call it once to be told, change by change."""
    before = cluster.list("Pod")
    version = before["metadata"]["resourceVersion"]
    with cluster.wire.watch(cluster.path("Pod"), resourceVersion=version) as watch:
        yield lambda: list(_moments(cluster, watch, before["items"]))


def _moments(cluster: Cluster, watch: Watch, before: list[Manifest]) -> Iterator[list[Manifest]]:
    now = {item["metadata"]["uid"]: item for item in before}
    end = cluster.create(pod(cluster.unique("end")))["metadata"]["uid"]
    while (event := watch.next())["object"]["metadata"]["uid"] != end:
        item = event["object"]
        now[item["metadata"]["uid"]] = item
        if event["type"] == "DELETED":
            del now[item["metadata"]["uid"]]
        yield list(now.values())


def _check_binds(cluster: Cluster, moments: list[list[Manifest]]) -> None:
    """No pod was ever on two nodes, and no node was ever given more than it has."""
    room = {
        one["metadata"]["name"]: _milli(one["status"]["allocatable"]["cpu"])
        for one in cluster.list("Node", labelSelector=f"test={cluster.namespace}")["items"]
    }
    nodes: dict[str, str] = {}
    for pods in moments:
        used: Counter[str] = Counter()
        for one in pods:
            node = one["spec"].get("nodeName")
            if not node:
                continue
            assert nodes.setdefault(one["metadata"]["uid"], node) == node, "a pod was bound twice"
            used[node] += sum(
                _milli(each.get("resources", {}).get("requests", {}).get("cpu", "0"))
                for each in one["spec"]["containers"]
            )
        for node, number in used.items():
            assert number <= room.get(node, number), f"{node} was given more than it has"


def _milli(cpu: str) -> int:
    return int(cpu.removesuffix("m")) if cpu.endswith("m") else 1000 * int(cpu)
