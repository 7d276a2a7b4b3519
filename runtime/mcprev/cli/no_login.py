"""An authorization of a command that uses kept tokens and asks no user."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from typing_extensions import override

from mcprev.auth.client.authorizer import TokenAuthorization
from mcprev.auth.client.grants import OAuth
from mcprev.auth.client.store import TokenKey
from mcprev.errors import TokenRejected
from mcprev.transports.http.urls import printable

if TYPE_CHECKING:
    from mcprev.auth.client.discovery import ProtectedServer, ServerMetadata
    from mcprev.auth.client.store import Registration


class NoLogin(OAuth):
    """Ends where others begin a login, also before a client is registered in place of that of the kept tokens."""

    @override
    def check_usable(self, server: ServerMetadata) -> None:
        """Accept a server at which nobody can log in from here: the tokens may come from a login with a code."""
        TokenAuthorization.check_usable(self, server)

    @override
    async def obtain(
        self,
        runner: object,
        place: ProtectedServer,
        client: Registration | None,
        scopes: tuple[str, ...] | None,
    ) -> NoReturn:
        """Raise `TokenRejected`, with the scopes that the kept token lacks, if it does."""
        key = None if client is None else TokenKey(place.server.issuer, place.resource, client.client_id)
        kept = None if key is None else await self.records.tokens(key)
        held = () if kept is None else kept.scopes or ()
        missing = " ".join(scope for scope in scopes or () if scope not in held)
        raise TokenRejected(
            f"the token of the last login lacks the scopes {printable(missing)}, which this requires; pass --login to log in again"
            if kept is not None and missing
            else "the tokens of the last login are no longer valid here; pass --login to log in again"
        )
