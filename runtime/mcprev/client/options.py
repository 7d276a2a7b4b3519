"""The options of a single call, and the interface of a generated package (LIFE-18, CONV-39, SEAM-9)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypedDict, TypeVar

from mcprev.core.capabilities import Capabilities
from mcprev.errors import Json, LocalProtocolError
from mcprev.protocol.meta import caller_meta_error
from mcprev.protocol.stateless import STAMPED

if TYPE_CHECKING:
    from mcprev_types.latest import models

T_co = TypeVar("T_co", covariant=True)
Progress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None] | None]
"""A callback for progress notifications: progress, total, message. A coroutine function is run in a task."""
TIMEOUT: Final = 60.0
"""Default of `Options.timeout`, in seconds."""
TOTAL: Final = 600.0
"""Default of `Options.total_timeout`, in seconds."""


class Options(TypedDict, total=False):
    """The options of a single call."""

    timeout: float | None
    """Seconds without a response or progress after which the call is cancelled: 60 by default. Each progress
    notification starts them again, so a server that keeps reporting progress is bounded by `total_timeout` only."""
    total_timeout: float | None
    """Seconds after which the call is cancelled, whatever its progress: 600 by default. None is no bound."""
    progress: Progress
    """Request progress notifications and receive them."""
    meta: Mapping[str, Json]
    """Members to add to `_meta`."""
    log_level: models.LoggingLevel
    """The lowest level of log messages that the server sends during the call."""
    fresh: bool
    """Send the request even if the cache holds a fresh result."""
    retry: bool
    """Send the request once more if the connection breaks before the response. The server may then execute it twice.

    Without a session, requests that only read are always sent once more, and so are tools whose annotations say
    that they only read or are idempotent.
    """


KNOWN: Final = frozenset(Options.__annotations__)
"""The names of the options."""


def unknown_option(options: Options) -> TypeError:
    """Return the error for a call with an option that there is not."""
    from difflib import get_close_matches  # imported late: only mistakes need it

    name = min(options.keys() - KNOWN)
    meant = get_close_matches(name, KNOWN, 1)
    hint = (
        f"did you mean '{meant[0]}'?"
        if meant
        else (
            f"there are {', '.join(sorted(KNOWN))}; the arguments of a tool or prompt are passed as one mapping, as in "
            f"call_tool('name', {{'{name}': ...}})"
        )
    )
    return TypeError(f"a call has no option '{name}': {hint}")


class Package(Protocol[T_co]):
    """The package of a revision, such as `mcprev_types.v2025_06_18`."""

    @property
    def REVISION(self) -> str:  # noqa: N802 - as the packages spell it
        """The name of the revision."""
        ...

    @property
    def ClientCalls(self) -> Callable[[Any], T_co]:  # noqa: N802 - as the packages spell it
        """The class of typed call methods of the revision."""
        ...


def caller_meta(options: Options, identity: Capabilities) -> Mapping[str, Json]:
    """Return the members that a caller adds to `_meta`. Raises `LocalProtocolError` for reserved ones."""
    meta = options.get("meta")
    if not meta:
        return {}
    # Requirements: META-2, META-6, META-9.
    wrong = caller_meta_error(meta, stamped=STAMPED, extensions=identity.extensions)
    if wrong is not None:
        raise LocalProtocolError(wrong)
    return meta
