"""Every error that Fairlead raises on purpose, in one hierarchy.

::

    FairleadError                what happened, to what, and what to do
    ├── BadObject                a Kubernetes object we cannot use: names the object and the field
    ├── BadInput                 a flag, file or argument we cannot use
    │   └── BadKubeconfig        a kubeconfig we cannot use
    ├── ApiError                 the API server said no (code, reason, message)
    │   ├── NotFound             404
    │   ├── Conflict             409 (AlreadyExists, a stale resourceVersion, a double bind)
    │   ├── Invalid              422
    │   ├── Gone                 410: a resourceVersion or continue token that was compacted away
    │   └── TooManyRequests      429: flow control, or a PodDisruptionBudget saying no
    ├── Unreachable              no answer, or an answer that broke off: the outcome is unknown
    │   └── NotSent              no connection: nothing was sent, so nothing was applied
    ├── Missing                  something we need on the cluster is not there, and we may not make it
    ├── Taken                    an object of a name that we need exists, and is not ours
    ├── Overdue                  what we waited for did not happen in time
    ├── LeaseLost                a write was refused because our lease may have ended
    └── RigError                 the test control plane could not be built or started

Bad input never shows a traceback: the command line prints the message of any ``FairleadError``
and exits with `exit_code`.
"""

from __future__ import annotations


class FairleadError(Exception):
    """Base of all errors raised on purpose; its text is complete enough to be shown as it is."""

    exit_code = 1


class BadObject(FairleadError):  # noqa: N818 (the hierarchy reads as what happened)
    """A Kubernetes object that cannot be used. `object` is e.g. ``Pod shop/web-1``."""

    exit_code = 2

    def __init__(self, object: str, field: str, problem: str) -> None:  # noqa: A002 (vocabulary)
        self.object = object
        self.field = field
        self.problem = problem
        super().__init__(f"{object}: {field}: {problem}" if field else f"{object}: {problem}")


class BadInput(FairleadError):  # noqa: N818
    """A flag, file or argument that cannot be used."""

    exit_code = 2


class BadKubeconfig(BadInput):
    """A kubeconfig that cannot be used; says which file and which entry."""


class ApiError(FairleadError):
    """The API server answered with a Status that is not success.

    `retry_after_s` is what the server asked for, None when it did not ask.
    `details` is the Status' details as they came: causes name fields.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        retry_after_s: float | None = None,
        details: dict[str, object] | None = None,
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s
        self.details = details or {}
        super().__init__(f"{message} ({code} {reason})")

    @classmethod
    def of(
        cls,
        code: int,
        reason: str,
        message: str,
        *,
        retry_after_s: float | None = None,
        details: dict[str, object] | None = None,
    ) -> ApiError:
        """The error of the class that stands for `code`."""
        kind = _BY_CODE.get(code, ApiError)
        return kind(code, reason, message, retry_after_s=retry_after_s, details=details)


class NotFound(ApiError):  # noqa: N818
    """404."""


class Conflict(ApiError):  # noqa: N818
    """409."""


class Invalid(ApiError):  # noqa: N818
    """422."""


class Gone(ApiError):  # noqa: N818
    """410."""


class TooManyRequests(ApiError):  # noqa: N818
    """429."""


_BY_CODE: dict[int, type[ApiError]] = {
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


class Unreachable(FairleadError):  # noqa: N818
    """No complete answer came back. A write that ended so may have been applied: read first."""


class NotSent(Unreachable):
    """No connection could be made. Nothing was sent: a write that ended so was not applied."""


class Missing(FairleadError):  # noqa: N818
    """Something that a door needs on the cluster is not there, and it may not make it: says what and how."""


class Taken(FairleadError):  # noqa: N818
    """An object of a name that we need exists and belongs to another writer: it is never adopted."""


class Overdue(FairleadError):  # noqa: N818
    """What we waited for did not happen in time: says what, and the last reason seen."""


class LeaseLost(FairleadError):  # noqa: N818
    """A write was not sent because our lease may have ended by the time it lands."""


class RigError(FairleadError):
    """The test control plane could not be built or started."""
