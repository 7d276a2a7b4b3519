"""The login of a machine without a browser: the user enters a code at another one (device grant, RFC 8628).

A flow as in `flow`: it yields what to send, to show and how long to wait. Its time comes from `clock`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mcprev.auth.client import discovery
from mcprev.auth.client.discovery import ProtectedServer, ServerMetadata, text
from mcprev.auth.client.steps import NO_KEYS, ClientKeys, DeviceCode, Flow, Pause, ShowCode
from mcprev.auth.client.store import Registration
from mcprev.auth.client.tokens import TokenResponse, post_form, request_token, seconds, ways
from mcprev.errors import AuthError, AuthorizationDenied, DiscoveryFailed, TokenRejected
from mcprev.transports.http.urls import printable

GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
REDIRECT: Final = "http://127.0.0.1/callback"
"""The redirect URI with which a client registers that is redirected nowhere: many servers require one."""
INTERVAL: Final = 5.0
"""The seconds between two questions if the server names none, and those that each `slow_down` adds (section 3.5)."""
SHORTEST: Final = 1.0
"""The shortest time between two questions, in seconds, whatever the server says."""
LONGEST: Final = 3600.0
"""The longest time for which a code is used, in seconds, whatever the server says."""
MAX_CODE: Final = 100
"""The maximum number of characters of a code that is shown."""
_PENDING: Final = frozenset({"authorization_pending", "slow_down", ""})
"""Errors after which the server is asked again; the last is that of a server that is busy or cannot be reached."""
_ENDS: Final = {
    "access_denied": "the user, or the server, denied it",
    "expired_token": "the code has expired; try again",
}


def check_device(server: ServerMetadata) -> str:
    """Return the device authorization endpoint. Raises `DiscoveryFailed` for a server without one."""
    if server.device_endpoint is None:
        raise DiscoveryFailed(
            f"{printable(server.issuer)} has no device authorization endpoint: log in with a browser"
        )
    return server.device_endpoint


def device_login(
    place: ProtectedServer,
    client: Registration,
    scopes: tuple[str, ...] | None,
    clock: Callable[[], float],
    *,
    longest: float = LONGEST,
    client_keys: ClientKeys = NO_KEYS,
) -> Flow[TokenResponse]:
    """Show a code to the user, and ask for the token until the user has entered it elsewhere.

    The server is asked at its interval, more slowly after each `slow_down` and each question without an answer, until the
    code expires, and for `longest` seconds at most. Raises `AuthorizationDenied`, `TokenRejected` or `AuthError`.
    """
    server, who = place.server, printable(place.server.issuer)
    wanted = {"resource": place.resource}
    if scopes:
        wanted["scope"] = " ".join(scopes)
    endpoint = check_device(server)
    # The way to authenticate that is accepted here is accepted by the token endpoint.
    said, client = yield from post_form(
        endpoint, ways(client, server.methods), wanted, who, server.issuer, client_keys
    )
    device_code = text(said, "device_code")
    lasts = min(seconds(said.get("expires_in")) or LONGEST, longest)
    shown = _shown(server, text(said, "user_code"), text(said, "verification_uri"), said, lasts)
    if device_code is None:
        raise AuthError(f"{who} returned no device code")
    ends, wait = clock() + lasts, max(seconds(said.get("interval")) or INTERVAL, SHORTEST)
    yield ShowCode(shown)
    form = {"grant_type": GRANT, "device_code": device_code}
    while clock() + wait < ends:
        yield Pause(wait)
        try:
            return (yield from request_token(place, client, form, client_keys=client_keys))
        except TokenRejected as error:
            if error.error in _ENDS:
                raise AuthorizationDenied(
                    f"{who} did not authorize this client: {_ENDS[error.error]}", error=error.error
                ) from None
            if error.error not in _PENDING:
                raise
            if error.error != "authorization_pending":
                wait += INTERVAL
    yield Pause(max(0.0, ends - clock()))
    raise AuthError(f"the login was not completed within {lasts:g} s, and its code has expired; try again")


def _shown(
    server: ServerMetadata, code: str | None, page: str | None, said: dict[str, object], lasts: float
) -> DeviceCode:
    """Return what the user needs. Raises `AuthError` if that is missing, or cannot be shown."""  # SEC-2
    who = printable(server.issuer)
    if page is None or code is None or len(code) > MAX_CODE or not code.isprintable():
        raise AuthError(f"{who} returned no code that a user can enter")
    whole = text(said, "verification_uri_complete")
    pages = [discovery.check_page(each) for each in (page, whole) if each is not None]
    return DeviceCode(code, pages[0], pages[1] if whole is not None else None, lasts)
