"""What can be said of a single call, and of the package whose callers are wanted (LIFE-18, CONV-39, SEAM-9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypedDict, TypeVar

from mcprev.core.capabilities import Capabilities
from mcprev.errors import Json, LocalProtocolError
from mcprev.protocol.meta import caller_meta_error
from mcprev.protocol.stateless import STAMPED

if TYPE_CHECKING:
    from mcprev_types.latest import models

T_co = TypeVar("T_co", covariant=True)
Progress: TypeAlias = Callable[[float, float | None, str | None], None]
"""Told how far a call has come: progress, total, message."""
TIMEOUT: Final = 60.0
"""Seconds without a sign of life after which a call is given up, unless said otherwise; progress starts them anew."""
TOTAL: Final = 600.0
"""Seconds after which a call is given up whatever progress it makes, unless said otherwise."""


class Options(TypedDict, total=False):
    """What can be said of a single call."""

    timeout: float | None
    """Seconds without a response or progress after which the call is cancelled. Each progress notification starts
    them anew, so a server that keeps reporting progress is waited for until `total_timeout` is over."""
    total_timeout: float | None
    """Seconds after which it is given up whatever progress it makes: 600 by default, which is what bounds a call to a
    server that only ever reports progress. None is no bound at all."""
    progress: Progress
    """Ask for progress reports, and be told of them."""
    meta: Mapping[str, Json]
    """Members to add to `_meta`."""
    log_level: models.LoggingLevel
    """The lowest level of log messages wanted during the call."""
    fresh: bool
    """Ask the server even if the cache holds a result that is still fresh."""
    retry: bool
    """Send it again, once, if the connection breaks before the answer, although it may be done twice then.

    What only reads is sent again in any case where each request is on its own, and so is a tool whose annotations
    say that it only reads or may be repeated.
    """


class Package(Protocol[T_co]):
    """The package of a revision, such as `mcprev_types.v2025_06_18`."""

    @property
    def REVISION(self) -> str:  # noqa: N802 - as the packages spell it
        """The name of the revision."""
        ...

    @property
    def ClientCalls(self) -> Callable[[Any], T_co]:  # noqa: N802 - as the packages spell it
        """The callers of the revision."""
        ...


def caller_meta(options: Options, identity: Capabilities) -> Mapping[str, Json]:
    """What a caller adds to `_meta`. Raises `LocalProtocolError` for what is not its to write (META-2, 6, 9)."""
    meta = options.get("meta")
    if not meta:
        return {}
    wrong = caller_meta_error(meta, stamped=STAMPED, extensions=identity.extensions)
    if wrong is not None:
        raise LocalProtocolError(wrong)
    return meta
