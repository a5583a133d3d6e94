"""What commands that ask about a cluster share: its state, which pods are meant, how an answer is shown.

State comes from files, or live from the context of a kubeconfig, as kubectl takes it. Both make the same
`Cluster`, so that a command does not know which it was.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.flags import take_fields
from fairlead.cli.output import show_data, show_warnings
from fairlead.errors import BadInput, Missing

if TYPE_CHECKING:
    from fairlead.client.config import Target
    from fairlead.client.connection import Connection
    from fairlead.client.leader_queue import LeaderAnswer
    from fairlead.doors.scheduler.configuration import Configuration
    from fairlead.feed.cluster import Cluster, More
    from fairlead.kube.pod import Pod

_PROGRESS_AFTER_S = 1.0
_PROGRESS_EVERY_S = 0.2
_WATCH_S = 2.0


@dataclass(frozen=True, slots=True)
class Source:
    """Where the state comes from, as the flags say."""

    files: tuple[str, ...]
    kubeconfig: str
    context: str
    system_namespace: str
    config_file: str | None
    fields: Mapping[str, Any]
    output: str

    @classmethod
    def take(cls, flags: dict[str, Any]) -> Source:
        """Take the flags of `state_options` and `decision_options` out of all that a command was given."""
        config = flags.pop("config_file", None)
        fields = take_fields(flags)
        given = {
            name: flags.pop(name) for name in ("files", "kubeconfig", "context", "system_namespace", "output")
        }
        return cls(config_file=config, fields=fields, **given)

    @property
    def live(self) -> bool:
        """Whether a cluster is asked, not files."""
        return not self.files

    def configuration(self) -> Configuration:
        """That of the scheduler to agree with."""
        from fairlead.doors.scheduler.configuration import read_configuration

        return read_configuration(self.config_file, self.fields)

    def cluster(self, more: More | None = None) -> tuple[Cluster, str]:
        """The cluster, and the namespace that is meant where none is given.

        `more` says what else to read of a live one. What could not be read is reported on standard error.
        """
        configuration = self.configuration()
        if self.files:
            if self.kubeconfig or self.context:
                raise BadInput("the state comes from files or from a cluster, not from both")
            cluster, namespace = self._of_files(configuration), "default"
        else:
            cluster, namespace = self._live(configuration, more)
        cluster.scheduler_lease = configuration.leader_election.lease_name
        show_warnings(f"{kind}: {why}" for kind, why in sorted(cluster.unread.items()))
        return cluster, namespace

    def ask_leader(self, url: str, pod: str) -> LeaderAnswer:
        """What the scheduler at a URL has of a pod (``namespace/name``) in its queue."""
        from fairlead.cli.cluster import call_cluster
        from fairlead.client.leader_queue import ask_leader

        namespace, _, name = pod.partition("/")

        async def ask(_: Connection, target: Target) -> LeaderAnswer:
            return await ask_leader(target, url, namespace, name)

        return call_cluster(self.kubeconfig, self.context, ask)

    def _of_files(self, configuration: Configuration) -> Cluster:
        from fairlead.cli.state import read_objects
        from fairlead.feed.cluster import Cluster

        return Cluster.from_objects(read_objects(self.files), settings=configuration.settings())

    def _live(self, configuration: Configuration, more: More | None) -> tuple[Cluster, str]:
        from fairlead.cli.cluster import call_cluster
        from fairlead.client.api import Client
        from fairlead.feed.cluster import Cluster

        async def read(connection: Connection, target: Target) -> tuple[Cluster, str]:
            with read_progress() as progress:
                found = await Cluster.read(
                    Client(connection),
                    more=more,
                    own=target.namespace,
                    system_namespace=self.system_namespace,
                    settings=configuration.settings(),
                    progress=progress,
                )
            return found, target.namespace

        cluster, namespace = call_cluster(self.kubeconfig, self.context, read)
        if not cluster.pods and not cluster.broken and "Pod" in cluster.unread:
            raise Missing(
                f"pods cannot be read, and without them there is no answer: {cluster.unread['Pod']}"
            )
        return cluster, namespace


@dataclass(frozen=True, slots=True)
class Scope:
    """Which pods are meant. `namespace` "": those of all."""

    namespace: str = ""
    labels: str = ""

    @classmethod
    def take(cls, flags: dict[str, Any]) -> Scope:
        """Take the flags of `scope_options` out of all that a command was given."""
        namespace, everywhere = flags.pop("namespace"), flags.pop("all_namespaces")
        if namespace and everywhere:
            raise BadInput("-n and -A: which of the two?")
        return cls(namespace, flags.pop("labels"))

    @property
    def whole(self) -> bool:
        """Whether all pods are meant."""
        return not self.namespace and not self.labels

    def of(self, pods: Iterable[Pod]) -> list[Pod]:
        """Those of the pods that are meant."""
        from fairlead.kube.selectors import matches, parse_label_selector

        selector = parse_label_selector(self.labels) if self.labels else None
        return [
            pod
            for pod in pods
            if (not self.namespace or pod.metadata.namespace == self.namespace)
            and (selector is None or matches(selector, pod.metadata.labels))
        ]

    def keys(self, cluster: Cluster) -> set[str]:
        """The names (``namespace/name``) of those of a cluster's pods that are meant."""
        return {pod.metadata.key for pod in self.of(cluster.pods.values())}


def show(source: Source, ask: Callable[[], Any], view: Callable[[Any], None], *, watch: bool = False) -> None:
    """Ask and show: as data where the flags say so, else through `view`; again and again with `watch`.

    What `ask` returns has `to_dict`, or is a list of what has.
    """
    if watch and not source.live:
        raise BadInput("--watch is for a live cluster; files do not change")
    # What is read stays until it was shown: to look through it for garbage would take as long as to read it.
    gc.disable()
    try:
        while True:
            found = ask()
            if watch and sys.stdout.isatty():
                click.clear()
            if source.output in ("json", "yaml"):
                show_data(plain(found), source.output)
            else:
                view(found)
            if not watch:
                return
            del found
            gc.collect()
            time.sleep(_WATCH_S)
            if not sys.stdout.isatty():
                click.echo("---")
    except KeyboardInterrupt:
        if not watch:
            raise


def plain(found: Any) -> Any:
    """What was found as plain data."""
    if isinstance(found, Sequence):
        return [each.to_dict() for each in found]
    return found.to_dict()


@contextmanager
def read_progress() -> Iterator[Callable[[int], None] | None]:
    """A line on standard error that counts what was read, on a terminal, once it takes a while."""
    if not sys.stderr.isatty():
        yield None
        return
    began = shown = time.monotonic()

    def report(read: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - began > _PROGRESS_AFTER_S and now - shown > _PROGRESS_EVERY_S:
            shown = now
            click.echo(f"\rreading the cluster: {read:,} objects", err=True, nl=False)

    try:
        yield report
    finally:
        if shown is not began:
            click.echo("\r\x1b[K", err=True, nl=False)


def since(cluster: Cluster, at: float | None) -> str:
    """How long ago a moment was when the cluster was looked at; "-" where it is not known."""
    from fairlead.kube.duration import age

    return "-" if not at else age(max(0.0, cluster.asked.now - at))
