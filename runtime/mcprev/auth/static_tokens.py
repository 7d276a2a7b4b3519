"""Tokens that the author writes down, for development: no authorization server issues them."""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, NotRequired, TypedDict

from typing_extensions import Unpack

from mcprev.auth.bearer import Bearer, Needs, Suffices
from mcprev.errors import Json
from mcprev.transports.http.security import is_loopback, split_host
from mcprev.transports.http.server.access import Access, InvalidToken

_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_logger: Final = logging.getLogger("mcprev.auth")


class StaticToken(TypedDict):
    """What a token stands for; see `mcprev.Access`."""

    subject: str
    scopes: NotRequired[str | list[str]]
    client_id: NotRequired[str]
    expires: NotRequired[float]
    claims: NotRequired[Mapping[str, Json]]


class StaticTokensOptions(TypedDict, total=False):
    """The options of `StaticTokens`; see `mcprev.Bearer`."""

    scopes: list[str]
    needs: Needs
    suffices: Suffices


class StaticTokens(Bearer):
    """Requires one of a few fixed tokens, for development: `auth=StaticTokens({"secret": "ann"})`.

    Clients send it as a header, `Authorization: Bearer secret`; there is no login. It is also a verifier, for a `Bearer`
    or an `AnyVerifier`. A warning is logged, on start if possible, if other machines can reach the server: if it
    listens at an address that is not loopback, or if a request names such an address.
    """

    issuers: tuple[str, ...] = ()
    """No authorization server issues these tokens."""

    def __init__(
        self, tokens: Mapping[str, StaticToken | str], **options: Unpack[StaticTokensOptions]
    ) -> None:
        """Set the tokens: each with its subject, or a dict with `subject`, `scopes`, `client_id`, `expires`, `claims`.

        The options `scopes`, `needs` and `suffices` are those of `Bearer`. Raises `ValueError` for an empty table and for
        a token that no header can carry, and `TypeError` or `ValueError` for an invalid member of a token.
        """
        if not tokens or not all(_TOKEN.fullmatch(token) for token in tokens):
            raise ValueError("pass at least one token, and only tokens of visible ASCII characters")
        self._tokens = [(_digest(token), _content(found)) for token, found in tokens.items()]
        self._warned = False
        super().__init__(self, **options)

    async def __call__(self, token: str) -> Access:
        """Return the content of a token. Raises `InvalidToken` for an unknown one."""
        shown = _digest(token)
        # Every token is compared, so that the duration reveals neither a token nor which one it is.
        found = [access for known, access in self._tokens if hmac.compare_digest(known, shown)]
        if not found:
            raise InvalidToken("it is not one of the static tokens")
        return found[0]

    def seen_at(self, host: str | None) -> None:
        """Log a warning, once, if the server listens at an address beyond this machine, or a client reaches it by such a host."""
        name = None if host is None else split_host(host)
        if not self._warned and name is not None and not is_loopback(name[0]):
            self._warned = True
            _logger.warning(
                "static tokens are used at %.200r, beyond this machine: they are for development; verify tokens of an "
                "authorization server instead, as with mcprev.JwtVerifier",
                name[0],
            )


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()


def _content(found: StaticToken | str) -> Access:
    said: dict[str, Any] = {"subject": found} if isinstance(found, str) else {**found}
    return Access(audience=(), audience_checked=True, **said)
