"""The clients of an authorization server: registered ones in the store, and those with a metadata document (AUTH-12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from secrets import compare_digest
from typing import Final

from mcprev.auth.authorization_server.documents import ClientDocuments
from mcprev.auth.authorization_server.grants import secret_digest
from mcprev.auth.authorization_server.options import LoginSettings
from mcprev.auth.authorization_server.requests import (
    GRANT_TYPES,
    ClientRecord,
    OAuthError,
    PageError,
    is_document_url,
    read_client,
)
from mcprev.auth.authorization_server.vault import Vault, new_secret
from mcprev.errors import Json

UNUSED: Final = 3600.0
"""Seconds after which a registration ends that no user has consented to."""
ALL: Final = 10_000
"""The maximum number of registrations in an hour, from all addresses."""
MAX_UNUSED: Final = 12 * 1024 * 1024
"""The maximum size of what is stored of clients that register within `UNUSED`, in bytes: everybody can register them."""
_HOUR: Final = 3600.0
_KIND: Final = "client"


class ClientRegistry:
    """The clients of an authorization server."""

    def __init__(self, vault: Vault, settings: LoginSettings) -> None:
        self._vault, self._schemes = vault, frozenset(settings.redirect_schemes)
        self._most, self._documents = settings.registrations, ClientDocuments(vault, settings)
        self._life = 2 * settings.session_lifetime

    async def register(self, wanted: Json, address: str) -> dict[str, Json]:
        """Register a client and return the response (RFC 7591). Raises `OAuthError`."""
        client = read_client(wanted, self._schemes, new_secret())
        for counted, most in ((address, self._most), ("", ALL)):
            if not await self._vault.count("registrations", counted, most, _HOUR):
                raise _too_many(self._vault.retry_after(_HOUR))
        found: dict[str, Json] = {
            "client_id": client.client_id,
            "client_name": client.name,
            "redirect_uris": list(client.redirect_uris),
            "token_endpoint_auth_method": client.method,
            "grant_types": list(GRANT_TYPES),
            "response_types": ["code"],
        }
        if client.method != "none":
            secret = new_secret()
            client = replace(client, secret_digest=secret_digest(secret))
            found |= {"client_secret": secret, "client_secret_expires_at": 0}
        if not await self._vault.write_within(
            MAX_UNUSED, _KIND, client.client_id, asdict(client), ttl=UNUSED, address=address
        ):
            raise _too_many(self._vault.retry_after(UNUSED))
        return found

    async def named(self, client_id: str, address: str) -> ClientRecord:
        """Return a client for an authorization request. Raises `PageError` for one that is unknown."""
        if is_document_url(client_id):
            return await self._documents.client(client_id, address)
        client = await self._registered(client_id)
        if client is None:
            raise PageError(
                "This server no longer knows the app. Remove the connection in the app and add it again."
            )
        return client

    async def authenticated(self, form: Mapping[str, str], basic: tuple[str, str] | None) -> str:
        """Return the id of the client that sends a token request, after its secret was checked. Raises `OAuthError`."""
        client_id, secret = basic or (form.get("client_id", ""), form.get("client_secret", ""))
        if form.get("client_id", client_id) == client_id:
            if is_document_url(client_id):
                return client_id  # public: the code or refresh token is bound to it
            client = await self._registered(client_id)
            if client is not None and (
                client.secret_digest is None or compare_digest(client.secret_digest, secret_digest(secret))
            ):
                return client_id
        raise OAuthError("invalid_client", "the client is not registered, or its secret is wrong", 401)

    async def keep(self, client_id: str) -> None:
        """Keep the registration of a client that was just used, as long as its grants can last."""
        found = None if is_document_url(client_id) else await self._vault.read(_KIND, client_id)
        if found is not None:
            await self._vault.write(_KIND, client_id, found[0], ttl=self._life, seen=found[1])

    async def _registered(self, client_id: str) -> ClientRecord | None:
        found = await self._vault.read(_KIND, client_id)
        return None if found is None else ClientRecord.read(found[0])


def _too_many(seconds: int) -> OAuthError:
    return OAuthError(
        "temporarily_unavailable", "too many clients were registered; try again later", 429, seconds
    )
