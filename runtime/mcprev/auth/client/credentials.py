"""The base class of a client's credentials for authorization servers (AUTH-12, AUTH-14, AUTH-18, AUTH-19)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, TypedDict

from typing_extensions import override

from mcprev.auth.client.discovery import NONE, ProtectedServer, ServerMetadata, secret_method
from mcprev.auth.client.shared_store import SharedStore
from mcprev.auth.client.steps import NO_KEYS, ClientKeys
from mcprev.auth.client.store import MemoryTokens, Registration, TokenStore
from mcprev.auth.client.tokens import PRIVATE_KEY, TokenResponse
from mcprev.auth.urls import canonical_resource, check_issuer, is_same_issuer, is_secure
from mcprev.callbacks import finished
from mcprev.errors import DiscoveryFailed, IssuerMismatch
from mcprev.transports.http.urls import printable

if TYPE_CHECKING:
    from mcprev.auth.client.runner import FlowRunner


REQUEST: Final = 15.0
"""Seconds for each request to an authorization server."""
Scopes: TypeAlias = tuple[str, ...] | None
"""The scopes of a request; None if it names none."""
SecretSource: TypeAlias = str | Callable[[str], str | Awaitable[str]]
"""A client secret, or a function that returns it for the issuer that it would be sent to."""
Obtained: TypeAlias = tuple[Registration, TokenResponse, Scopes]
"""The client's registration, the response with the token, and the requested scopes."""


class AuthOptions(TypedDict, total=False):
    """The options of every kind of authorization; see `OAuth`."""

    issuer: str | None
    resource: str | None
    scopes: Sequence[str] | None
    store: TokenStore | None
    timeout: float
    private: bool
    trust_env: bool


class Credentials:
    """Identifies one client to authorization servers."""

    def __init__(
        self,
        *,
        given: str | None,
        client_id: str | None,
        client_secret: SecretSource | None = None,
        issuer: str | None = None,
        resource: str | None = None,
        scopes: Sequence[str] | None = None,
        store: TokenStore | None = None,
        timeout: float = REQUEST,
        private: bool = False,
        trust_env: bool = False,
        dpop: bool = False,
    ) -> None:
        """`given` is the name of the argument with a credential. Raises `ValueError` if it is set without `issuer`."""
        if issuer is not None:
            check_issuer(issuer)
        elif given is not None:
            raise ValueError(
                f"{type(self).__name__} with {given} requires `issuer`, the URL of its authorization server, such as "
                "issuer='https://login.example.com': otherwise any MCP server could name its own authorization server and receive it"
            )
        if resource is not None and canonical_resource(resource) is None:
            raise ValueError("`resource` must be the URL of the server or a parent of it")
        if isinstance(scopes, str):
            raise TypeError("`scopes` must be a list of strings")
        if isinstance(store, str):
            raise TypeError("`store` must be a store of tokens, such as mcprev.DiskTokens('tokens')")
        self._id, self._secret = client_id, client_secret
        self.scopes: Scopes = None if scopes is None else tuple(scopes)
        self.issuer = issuer
        """The only authorization server that this client accepts; None until one is known."""
        self.resource = resource
        """A resource above the server's URL that metadata may name; None requires the URL itself."""
        self.store: TokenStore = MemoryTokens() if store is None else store
        self.records: SharedStore = SharedStore(self.store)
        self.private = private
        self.trust_env = trust_env
        self.timeout = timeout
        self.client_keys: ClientKeys = NO_KEYS
        """The keys of this client."""
        if dpop:
            from mcprev.auth.client.signatures import DpopSigner

            self.client_keys = ClientKeys(dpop_signer=DpopSigner())

    def check_usable(self, server: ServerMetadata) -> None:
        """Raise `AuthError` for an authorization server that this client cannot use, from what its metadata says."""
        if not is_secure(server.token_endpoint):
            raise DiscoveryFailed(
                f"{printable(server.issuer)} has the token endpoint {printable(server.token_endpoint)}, which is not an https URL"
            )

    async def client(self, place: ProtectedServer) -> Registration | None:
        """Return the client's registration at an authorization server, or None. Raises `AuthError`.

        A client id that was given without an issuer belongs to the first authorization server that it is used at.
        """
        if self._id is None:
            return None
        if self.issuer is None:
            self.issuer = place.server.issuer
        elif not is_same_issuer(self.issuer, place.server.issuer):
            raise IssuerMismatch(
                f"the credentials are for {printable(self.issuer)} and not for {printable(place.server.issuer)}: "
                "they are not sent; pass credentials for that authorization server"
            )
        if self.client_keys.signer is not None:
            return Registration(self._id, method=PRIVATE_KEY)
        secret = self._secret
        if secret is not None and not isinstance(secret, str):
            secret = await finished(secret(place.server.issuer))
        method = NONE if secret is None else secret_method(place.server.methods)
        return Registration(self._id, secret, method)

    async def obtain(
        self, runner: FlowRunner, place: ProtectedServer, client: Registration | None, scopes: Scopes
    ) -> Obtained:
        """Request a token; return the registration, the response and the requested scopes. Raises `AuthError`."""
        raise NotImplementedError

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def check_server(url: str, *, private: bool) -> None:
    """Raise `ValueError` for a server URL without https, which would expose tokens."""  # AUTH-19
    if not private and not is_secure(url.partition("#")[0]):
        raise ValueError(
            f"a token would be sent to {printable(url)} without encryption: use https, or `private=True` in a trusted network"
        )
