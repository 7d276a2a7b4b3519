"""An authorization server and an MCP server that wants its tokens, by hand: both keep what they were asked.

What they do follows the revision: who is named where, what is checked. A test changes what it is about: documents by
their URLs, answers of endpoints, what a method needs.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import mcprev
from helpers.raw_server import Exchange, Mcp, OldMcp, Raw, Reply
from mcprev.revisions import Revision

CALLBACK = "http://127.0.0.1:9/callback"
PRM = "/.well-known/oauth-protected-resource"
OAUTH = "/.well-known/oauth-authorization-server"
Endpoint = Callable[[Exchange], Awaitable[None]]


def form(exchange: Exchange) -> dict[str, str]:
    """What was posted."""
    pairs = parse_qsl(exchange.body.decode(), strict_parsing=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def query(url: str) -> dict[str, str]:
    """What a URL asks for."""
    pairs = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


class World:
    """Both servers, and the user's browser."""

    def __init__(
        self, row: Revision, replies: Mapping[str, Reply] | None = None, *, old: bool = False
    ) -> None:
        self.revision = row
        self.speaks: Mcp | OldMcp = OldMcp(row, replies) if old else Mcp(row, replies)
        self.mcp = Raw(self._answer)
        self.auth = Raw(self._answer)
        self.documents: dict[str, Any] = {}
        """What is found where: JSON, bytes, or a function that answers."""
        self.good: dict[str, set[str]] = {}
        """The tokens that the MCP server takes, with their scopes."""
        self.needs: dict[str, str] = {}
        """The scopes that a method needs beyond a token."""
        self.challenge: dict[str, str] = {}
        """What a refusal says beside what it is about."""
        self.log: list[str] = []
        """What the authorization server was asked for."""
        self.pages: list[str] = []
        """Where the user was sent."""
        self.asked: list[dict[str, str]] = []
        """What the token endpoint was sent, and by whom."""
        self.registered: list[dict[str, Any]] = []
        self.scheme = "Bearer"
        self.refreshes = False
        """Whether refresh tokens are given."""
        self.revokes = False
        """Whether the second use of a refresh token revokes all tokens."""
        self.expires: Any = 3600
        self.grants: dict[str, Any] = {}
        """What a response with a token says beside it."""
        self.tokens: Endpoint = self.token
        self.back: dict[str, str | None] = {}
        """What the user comes back with, beside the code and the state; None takes something away."""
        self.browser: Callable[[str], Awaitable[str]] = self.browse
        """What the user of `oauth` has for a browser."""
        self.codes: dict[str, dict[str, str]] = {}
        self.issued = 0
        """How many tokens were issued."""
        self._fresh: set[str] = set()

    # -- set-up ----------------------------------------------------------------------------------------

    @property
    def issuer(self) -> str:
        """The authorization server."""
        assert self.revision.auth is not None
        return self.auth.origin if self.revision.auth.resource_metadata else self.mcp.origin

    @property
    def metadata(self) -> dict[str, Any]:
        """What the authorization server says of itself."""
        found: dict[str, Any] = self.documents[self.issuer + OAUTH]
        return found

    @property
    def resource(self) -> dict[str, Any]:
        """What the MCP server says of itself."""
        found: dict[str, Any] = self.documents[self.mcp.origin + PRM + "/mcp"]
        return found

    def describe(self) -> None:
        """Put the usual documents where the revision has them."""
        assert self.revision.auth is not None
        self.documents[self.issuer + OAUTH] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "authorization_response_iss_parameter_supported": True,
        }
        if self.revision.auth.resource_metadata:
            self.documents[self.mcp.origin + PRM + "/mcp"] = {
                "resource": self.mcp.url,
                "authorization_servers": [self.issuer],
            }
            self.challenge["resource_metadata"] = self.mcp.origin + PRM + "/mcp"

    def oauth(self, **options: Any) -> mcprev.OAuth:
        """A client whose user has no browser but this."""

        async def open_(url: str) -> str:
            return await self.browser(url)

        return mcprev.OAuth(redirect_uri=CALLBACK, open=open_, **options)

    def issue(self, *scopes: str) -> str:
        """A token that the MCP server takes."""
        self.issued += 1
        token = f"token-{self.issued}"
        self.good[token] = set(scopes)
        return token

    # -- the browser -----------------------------------------------------------------------------------

    async def browse(self, url: str) -> str:
        """The user says yes."""
        self.pages.append(url)
        self.log.append("authorize")
        said = query(url)
        code = f"code-{len(self.codes) + 1}"
        self.codes[code] = said
        back: dict[str, str | None] = {"code": code, "state": said["state"], "iss": self.issuer, **self.back}
        return f"{said['redirect_uri']}?{urlencode({name: value for name, value in back.items() if value is not None})}"

    # -- the servers -----------------------------------------------------------------------------------

    async def _answer(self, exchange: Exchange) -> None:
        port = exchange.headers["host"].rpartition(":")[2]
        path = exchange.path.partition("?")[0]
        found: Any = self.documents.get(f"http://127.0.0.1:{port}{path}")
        if callable(found):
            answer = cast("Endpoint", found)
            await answer(exchange)
        elif isinstance(found, bytes):
            await exchange.respond(200, found, {"Content-Type": "application/json"})
        elif found is not None:
            await exchange.json(found)
        elif exchange.verb == "POST" and path == "/token":
            await self.tokens(exchange)
        elif exchange.verb == "POST" and path == "/register":
            await self.register(exchange)
        elif int(port) == self.mcp.port and path.startswith(("/mcp", "/messages")):
            await self.admit(exchange)
        else:
            await exchange.respond(404)

    async def admit(self, exchange: Exchange) -> None:
        """Let a request of the protocol in, or say what is missing."""
        assert "token" not in exchange.path
        scheme, _, token = exchange.headers.get("authorization", "").partition(" ")
        held = self.good.get(token) if scheme == self.scheme else None
        if held is None:
            error = {"error": "invalid_token"} if token else {}
            await self.refuse(exchange, 401, **error)
            return
        needed = set(self.needs.get(exchange.method, "").split())
        if needed - held:
            await self.refuse(exchange, 403, error="insufficient_scope", scope=" ".join(sorted(needed)))
            return
        await self.speaks(exchange)

    async def refuse(self, exchange: Exchange, status: int, **said: str) -> None:
        """Say what is missing."""
        told = ", ".join(f'{name}="{value}"' for name, value in {**self.challenge, **said}.items())
        await exchange.respond(status, b"", {"WWW-Authenticate": f"Bearer {told}".strip()})

    async def register(self, exchange: Exchange) -> None:
        """Take a client in."""
        self.log.append("register")
        wanted = exchange.message
        self.registered.append(wanted)
        found = {**wanted, "client_id": f"client-{len(self.registered)}"}
        if wanted["token_endpoint_auth_method"] != "none":
            found["client_secret"] = "s:cr%t +"
        await exchange.json(found, 201)

    async def token(self, exchange: Exchange) -> None:
        """Give a token for whatever proves itself."""
        said = form(exchange)
        self.asked.append({**said, "authorization": exchange.headers.get("authorization", "")})
        self.log.append(said["grant_type"].rpartition(":")[2])
        match said["grant_type"]:
            case "authorization_code":
                asked = self.codes.pop(said["code"], {})
                digest = hashlib.sha256(said["code_verifier"].encode()).digest()
                proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
                assert asked["code_challenge_method"] == "S256"
                good = proof == asked["code_challenge"] and said["redirect_uri"] == asked["redirect_uri"]
                good = good and said.get("resource") == asked.get("resource")
                scopes = asked.get("scope", "")
            case "refresh_token":
                good, scopes = said["refresh_token"] in self._fresh, ""
                self._fresh.discard(said["refresh_token"])
                if self.revokes and not good:
                    self.log.append("theft")
                    self.good.clear()
                    self._fresh.clear()
            case _:
                good, scopes = True, said.get("scope", "")
        if not good:
            await exchange.json({"error": "invalid_grant", "error_description": "no such grant"}, 400)
            return
        await self.give(exchange, *scopes.split())

    async def give(self, exchange: Exchange, *scopes: str) -> None:
        """Give a token."""
        found: dict[str, Any] = {"access_token": self.issue(*scopes), "token_type": self.scheme.lower()}
        if self.expires is not None:
            found["expires_in"] = self.expires
        found |= self.grants
        if self.refreshes:
            found["refresh_token"] = f"refresh-{self.issued}"
            self._fresh.add(found["refresh_token"])
        await exchange.json(found)

    # -- what was seen ---------------------------------------------------------------------------------

    def asked_for(self, method: str) -> list[Exchange]:
        """The requests of the protocol for a method."""
        return [
            seen
            for seen in self.mcp.seen
            if seen.path.startswith(("/mcp", "/messages")) and seen.method == method
        ]

    @property
    def looked(self) -> list[str]:
        """The documents that were asked for, in order."""
        seen = sorted([*self.mcp.seen, *self.auth.seen], key=lambda exchange: exchange.at)
        return [f"http://{it.headers['host']}{it.path}" for it in seen if "/.well-known/" in it.path]


def basic(value: str) -> tuple[str, str]:
    """Who says so in an `Authorization` with a secret."""
    user, _, password = base64.b64decode(value.removeprefix("Basic ")).decode().partition(":")
    return unquote(user), unquote(password)


@asynccontextmanager
async def world(
    row: Revision, replies: Mapping[str, Reply] | None = None, *, old: bool = False
) -> AsyncGenerator[World, None]:
    """Both servers, for as long as a test wants them."""
    found = World(row, replies, old=old)
    await found.mcp.start()
    await found.auth.start()
    found.describe()
    try:
        yield found
    finally:
        await found.mcp.stop()
        await found.auth.stop()
    problems = found.mcp.problems + found.auth.problems
    if problems:
        raise problems[0]
