"""The dashboard for the user of this machine: on loopback, opened by an address that works once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairlead.doors.process import Context
from fairlead.engine.ask.cost import Price
from fairlead.engine.planning.settings import Settings
from fairlead.errors import BadInput
from fairlead.nodegroups import NodeGroup
from fairlead.web.access import LOOPBACK, OneTimeToken
from fairlead.web.door import DashboardDoor
from fairlead.web.server import PATH

ANY_PORT = "127.0.0.1:0"


class LocalDashboard:
    """The component, and the address that opens it.

    Invariant: once `opened_at` was called, `tell` has received the one address that works now, first of all
    and each time it was used.
    """

    def __init__(
        self,
        context: Context,
        settings: Settings,
        tell: Callable[[str], None],
        *,
        lease: str,
        prices: Sequence[Price] = (),
        groups: Sequence[NodeGroup] = (),
        title: str = "",
        flags: Sequence[str] = (),
    ) -> None:
        """See `DashboardDoor`."""
        self._url = ""
        self._tell = tell
        self._access = OneTimeToken(renewed=lambda _: self._tell(self.address))
        self.door = DashboardDoor(
            context,
            self._access,
            settings,
            lease=lease,
            prices=prices,
            groups=groups,
            title=title,
            sign_in="address",
            flags=flags,
        )

    def opened_at(self, url: str) -> None:
        """The port is open under this URL."""
        self._url = url
        self._tell(self.address)

    @property
    def address(self) -> str:
        """What to open in a browser; works once."""
        return f"{self._url}{PATH}/open?token={self._access.token}"


def check_loopback(listen: str) -> None:
    """Refuse an address that others could reach: what crosses a network needs TLS and users of its own.

    >>> check_loopback("127.0.0.1:8080"), check_loopback("[::1]:0")
    (None, None)
    """
    host = listen.rpartition(":")[0].strip("[]").lower()
    if host not in LOOPBACK:
        raise BadInput(
            f"--listen: {listen!r} is not an address of this machine alone, such as {ANY_PORT}; to show a "
            "cluster to others run fairlead serve --dashboard on it"
        )
