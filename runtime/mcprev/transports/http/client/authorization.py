"""The interface through which a client authorizes its HTTP requests: what `mcprev.http(url, auth=...)` takes (AUTH-2).

The transport knows this interface only. `mcprev.auth.client` implements it, and users can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mcprev.protocol.engine import CANCELLED
from mcprev.protocol.tap import Tap
from mcprev.revisions import Revision
from mcprev.wire import jsonrpc
from mcprev.wire.jsonrpc import Notification

if TYPE_CHECKING:
    import aiohttp
    from multidict import CIMultiDictProxy

login_tap: Final = ContextVar[Tap | None]("login_tap", default=None)
"""The tap of the client for which the current task authorizes a request; None if nothing wants to know."""


@dataclass(slots=True, eq=False)
class AuthorizedRequest:
    """An HTTP request of a client, which an `Authorization` authorizes each time that it is sent."""

    method: str
    """`POST`, `GET` or `DELETE`."""
    url: str
    """The URL to which the request is sent; a redirect changes it."""
    body: bytes | None = field(default=None, repr=False)
    """The body of a POST."""
    revision: Revision | None = None
    """The negotiated revision; None before the negotiation."""
    revisions: Sequence[Revision] = ()
    """The revisions that the client accepts, oldest first."""
    pausing: Callable[[], AbstractContextManager[None]] = field(default=nullcontext, repr=False)
    """Returns a context manager that pauses the timeouts of the client's calls, such as while a user logs in."""
    retries: int = 0
    """How many times the request was sent again because `Authorization.retry` returned True."""
    state: object = field(default=None, repr=False)
    """Any value that the `Authorization` keeps about this request."""

    @property
    def interactive(self) -> bool:
        """Whether a login may ask the user: False for a request that cancels a call or ends the session."""
        if self.body is None:
            return self.method != "DELETE"
        message = jsonrpc.parse(self.body, batch=False)
        return not (isinstance(message, Notification) and message.method == CANCELLED)


class Authorization:
    """The base class of the values of `http(auth=...)`, such as `OAuth`. Override `headers` to authorize requests.

    An error that is not an `McpError` becomes an `AuthError` that names only its type, because its text may contain
    secrets.
    """

    def bind(self, url: str, session: aiohttp.ClientSession | None, /) -> Authorization:  # noqa: ARG002
        """Return the object whose methods authorize the requests to the server at a URL. Default: this object.

        `session` is the user's, if `http` got one. Raises `ValueError` for a server that must not be sent credentials.
        """
        return self

    async def headers(self, request: AuthorizedRequest, /) -> Mapping[str, str]:
        """Return the headers that authorize a request.

        Called each time before the request is sent: at first, to the target of a redirect, and again after `retry`
        returned True. Headers that the transport sets itself stay as they are.
        """
        raise NotImplementedError

    def retry(
        self, request: AuthorizedRequest, status: int, headers: CIMultiDictProxy[str], /  # noqa: ARG002
    ) -> bool:
        """Return whether to send the request again, such as after a 401. Default: False.

        Called with the status and headers of each response that is not a redirect. A request is sent again a few times at
        most, whatever this method returns; then the client gets the last response.
        """
        return False

    async def drain(self) -> None:
        """Save what is not saved yet, such as a new token, within bounded time. Default: do nothing.

        Called when a client closes. Errors are logged.
        """
