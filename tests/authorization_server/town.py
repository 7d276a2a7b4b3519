"""Several servers of one process behind one connector, told apart by their ports; and identity providers that behave as real ones do."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

import aiohttp
from joserfc import jwt
from joserfc.jwk import ECKey
from typing_extensions import override

import mcprev
from helpers.http_in_process import App, InProcess
from mcprev.auth.authorization_server.login import Login
from mcprev.testing.authorization_server import Browser

SERVER: Final = "http://127.0.0.1:8101"
RESOURCE: Final = f"{SERVER}/mcp"
IDP: Final = "http://127.0.0.1:8102"
SECRET: Final = "a secret of the operator, 32 bytes or more"
REDIRECT: Final = "http://127.0.0.1/callback"
VERIFIER: Final = "v" * 43
CHALLENGE: Final = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


class Clock:
    """A time of day that tests set."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Town:
    """Apps by their ports."""

    def __init__(self, apps: Mapping[str, Any]) -> None:
        self.apps = {str(urlsplit(origin).port): app for origin, app in apps.items()}
        self.connector = InProcess(self.serve)
        self.session = aiohttp.ClientSession(connector=self.connector, cookie_jar=aiohttp.DummyCookieJar())
        """A session whose requests arrive here."""
        self.browser = self.new_browser()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()
        for lane in [*self.connector.lanes]:
            await lane.task

    def new_browser(self, user: str | None = None, **options: Any) -> Browser:
        """A browser of another user."""
        return Browser(user, connector=self.connector, **options)

    def user(self) -> mcprev.OAuth:
        """A client whose user consents to everything."""
        return mcprev.OAuth(redirect_uri=REDIRECT, open=self.browser.open)

    async def serve(self, scope: Any, receive: Any, send: Any) -> None:
        port = dict(scope["headers"])[b"host"].decode().rpartition(":")[2]
        await self.apps[port](scope, receive, send)


# -- providers -----------------------------------------------------------------------------------------------


