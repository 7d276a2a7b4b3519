"""What a client reads of the `WWW-Authenticate` of a server that refuses a token of the user's own."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from hypothesis import example, given, strategies as st

import mcprev
from auth.world import world
from helpers.linear import assert_linear
from helpers.raw_server import Exchange, connected
from helpers.requirements import req
from helpers.running import run
from helpers.shell import invoke
from mcprev.revisions import DEFAULT, Revision
from mcprev.transports.http.client import session as module

SECURED: Final = [row for row in DEFAULT if row.auth is not None]
SHORT: Final = 'Bearer error="insufficient_scope"'
CHALLENGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "with scopes": (f'{SHORT}, scope="read write"', ("read", "write")),
    "in any order": ('Bearer scope="read write", error="insufficient_scope"', ("read", "write")),
    "without quotes": ("Bearer error=insufficient_scope, scope=read", ("read",)),
    "with spaces and capitals": ('bearer Error = "insufficient_scope" ,Scope= "read"', ("read",)),
    "without scopes": (SHORT, ()),
    "empty scopes": (f'{SHORT}, scope=""', ()),
    "a URL among them": (f'{SHORT}, scope="https://x.test/a.read"', ("https://x.test/a.read",)),
    "scopes named in a text": (
        f'{SHORT}, error_description="no scope=\\"none\\", scope=no", scope="read"',
        ("read",),
    ),
    "after another scheme": (f'Basic realm="x", {SHORT}, scope="read"', ("read",)),
}
OTHERS: Final = {
    "no challenge": "",
    "another error": 'Bearer error="invalid_request", scope="read"',
    "the error in a text": 'Bearer error="invalid_request", error_description="error=insufficient_scope"',
    "another parameter": 'Bearer my-error="insufficient_scope"',
    "no error": 'Bearer scope="read"',
}


def refusing(status: int, challenge: str) -> Any:
    async def called(exchange: Exchange) -> None:
        error = {"code": -32600, "message": "no"}
        answer = {"jsonrpc": "2.0", "id": exchange.message["id"], "error": error}
        await exchange.json(answer, status, {"WWW-Authenticate": challenge})

    return {"tools/call": called}


@pytest.mark.parametrize("case", CHALLENGES)
@req("ERR-7", "AUTH-17", everywhere=True)
def test_the_required_scopes_are_read_in_each_form(case: str) -> None:
    challenge, scopes = CHALLENGES[case]

    async def main() -> None:
        async with connected(SECURED[-1], refusing(403, challenge)) as (client, _, _):
            with pytest.raises(mcprev.InsufficientScope, match="the token lacks") as caught:
                await client.call_tool("t")
            assert caught.value.required == scopes
            lacks = f"some of the scopes {' '.join(scopes)}" if scopes else "scopes"
            assert f"the token lacks {lacks}: send one" in str(caught.value)

    run(main())


@pytest.mark.parametrize("case", OTHERS)
@req("ERR-7", everywhere=True)
def test_any_other_refusal_is_the_error_of_the_server(case: str) -> None:
    async def main() -> None:
        async with connected(SECURED[-1], refusing(403, OTHERS[case])) as (client, _, _):
            with pytest.raises(mcprev.InvalidRequest, match="no"):
                await client.call_tool("t")

    run(main())


@req("ERR-7", "SEC-6", everywhere=True)
def test_scopes_are_shown_without_control_characters() -> None:
    async def main() -> None:
        challenge = f'{SHORT}, scope="a\x9b2J b{"c" * 1000}"'
        async with connected(SECURED[-1], refusing(403, challenge)) as (client, _, _):
            with pytest.raises(mcprev.InsufficientScope) as caught:
                await client.call_tool("t")
            assert str(caught.value).isprintable()
            assert len(str(caught.value)) < 400

    run(main())


@pytest.mark.slow
@given(
    start=st.sampled_from(["", "Bearer ", 'a="', "a="]),
    again=st.lists(
        st.sampled_from(["a", "-", "a-", "a=", 'a="', 'a="b",', '\\"', 'a=\\"', "=", '"', ",", " ", "\\"]),
        min_size=1,
        max_size=3,
    ).map("".join),
    end=st.sampled_from(["", "\x00", '"', "="]),
)
@example(start="", again="a-", end="\x00")
@example(start='a="', again='a=\\"', end="")
@req("SEC-6", everywhere=True)
def test_a_challenge_is_read_in_steps_that_grow_with_its_characters(start: str, again: str, end: str) -> None:
    def read(header: str) -> None:
        module._PARAMETER.findall(header)  # pyright: ignore[reportPrivateUsage]

    assert_linear(read, lambda size: start + again * size + end, module, sizes=(48, 96))


@pytest.mark.parametrize("row", SECURED, ids=lambda row: row.name)
@req("AUTH-2", "ERR-7")
def test_a_command_ends_as_for_any_token_that_the_server_does_not_accept(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at:
            token = at.issue("read")
            at.needs = {"server/discover": "read more", "initialize": "read more"}
            for value in ("unknown", token):
                header = f"Authorization: Bearer {value}"
                done = await asyncio.to_thread(invoke, None, "inspect", "--header", header, at.mcp.url)
                assert done.exit_code == 3
                assert "log in with --login, or send a token with --header" in done.stderr
                assert value not in done.output
            assert "Error: HTTP 403" in done.stderr
            assert "the token lacks some of the scopes more read: send one that has them" in done.stderr

    run(main())
