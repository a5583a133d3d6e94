"""The dashboard for users of a cluster, on a port of a component; they sign in with a token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairlead.doors.caller_review import CallerReview
from fairlead.doors.certificates import Files, Shown
from fairlead.doors.process import Context
from fairlead.doors.tasks import beside
from fairlead.engine.ask.cost import Price
from fairlead.engine.planning.settings import Settings as PlanningSettings
from fairlead.errors import BadInput
from fairlead.web.access import LOOPBACK, ReviewedCallers
from fairlead.web.door import DashboardDoor


@dataclass(frozen=True, slots=True)
class Settings:
    """`hosts` are the names, besides loopback's, under which browsers call it. With a certificate of its own
    the port speaks TLS, if no other component has one.
    """

    hosts: tuple[str, ...] = ()
    tls_cert_file: str = ""
    tls_key_file: str = ""
    lease: str = "fairlead-scheduler"
    prices: Sequence[Price] = ()

    def __post_init__(self) -> None:
        """Refuse what could not work later."""
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            raise BadInput("--tls-cert-file and --tls-key-file go together")
        for host in self.hosts:
            if not host or set(host) & set("/: ") or host != host.strip():
                raise BadInput(f"--dashboard-host: {host!r} is not the name of a host, without a port")


class SharedDashboard(DashboardDoor):
    """See the module."""

    def __init__(self, context: Context, settings: Settings, planning: PlanningSettings) -> None:
        access = ReviewedCallers(CallerReview(context.client), hosts=settings.hosts, clock=context.clock)
        super().__init__(
            context,
            access,
            planning,
            lease=settings.lease,
            prices=settings.prices,
            title=context.system_namespace,
            sign_in="token",
        )
        self._shown = Shown()
        self._files = (
            Files(settings.tls_cert_file, settings.tls_key_file, None, self._shown.show)
            if settings.tls_cert_file
            else None
        )

    async def prepare(self) -> None:
        """See `Door`: the certificate, if there is one."""
        if self._files is not None:
            await self._files.first()

    def tls(self) -> Shown | None:
        """Only with a certificate."""
        return self._shown if self._files is not None else None

    async def run(self) -> None:
        """See `Door`."""
        async with beside() as start:
            if self._files is not None:
                start(self._files.run())
            await super().run()


def check_private(listen: str, *, tls: bool) -> None:
    """Refuse to let tokens cross a network that others can read.

    >>> check_private(":9443", tls=True), check_private("127.0.0.1:8080", tls=False)
    (None, None)
    """
    host = listen.rpartition(":")[0].strip("[]").lower()
    if not tls and host not in LOOPBACK:
        raise BadInput(
            "--dashboard: users send their tokens to this port, which would not speak TLS: give it "
            "--tls-cert-file and --tls-key-file, or --listen 127.0.0.1:PORT and use kubectl port-forward"
        )
