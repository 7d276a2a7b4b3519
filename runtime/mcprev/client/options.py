"""The options of a single call (LIFE-18, CONV-39)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias, TypedDict

from mcprev.core.capabilities import Capabilities
from mcprev.error_text import did_you_mean
from mcprev.errors import Json, LocalProtocolError
from mcprev.protocol.meta import caller_meta_error
from mcprev.protocol.stateless import STAMPED

if TYPE_CHECKING:
    from mcprev_types.latest import models

Progress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None] | None]
"""A callback for progress notifications: `f(progress, total, message)`; the last two may be None. It may be async."""
TIMEOUT: Final = 60.0
"""Default of `Options.timeout`, in seconds."""
TOTAL: Final = 600.0
"""Default of `Options.total_timeout`, in seconds."""


class Options(TypedDict, total=False):
    """The options of a single call: keyword arguments of every method of `Client` that sends a request."""

    timeout: float | None
    """Seconds without a response or progress after which the call is cancelled. Each progress notification restarts
    this time, and the server is asked for them. None: no limit. Default: that of `connect`, 60."""
    total_timeout: float | None
    """Seconds after which the call is cancelled, even if progress is reported. None: no limit. Default: that of
    `connect`, 600."""
    progress: Progress
    """A function `f(progress, total, message)`, async or not, that is called for each progress notification; `total`
    and `message` may be None. Default: none; progress is requested only for `timeout`."""
    meta: Mapping[str, Json]
    """Members to add to the `_meta` of the request, as JSON. Default: none."""
    log_level: models.LoggingLevel
    """The lowest level of log messages that the server sends for this call; default: that of `Client.set_log_level`. At
    revisions with sessions it holds for the whole session from this call on."""
    fresh: bool
    """True sends the request even if the cache has a result. Default: False."""
    retry: bool
    """True sends the request once more if the connection breaks before the response; the server may then execute it
    twice. Default: False. Without a session, requests that only read are always sent once more, and so are calls of
    tools whose annotations say that they only read or are idempotent."""


KNOWN: Final = frozenset(Options.__annotations__)
"""The names of the options."""


def unknown_option(options: Options) -> TypeError:
    """Return the error for a call with an unknown option."""
    name = min(options.keys() - KNOWN)
    hint = did_you_mean(name, KNOWN) or (
        f": the options are {', '.join(sorted(KNOWN))}; the arguments of a tool or prompt are one mapping, as in "
        f"call_tool('name', {{'{name}': ...}})"
    )
    return TypeError(f"a call has no option '{name}'{hint}")


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