class FakeProvider:
    """An identity provider: an ASGI app that logs its user in without asking, and keeps what it was sent."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.seen: list[tuple[str, dict[str, str]]] = []
        """The paths and members of the requests."""
        self.bearers: list[str] = []
        self.user = "583231"
        self.codes: dict[str, dict[str, str]] = {}
        self.issued = 0
        self.good_refresh: set[str] = set()
        self.locked_out = False
        self.expires: int | None = None
        """The lifetime of tokens; None: they last for ever, and there are no refresh tokens."""
        self.back: dict[str, str] = {}
        """What is added to the answer of the login page."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        said = dict(parse_qsl((scope["query_string"] or body).decode(), keep_blank_values=True))
        self.seen.append((scope["path"], said))
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if "authorization" in headers:
            self.bearers.append(headers["authorization"])
        assert "resource" not in said, "Entra refuses the parameter"
        status, fields, found = getattr(self, scope["path"].strip("/"))(said, headers)
        sent = [(name.encode(), value.encode()) for name, value in fields.items()]
        await send({"type": "http.response.start", "status": status, "headers": sent})
        await send({"type": "http.response.body", "body": found})

    @staticmethod
    def json(found: object, status: int = 200) -> tuple[int, dict[str, str], bytes]:
        return status, {"content-type": "application/json"}, json.dumps(found).encode()

    def authorize(self, said: dict[str, str], _: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        code = f"code-{len(self.codes)}"
        self.codes[code] = said
        query = urlencode({"code": code, "state": said["state"], **self.back})
        return 302, {"location": f"{said['redirect_uri']}?{query}"}, b""

    def token(self, said: dict[str, str], headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        assert headers["accept"] == "application/json", "GitHub answers with a form otherwise"
        if not self.knows(said):
            return self.refused("invalid_client")
        if said["grant_type"] == "refresh_token":
            if self.locked_out or said["refresh_token"] not in self.good_refresh:
                return self.refused("invalid_grant")
            self.good_refresh.remove(said["refresh_token"])  # it rotates, and each is good once
            return self.tokens(None)
        asked = self.codes.pop(said["code"], None)
        if asked is None or asked["redirect_uri"] != said["redirect_uri"]:
            return self.refused("invalid_grant")
        digest = hashlib.sha256(said["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
        return self.tokens(asked)

    def knows(self, said: dict[str, str]) -> bool:
        """Whether a token request is from the client that is registered here."""
        return (said.get("client_id"), said.get("client_secret")) == ("idp-client", "idp-secret")

    def refused(self, error: str) -> tuple[int, dict[str, str], bytes]:
        raise NotImplementedError

    def tokens(self, asked: dict[str, str] | None) -> tuple[int, dict[str, str], bytes]:
        self.issued += 1
        found: dict[str, object] = {"access_token": f"idp-token-{self.issued}", "token_type": "bearer"}
        if self.expires is not None:
            found |= {"refresh_token": f"idp-refresh-{self.issued}", "expires_in": self.expires}
            self.good_refresh.add(f"idp-refresh-{self.issued}")
        return self.json({**found, **self.more(asked)})

    def more(self, asked: dict[str, str] | None) -> dict[str, object]:
        return {}


class LikeGitHub(FakeProvider):
    """Errors with status 200, a number for a subject, a form unless JSON is asked for."""

    def refused(self, error: str) -> tuple[int, dict[str, str], bytes]:
        return self.json({"error": "bad_refresh_token" if self.locked_out else error}, 200)

    def user_(self, said: dict[str, str], headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        assert headers["authorization"].startswith("Bearer idp-token-")
        return self.json(
            {"id": int(self.user), "login": "octocat", "name": None, "email": "spoofed@evil.example"}
        )

    def emails(self, said: dict[str, str], headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        return self.json(
            [
                {"email": "old@x.example", "primary": False, "verified": True},
                {"email": "octocat@x.example", "primary": True, "verified": True},
            ]
        )

    def provider(self) -> mcprev.Provider:
        return mcprev.Provider(
            name="github", client_id="idp-client", client_secret="idp-secret", authorize_url=f"{IDP}/authorize",
            token_url=f"{IDP}/token", userinfo_url=f"{IDP}/user_", emails_url=f"{IDP}/emails", subject=("id",),
            claims=("login", "name", "email"), scopes=("read:user",),
        )  # fmt: skip


class LikeEntra(FakeProvider):
    """Errors with status 400, users in ID tokens, an issuer for each tenant, access tokens for another API."""

    tenant = "11111111-2222-3333-4444-555555555555"

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.expires = 3600
        self.fixed = False
        """Whether the issuer is that of one tenant."""
        self.claims: dict[str, object] = {}
        """What an ID token says otherwise."""

    def refused(self, error: str) -> tuple[int, dict[str, str], bytes]:
        return self.json({"error": error, "error_description": "AADSTS70000: no"}, 400)

    def more(self, asked: dict[str, str] | None) -> dict[str, object]:
        claims: dict[str, object] = {
            "iss": f"{IDP}/{self.tenant}/v2.0",
            "aud": "idp-client",
            "exp": int(self.clock()) + 3600,
            "tid": self.tenant,
            "oid": self.user,
            "sub": "pairwise",
            "nonce": (asked or {}).get("nonce"),
            "email": "unverified@x.example",
            "name": "Ada Lovelace",
            **self.claims,
        }
        body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
        return {"id_token": f"e30.{body}.c2ln", "scope": "openid api://idp-client/read"}

    def provider(self) -> mcprev.Provider:
        return mcprev.Provider(
            name="entra", client_id="idp-client", client_secret="idp-secret", authorize_url=f"{IDP}/authorize",
            token_url=f"{IDP}/token", issuer=f"{IDP}/{self.tenant if self.fixed else '{tid}'}/v2.0", user_from="id_token", subject=("tid", "oid"),
            scopes=("openid", "api://idp-client/read", "offline_access"),
        )  # fmt: skip


class LikeCompany(FakeProvider):
    """Endpoints in its metadata only, a signature in place of a secret, users with an `id` inside of `data`."""

    KEY: Final = ECKey.generate_key("P-256", private=True)

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        setattr(self, ".well-known/openid-configuration", self.metadata)

    def metadata(self, said: dict[str, str], headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        urls = {f"{name}_endpoint": f"{IDP}/{name}" for name in ("token", "userinfo")}
        return self.json({"issuer": IDP, "authorization_endpoint": f"{IDP}/authorize", **urls})

    @override
    def knows(self, said: dict[str, str]) -> bool:
        signed = jwt.decode(said["client_assertion"], self.KEY)
        assert signed.header["kid"] == "k1"
        assert "client_secret" not in said
        return (signed.claims["iss"], signed.claims["aud"]) == ("idp-client", f"{IDP}/token")

    @override
    def refused(self, error: str) -> tuple[int, dict[str, str], bytes]:
        return self.json({"error": error}, 400)

    def userinfo(self, said: dict[str, str], headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        user = {"id": self.user, "username": "ada", "email": "ada@x.example", "verified": True}
        return self.json({"data": user})

    def provider(self) -> mcprev.Provider:
        return mcprev.Provider.discovered(
            IDP, "idp-client", name="company", private_key=self.KEY.as_pem(private=True).decode(), key_header={"kid": "k1"},
            subject=("id",), user_in="data", claims=("username", "email"), verified="verified",
        )  # fmt: skip


# -- a server with a login -------------------------------------------------------------------------------------


class Site(Town):
    """A server with a login in front of a provider, and what a client sends to it by hand."""

    def __init__(self, idp: FakeProvider, clock: Clock, **options: Any) -> None:
        self.idp, self.clock = idp, clock
        super().__init__({IDP: idp})
        self.options = options
        self.login = self.worker()
        self.apps["8101"] = self.app(self.login)

    def worker(self, **options: Any) -> Login:
        """A login as another process has it."""
        found: dict[str, Any] = {
            "secrets": SECRET,
            "clock": self.clock,
            "session": self.session,
            **self.options,
        }
        provider: Any = self.idp
        return Login(provider.provider(), resource=RESOURCE, **{**found, **options})

    def app(self, login: Login) -> App:
        """What serves at the port."""
        app = mcprev.App("guarded", "1")

        @app.tool
        async def whoami(ctx: mcprev.Context) -> dict[str, Any]:
            assert ctx.access is not None
            return {
                "principal": ctx.principal,
                "claims": dict(ctx.access.claims),
                "scopes": sorted(ctx.access.scopes),
            }

        @app.tool
        async def upstream_token(ctx: mcprev.Context) -> str:
            return await login.provider_token(ctx.access)

        return app.asgi(auth=login)


class Response:
    """A response, read whole."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes, cookies: dict[str, str]) -> None:
        self.status, self.headers, self.body, self.cookies = status, headers, body, cookies

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def location(self) -> str:
        return self.headers["location"]

    @property
    def said(self) -> dict[str, str]:
        """The query that a redirect carries."""
        return dict(parse_qsl(urlsplit(self.location).query))


class ByHand:
    """Sends single requests, with the cookies of one browser."""

    def __init__(self, town: Town, origin: str = SERVER) -> None:
        self.town, self.origin = town, origin
        self.cookies: dict[str, str] = {}

    async def send(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        **body: Any,
    ) -> Response:
        url = path if path.startswith("http") else self.origin + path
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        sent = {"connection": "close", **({"cookie": cookie} if cookie else {}), **(headers or {})}
        async with self.town.session.request(
            verb, url, params=query, headers=sent, allow_redirects=False, **body
        ) as response:
            new = {name: found.value for name, found in response.cookies.items()}
            self.cookies |= new
            lower = {name.lower(): value for name, value in response.headers.items()}
            return Response(response.status, lower, await response.read(), new)

    async def register(self, **metadata: Any) -> dict[str, Any]:
        """Register a client; what it says is added to the usual."""
        wanted = {
            "client_name": "Tester",
            "redirect_uris": [REDIRECT],
            "token_endpoint_auth_method": "none",
            **metadata,
        }
        response = await self.send("POST", "/register", json=wanted)
        assert response.status == 201, response.text
        found: dict[str, Any] = response.json
        return found

    def query(self, client_id: str, **said: str | None) -> dict[str, str]:
        """An authorization request; None takes a member away."""
        usual = {
            "response_type": "code", "client_id": client_id, "redirect_uri": REDIRECT, "state": "s1",
            "code_challenge": CHALLENGE, "code_challenge_method": "S256", "resource": RESOURCE,
        }  # fmt: skip
        return {name: value for name, value in {**usual, **said}.items() if value is not None}

    async def ask(self, client_id: str, **said: str | None) -> Response:
        """See the consent page."""
        return await self.send("GET", "/authorize", query=self.query(client_id, **said))

    async def consent(self, page: Response, **said: str) -> Response:
        """Answer the consent page."""
        form = {
            "request": page.text.split('name="request" value="')[1].split('"')[0],
            "decision": "allow",
            **said,
        }
        return await self.send("POST", "/authorize", data=form)

    async def log_in(self, client_id: str, **said: str | None) -> str:
        """Do all that a user does, and return the code."""
        sent = await self.consent(await self.ask(client_id, **said))
        if sent.location.startswith(IDP):
            back = await self.send("GET", sent.location)
            sent = await self.send("GET", back.location)
        assert sent.said["iss"] == self.origin
        return sent.said["code"]

    async def token(self, **form: str | None) -> Response:
        """Send a token request; None takes a member away."""
        return await self.send(
            "POST", "/token", data={name: value for name, value in form.items() if value is not None}
        )

    async def redeem(self, client_id: str, code: str, **form: str | None) -> Response:
        """Redeem a code."""
        usual = {
            "client_id": client_id,
            "redirect_uri": REDIRECT,
            "code_verifier": VERIFIER,
            "resource": RESOURCE,
        }
        return await self.token(grant_type="authorization_code", code=code, **{**usual, **form})

    async def refresh(self, client_id: str, token: str, **form: str | None) -> Response:
        """Redeem a refresh token."""
        return await self.token(grant_type="refresh_token", refresh_token=token, client_id=client_id, **form)

    async def status(self, token: str) -> int:
        """The status of a request with a token: 401, or the one of a request that is let in."""
        headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
        return (await self.send("POST", "/mcp", headers=headers, json={})).status


@asynccontextmanager
async def connected(
    town: Town, auth: mcprev.OAuth, url: str = RESOURCE, **options: Any
) -> AsyncGenerator[mcprev.Client]:
    """Our own client with a login."""
    async with mcprev.connect(mcprev.http(url, session=town.session, auth=auth), **options) as client:
        yield client
