"""Shows how a session is authorized: the challenge, the metadata, the registration, the consent, and the tokens.

Secrets are masked: of a token, its claims are shown, which everybody can read who has it, and never the token.
"""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from typing import Final

from mcprev.auth.client.credentials import check_server
from mcprev.auth.client.grants import OAuth
from mcprev.auth.client.loopback import Loopback
from mcprev.auth.client.store import Registration, TokenKey, Tokens, TokenStore
from mcprev.dev.events import SeenExchange
from mcprev.errors import Json
from mcprev.json_schema.redaction import Redactor
from mcprev.transports.http.urls import mask_url
from mcprev.wire.payloads import MASK

STEPS: Final = 200
"""How many steps are kept."""
CLAIMS: Final = 32 * 1024
"""The maximum length of a token whose claims are shown, in characters."""
LOGIN: Final = 300.0
"""Seconds that a user has to log in."""
CHALLENGE: Final = "www-authenticate"
_SHOWN: Final = 2000
_UNAUTHORIZED: Final = 401
_WELL_KNOWN: Final = "/.well-known/"
_JWT_PARTS: Final = 3


class LoginSteps:
    """The steps of the logins of a session."""

    def __init__(self) -> None:
        self.steps: deque[dict[str, Json]] = deque(maxlen=STEPS)
        self.tell: Callable[[dict[str, Json]], None] = lambda _: None
        """Is told of each step."""
        self.required: bool = False
        """Whether the server has asked for a token."""

    def add(self, step: str, detail: dict[str, Json], url: str | None = None) -> None:
        """Add a step."""
        found: dict[str, Json] = {"step": step, "detail": detail}
        if url is not None:
            found["url"] = url
        self.steps.append(found)
        self.tell(found)

    def answered(self, exchange: SeenExchange, *, login: bool) -> None:
        """Note a response of the server, or of an authorization server."""
        detail: dict[str, Json] = {"url": mask_url(exchange.url), "status": exchange.status}
        if login and _WELL_KNOWN in exchange.path:
            self.add("metadata", detail)
        elif not login and exchange.status == _UNAUTHORIZED:
            self.required = True
            for name, value in exchange.received:
                if name.lower() == CHALLENGE:
                    detail[CHALLENGE] = value[:_SHOWN]  # says where to log in, and holds no secret
            self.add("metadata", detail)

    def oauth(self, store: TokenStore, make: Callable[..., OAuth]) -> OAuth:
        """Return the authorization that a function makes of options, whose steps are shown; the page of the login is opened
        by the user.
        """
        return make(
            asks=True,
            client_name="mcprev dev",
            loopback=Loopback(open=self._visit),
            login_timeout=LOGIN,
            store=_ShownTokens(store, self),
        )

    def _visit(self, url: str) -> bool:
        self.add("consent", {"page": mask_url(url)}, url)
        return True


class _ShownTokens:
    """A store of tokens that shows what is stored."""

    def __init__(self, store: TokenStore, steps: LoginSteps) -> None:
        self._store, self._steps = store, steps
        lock = getattr(store, "lock", None)
        if lock is not None:
            self.lock = lock

    async def tokens(self, key: TokenKey, /) -> Tokens | None:
        """Return the stored tokens, or None."""
        found = await self._store.tokens(key)
        if found is not None:
            self._show(key, found)
        return found

    async def keep_tokens(self, key: TokenKey, tokens: Tokens | None, /) -> None:
        """Store tokens and show them; None deletes them."""
        await self._store.keep_tokens(key, tokens)
        if tokens is not None:
            self._show(key, tokens)

    async def registration(self, issuer: str, /) -> Registration | None:
        """Return the client's registration at an authorization server, or None."""
        found = await self._store.registration(issuer)
        if found is not None:
            self._show_registration(issuer, found)
        return found

    async def keep_registration(self, issuer: str, registration: Registration | None, /) -> None:
        """Store a registration and show it; None deletes it."""
        await self._store.keep_registration(issuer, registration)
        if registration is not None:
            self._show_registration(issuer, registration)

    def _show_registration(self, issuer: str, found: Registration) -> None:
        masked: dict[str, Json] = Redactor().json(asdict(found))
        self._steps.add("registration", {"issuer": issuer, **masked})

    def _show(self, key: TokenKey, tokens: Tokens) -> None:
        self._steps.add(
            "tokens",
            {
                "issuer": key.issuer, "resource": key.resource, "client_id": key.client_id,
                "access_token": MASK, "refresh_token": MASK if tokens.refresh_token else None,
                "expires_at": tokens.expires_at, "scopes": None if tokens.scopes is None else [*tokens.scopes],
                **claims_of(tokens.access_token),
            },
        )  # fmt: skip


def can_log_in(url: str) -> bool:
    """Return whether tokens may be sent to a URL."""
    try:
        check_server(url, private=False)
    except ValueError:
        return False
    return True


def claims_of(token: str) -> dict[str, Json]:
    """Return the header and the claims of a JSON Web Token; neither of any other token."""
    parts = token.split(".")
    if len(parts) != _JWT_PARTS or len(token) > CLAIMS:
        return {"form": "opaque"}
    try:
        header, claims = (
            Redactor().json(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))
            for part in parts[:2]
        )
    except (ValueError, RecursionError):
        return {"form": "opaque"}
    return {"form": "JWT", "header": header, "claims": claims}
