"""A token store that keeps its records sealed in a store of a server, for all its processes (AUTH-14, AUTH-22)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Final, TypeVar

from mcprev.auth.authorization_server.keys import ServerKeys
from mcprev.auth.authorization_server.vault import Vault
from mcprev.auth.client.store import Registration, TokenKey, Tokens
from mcprev.bridge.several.login_state import LoginRecords
from mcprev.core.store import Records

R = TypeVar("R", Tokens, Registration)
KEPT: Final = 90 * 24 * 3600.0
"""Seconds after which a record that nobody has written again ends."""
LEASE: Final = 60.0
"""Seconds after which the lock of a process that has died ends."""
_POLL: Final = 0.1


class SealedTokens:
    """Stores tokens and registrations encrypted in any store of records: `SealedTokens(store, secrets)`."""

    def __init__(
        self,
        records: Records,
        secrets: str | bytes | Sequence[str | bytes],
        *,
        owner: str = "bridge",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set the store and the secrets, of at least 32 bytes each; the first one seals, all of them open.

        `owner` is a name for these tokens: those of other owners in the same store are kept apart. Raises
        `ValueError` for a short secret, and `MissingExtra` if mcprev[jwt] is not installed.
        """
        self._vault = Vault(records, ServerKeys(secrets), owner, clock)
        self.logins: LoginRecords = self._vault
        """Logins in progress, which are encrypted in the same records."""

    @asynccontextmanager
    async def lock(self, issuer: str, /) -> AsyncGenerator[None, None]:
        """Return the lock of the tokens and the registration at an authorization server, between processes."""
        while True:
            version = await self._vault.write("token lock", issuer, {}, ttl=LEASE, seen=0)
            if version is not None:
                break
            await asyncio.sleep(_POLL)
        try:
            yield
        finally:
            await self._vault.remove("token lock", issuer, seen=version)

    async def tokens(self, key: TokenKey, /) -> Tokens | None:
        """Return the stored tokens, or None."""
        return await self._read(Tokens, json.dumps(key))

    async def keep_tokens(self, key: TokenKey, tokens: Tokens | None, /) -> None:
        """Store tokens, replacing earlier ones; None deletes them."""
        await self._keep("tokens", json.dumps(key), tokens)

    async def registration(self, issuer: str, /) -> Registration | None:
        """Return the client's registration at an authorization server, or None."""
        return await self._read(Registration, issuer)

    async def keep_registration(self, issuer: str, registration: Registration | None, /) -> None:
        """Store a registration, replacing an earlier one; None deletes it."""
        await self._keep("registration", issuer, registration)

    async def _read(self, kind: type[R], name: str) -> R | None:
        found = await self._vault.read("tokens" if kind is Tokens else "registration", name)
        return None if found is None else kind(**found[0])

    async def _keep(self, kind: str, name: str, record: Tokens | Registration | None) -> None:
        if record is None:
            await self._vault.remove(kind, name)
        else:
            await self._vault.write(kind, name, asdict(record), ttl=KEPT)
