"""Identity providers: their endpoints, and what is particular about each of them, as one table.

Providers register no MCP clients and know no `resource` parameter (Entra refuses it), so neither is ever sent to them.
Users are read from the userinfo endpoint, or from the ID token where an access token may be for another API (Entra). It
comes from the token endpoint over TLS, so its claims are checked and its signature need not be (OpenID Connect Core,
3.1.3.7). An e-mail address is passed on only if the provider says that it is verified: anybody can write the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self, TypeAlias, TypedDict
from urllib.parse import quote, urlsplit

from typing_extensions import Unpack

from mcprev.auth.client.discovery import OAUTH, OPENID
from mcprev.auth.urls import check_issuer, is_secure
from mcprev.transports.http.urls import mask_url

OPENID_SCOPES: Final = ("openid", "profile", "email")
OFFLINE_SCOPES: Final = (*OPENID_SCOPES, "offline_access")
OPENID_CLAIMS: Final = ("name", "preferred_username", "email")
UserSource: TypeAlias = Literal["userinfo", "id_token"]


class ProviderMembers(TypedDict, total=False):
    """The members of a `Provider` that its metadata does not have, or that are to come before it."""

    title: str
    private_key: str
    algorithm: str
    key_header: Mapping[str, str]
    assertion_audience: str | None
    userinfo_url: str | None
    emails_url: str | None
    parameters: Mapping[str, str]
    user_from: UserSource
    subject: tuple[str, ...]
    user_in: str | None
    claims: tuple[str, ...]
    verified: str
    basic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """An identity provider, and this server's registration there: `Provider.github(client_id, client_secret)`.

    The redirect URI to register at the provider is the origin of this server followed by `/callback`. Other providers
    than those with a method of their own are found by one URL (`Provider.discovered`) if they publish their metadata,
    and are described by the members if not.
    """

    name: str
    """A short name, which precedes the subject of users: `github:583231`."""
    title: str = ""
    """What the consent page calls it. Empty: the name."""
    client_id: str
    client_secret: str = field(default="", repr=False)
    private_key: str = field(default="", repr=False)
    """A private key as PEM, with which this server signs who it is (`private_key_jwt`), in place of a secret."""
    algorithm: str = "ES256"
    """The algorithm of the signature."""
    key_header: Mapping[str, str] = field(default_factory=dict[str, str])
    """Members of the header of the signature by which the provider finds the key: `kid`, or `x5t#S256` at Entra."""
    assertion_audience: str | None = None
    """The `aud` of what is signed. None: the token endpoint; Auth0 takes its issuer."""
    authorize_url: str = ""
    """The URL of the login page. Empty, as `token_url`: both are read from the metadata of `issuer`."""
    token_url: str = ""
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
    user_in: str | None = None
    """The member of the response of `userinfo_url` that has the claims, such as `data`. None: the response itself."""
    claims: tuple[str, ...] = OPENID_CLAIMS
    """The claims that handlers see in `ctx.access.claims`."""
    verified: str = "email_verified"
    """The claim that says whether `email` is verified; no other address is passed on. Discord calls it `verified`."""
    basic: bool = False
    """Whether the client secret is sent by HTTP Basic authentication; otherwise in the form."""
    pkce: bool = True
    """Whether PKCE is used: the authorization request has a code challenge."""

    def __post_init__(self) -> None:
        urls = (self.authorize_url, self.token_url, self.userinfo_url, self.emails_url)
        for url in urls:
            if url and not is_secure(url):
                raise ValueError(f"{mask_url(repr(url))} is neither an https URL nor one of this machine")
        if not self.client_id or bool(self.client_secret) == bool(self.private_key):
            raise ValueError(
                "a provider requires the client id of this server's registration there, and either the client secret or "
                "a private key"
            )
        if not self.is_complete:
            if self.authorize_url or self.token_url or self.issuer is None:
                raise ValueError(
                    "a provider requires `authorize_url` and `token_url`, or neither and the `issuer` that publishes them"
                )
            check_issuer(self.issuer)
            return
        if self.user_from == "userinfo" and self.userinfo_url is None:
            raise ValueError("a provider whose users are not read from ID tokens requires a `userinfo_url`")
        if self.user_from == "id_token" and self.issuer is None:
            raise ValueError("a provider whose users are read from ID tokens requires an `issuer`")

    @property
    def is_complete(self) -> bool:
        """Whether the endpoints are known; those of a discovered provider are read at the first login."""
        return bool(self.authorize_url and self.token_url)

    @classmethod
    def discovered(
        cls,
        url: str,
        client_id: str,
        client_secret: str = "",
        *,
        name: str | None = None,
        scopes: Sequence[str] = OPENID_SCOPES,
        **members: Unpack[ProviderMembers],
    ) -> Self:
        """A provider that publishes its metadata (OpenID Connect Discovery, RFC 8414), which is read at the first login.

        `url` is its issuer, such as `https://login.example/realms/shop`, or the URL of the metadata itself. `name` is the
        host of the URL by default. What is passed among the `members` of a provider comes before what the metadata says.
        """
        issuer = issuer_of(url)
        return cls(
            name=name or urlsplit(issuer).hostname or "",
            client_id=client_id,
            client_secret=client_secret,
            issuer=issuer,
            scopes=tuple(scopes),
            **members,
        )

    @classmethod
    def github(
        cls, client_id: str, client_secret: str, *, scopes: Sequence[str] = ("read:user", "user:email")
    ) -> Self:
        """GitHub as the identity provider. Tokens of OAuth apps do not expire; those of GitHub apps are refreshed."""
        return cls._made(
            "github", client_id, client_secret, scopes, title="GitHub",
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
            "google", client_id, client_secret, scopes, title="Google",
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
            title="Microsoft",
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
            title="Auth0",
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
        more: dict[str, Any] = {
            "issuer": issuer,
            "claims": (*OPENID_CLAIMS, "groups"),
            "basic": True,
            "title": "Okta",
        }
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


def issuer_of(url: str) -> str:
    """Return the issuer of the metadata at a URL, in which the well-known path is before or after its own; else the URL."""
    origin = "/".join(url.split("/", 3)[:3])
    for known in (OPENID, OAUTH):
        if url.startswith(f"{origin}{known}"):
            return origin + url.removeprefix(f"{origin}{known}")
        if url.endswith(known):
            return url.removesuffix(known)
    return url
