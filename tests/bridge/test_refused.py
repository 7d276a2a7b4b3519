"""A server behind a bridge that responds, and refuses the bridge for want of an authorization (LIFE-3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from helpers.http_in_process import InProcess, Message
from helpers.requirements import E, req
from helpers.running import run
from mcprev.bridge.refusals import refusal_of
from mcprev.bridge.several.health import Health
from mcprev.errors import HttpStatusError
from mcprev.revisions import DEFAULT, Revision

SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
each_client = pytest.mark.parametrize("row", [SESSION, DEFAULT[-1]], ids=lambda row: row.name)
ADVICE: Final = "give the bridge a token with --h"  # clients cut what a server says at some length
plain = mcprev.App("plain", "1")


@plain.tool
def hello() -> str:
    return "hello"


async def forbidden(scope: Message, receive: Any, send: Any) -> None:
    """A proxy that lets nobody through."""
    await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"not from here"})


def guarded(**scopes: Any) -> mcprev.App:
    """A server that wants a token; `reader` is one that it knows."""
    auth = mcprev.StaticTokens({"reader": {"subject": "ann", "scopes": []}}, **scopes)
    return mcprev.App("bank", "1", auth=auth)


@asynccontextmanager
async def reached(app: Any) -> AsyncGenerator[tuple[aiohttp.ClientSession, str], None]:
    """A session of HTTP that reaches an app, and the URL of its endpoint."""
    async with AsyncExitStack() as stack:
        if isinstance(app, mcprev.App):
            await stack.enter_async_context(app.server.running())
            app = app.asgi()
            stack.push_async_callback(app.aclose)
        connector = InProcess(app)
        yield await stack.enter_async_context(
            aiohttp.ClientSession(connector=connector)
        ), f"{connector.origin}/mcp"


async def said_to(
    row: Revision, app: Any, headers: Mapping[str, str] | None = None, *, several: bool = False
) -> str:
    """What a client of a bridge in front of the server is told."""
    async with reached(app) as (there, url):
        target = mcprev.http(url, session=there, headers=headers or {})
        bridge = mcprev.Bridge({"bank": target, "plain": plain} if several else target)
        served = bridge.asgi()
        async with bridge.running(), reached(served) as (here, own):
            with pytest.raises(mcprev.McpError) as caught:
                async with mcprev.connect(mcprev.http(own, session=here), mode=row.name) as client:
                    await client.call_tool("bank__pay" if several else "pay", {})
        await served.aclose()
        return str(caught.value)


@each_client
@pytest.mark.parametrize(
    ("app", "headers", "words"),
    [
        (guarded(), {}, "HTTP 401: Unauthorized: a token is required"),
        (guarded(), {"Authorization": "Bearer wrong"}, "HTTP 401: Unauthorized"),
        (
            guarded(scopes=["pay"]),
            {"Authorization": "Bearer reader"},
            "the token lacks some of the scopes pay",
        ),
        (forbidden, {}, "HTTP 403"),
    ],
    ids=["no token", "a wrong token", "too few scopes", "a proxy"],
)
@req("LIFE-3", at=(SESSION.name, E))
def test_a_client_is_told_that_the_server_requires_an_authorization_and_how_it_is_given(
    row: Revision, app: Any, headers: Mapping[str, str], words: str
) -> None:
    said = run(said_to(row, app, headers))
    assert "the server behind the bridge requires authorization: " in said
    assert words in said
    assert ADVICE in said
    assert "did not respond" not in said
    assert "wrong" not in said


@each_client
@req("LIFE-3", at=(SESSION.name, E))
def test_one_of_several_that_refuses_counts_as_one_that_responds(
    row: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    said = run(said_to(row, guarded(), several=True))
    assert "the server 'bank' behind the bridge requires authorization: HTTP 401" in said
    assert ADVICE in said
    assert "cannot be reached" not in caplog.text
    assert "the server 'bank' is down: it responds, but requires authorization: HTTP 401" in caplog.text
    assert "of the server 'bank' failed: " in caplog.text


@pytest.mark.parametrize("several", [True, False], ids=["of several", "the only one"])
def test_the_log_names_the_server_that_requires_a_session(
    several: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A client without a session that is not authenticated calls it."""
    old = mcprev.App("old", "1", revisions=[SESSION.name])
    old.tool(hello)

    async def main() -> str:
        bridge = mcprev.Bridge({"old": old, "plain": plain} if several else old)
        served = bridge.asgi()
        newest = DEFAULT[-1].name
        async with (
            bridge.running(),
            reached(served) as (here, own),
            mcprev.connect(mcprev.http(own, session=here), mode=newest) as client,
        ):
            said = await client.call_tool("old__hello" if several else "hello", {})
        await served.aclose()
        return said.text

    assert run(main()) == "hello"
    name = " 'old'" if several else ""
    assert (
        f"the server{name} requires a session, and a client that is not authenticated has none" in caplog.text
    )


def test_what_is_no_refusal_is_none() -> None:
    assert refusal_of(HttpStatusError("HTTP 502", status=502, body="", headers={})) is None
    assert refusal_of(mcprev.InsufficientScope("of a login", required=["a"], requested=[])) == "of a login"

    async def main() -> str | None:
        health = Health()
        health.failed(HttpStatusError("HTTP 502", status=502, body="", headers={}))
        return health.reason

    assert run(main()) == "it cannot be reached: HTTP 502"
