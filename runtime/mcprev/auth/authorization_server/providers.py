"""Identity providers: their endpoints, and what is particular about each of them, as one table.

Providers register no MCP clients and know no `resource` parameter (Entra refuses it), so neither is ever sent to them.
Users are read from the userinfo endpoint, or from the ID token where an access token may be for another API (Entra). It
comes from the token endpoint over TLS, so its claims are checked and its signature need not be (OpenID Connect Core,
3.1.3.7). An e-mail address is passed on only if the provider says that it is verified: anybody can write the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self, TypeAlias
from urllib.parse import quote

from mcprev.auth.urls import is_secure
from mcprev.transports.http.urls import mask_url

OPENID_SCOPES: Final = ("openid", "profile", "email")
OFFLINE_SCOPES: Final = (*OPENID_SCOPES, "offline_access")
OPENID_CLAIMS: Final = ("name", "preferred_username", "email")
UserSource: TypeAlias = Literal["userinfo", "id_token"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """An identity provider, and this server's registration there: `Provider.github(client_id, client_secret)`.

    The redirect URI to register at the provider is the origin of this server followed by `/callback`. Other providers
    than those with a method of their own are described by the members; a provider of OpenID Connect needs its issuer
    and three URLs, which its metadata lists.
    """

    name: str
    """A short name, which precedes the subject of users: `github:583231`."""
    client_id: str
    client_secret: str = field(repr=False)
    authorize_url: str
    token_url: str
    userinfo_url: str | None = None
    emails_url: str | None = None
    """The URL that lists verified email addresses, if `userinfo_url` does not tell whether an address is verified."""
    issuer: str | None = None
    """The `iss` of its responses and ID tokens, in which `{tid}` stands for the claim `tid`."""
    scopes: tuple[str, ...] = OPENID_SCOPES
    """The scopes to request at the provider. Tokens of the provider have them; tokens of this server do not."""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further parameters of the authorization request."""
    user_from: UserSource = "userinfo"
    subject: tuple[str, ...] = ("sub",)
    """The claims that together identify a user permanently."""
    claims: tuple[str, ...] = OPENID_CLAIMS
    """The claims that handlers see in `ctx.access.claims`."""
    basic: bool = False
    """Whether the client secret is sent by HTTP Basic authentication; otherwise in the form."""
    pkce: bool = True
    """Whether PKCE is used: the authorization request has a code challenge."""

    def __post_init__(self) -> None:
        urls = (self.authorize_url, self.token_url, self.userinfo_url, self.emails_url)
        for url in urls:
            if url is not None and not is_secure(url):
                raise ValueError(f"{mask_url(repr(url))} is neither an https URL nor one of this machine")
        if not self.client_id or not self.client_secret:
            raise ValueError(
                "a provider requires the client id and secret of this server's registration there"
            )
        if self.user_from == "userinfo" and self.userinfo_url is None:
            raise ValueError("a provider whose users are not read from ID tokens requires a `userinfo_url`")
        if self.user_from == "id_token" and self.issuer is None:
            raise ValueError("a provider whose users are read from ID tokens requires an `issuer`")

    @classmethod
    def github(
        cls, client_id: str, client_secret: str, *, scopes: Sequence[str] = ("read:user", "user:email")
    ) -> Self:
        """GitHub as the identity provider. Tokens of OAuth apps do not expire; those of GitHub apps are refreshed."""
        return cls._made(
            "github", client_id, client_secret, scopes,
            authorize_url="https://github.com/login/oauth/authorize",
            token_url="https://github.com/login/oauth/access_token",  # noqa: S106 - a URL
            userinfo_url="https://api.github.com/user",
            emails_url="https://api.github.com/user/emails",
            subject=("id",),
            claims=("login", "name", "email"),
        )  # fmt: skip

    @classmethod
    def google(cls, client_id: str, client_secret: str, *, scopes: Sequence[str] = OPENID_SCOPES) -> Self:
        """Google as the identity provider. It issues a refresh token only for offline access that the user has just consented to."""
        return cls._made(
            "google", client_id, client_secret, scopes,
            authorize_url="https://accounts.google.com/o/oauth2/v2/auth",
            token_url="https://oauth2.googleapis.com/token",  # noqa: S106 - a URL
            userinfo_url="https://openidconnect.googleapis.com/v1/userinfo",
            issuer="https://accounts.google.com",
            parameters={"access_type": "offline", "prompt": "consent"},
            claims=(*OPENID_CLAIMS, "hd"),
        )  # fmt: skip

    @classmethod
    def entra(
        cls, client_id: str, client_secret: str, *, tenant: str, scopes: Sequence[str] = OFFLINE_SCOPES
    ) -> Self:
        """Microsoft Entra ID as the identity provider.

        `tenant` is the id of your tenant, or `organizations` for the users of all: check the claim `tid`.

        A scope of an API of yours, `api://<client id>/<name>`, makes tokens of the provider for that API.
        """
        shared = tenant in {"common", "organizations", "consumers"}
        return cls._made(
            "entra", client_id, client_secret, scopes,
            f"https://login.microsoftonline.com/{quote(tenant, safe='')}/oauth2/v2.0",
            userinfo_url=None,
            issuer=f"https://login.microsoftonline.com/{'{tid}' if shared else tenant}/v2.0",
            user_from="id_token",
            subject=("tid", "oid"),
            claims=(*OPENID_CLAIMS, "oid", "tid", "roles", "groups"),
        )  # fmt: skip

    @classmethod
    def auth0(
        cls,
        client_id: str,
        client_secret: str,
        *,
        domain: str,
        audience: str | None = None,
        scopes: Sequence[str] = OFFLINE_SCOPES,
    ) -> Self:
        """Auth0 as the identity provider, at a domain such as `example.eu.auth0.com`. `audience` is an API that its tokens are also for."""
        base = f"https://{domain}"
        return cls._made(
            "auth0", client_id, client_secret, scopes, base,
            token_url=f"{base}/oauth/token",
            issuer=f"{base}/",
            parameters={} if audience is None else {"audience": audience},
        )  # fmt: skip

    @classmethod
    def okta(
        cls,
        client_id: str,
        client_secret: str,
        *,
        domain: str,
        server: str = "default",
        scopes: Sequence[str] = OFFLINE_SCOPES,
    ) -> Self:
        """Okta as the identity provider, at a domain such as `example.okta.com`; `server` is the authorization server there."""
        issuer = f"https://{domain}/oauth2/{quote(server, safe='')}"
        more: dict[str, Any] = {"issuer": issuer, "claims": (*OPENID_CLAIMS, "groups"), "basic": True}
        return cls._made("okta", client_id, client_secret, scopes, f"{issuer}/v1", **more)

    @classmethod
    def keycloak(
        cls,
        client_id: str,
        client_secret: str,
        *,
        url: str,
        realm: str,
        scopes: Sequence[str] = OPENID_SCOPES,
    ) -> Self:
        """Keycloak as the identity provider, at a URL, with a realm."""
        issuer = f"{url.rstrip('/')}/realms/{quote(realm, safe='')}"
        base = f"{issuer}/protocol/openid-connect"
        more: dict[str, Any] = {"issuer": issuer, "claims": (*OPENID_CLAIMS, "groups"), "basic": True}
        return cls._made(
            "keycloak", client_id, client_secret, scopes, base, authorize_url=f"{base}/auth", **more
        )

    @classmethod
    def _made(
        cls,
        name: str,
        client_id: str,
        client_secret: str,
        scopes: Sequence[str],
        base: str = "",
        **more: Any,  # noqa: ANN401 - the members of a provider
    ) -> Self:
        """Return a provider whose endpoints are below one URL, but for those that `more` names."""
        urls: dict[str, Any] = {
            f"{each}_url": f"{base}/{each}" for each in ("authorize", "token", "userinfo")
        }
        registered: dict[str, Any] = {
            "client_id": client_id,
            "client_secret": client_secret,
            "scopes": tuple(scopes),
        }
        return cls(name=name, **{**urls, **registered, **more})
