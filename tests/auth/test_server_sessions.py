"""What tokens are to sessions, streams and handlers (SEC-4, SEC-5, AUTH-1; HTTP-28)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import mcprev
from auth.guarded import ROWS, WAYS, Guarded, Stream, Tokens, Way, asked, good, over_asgi, session, shows
from helpers.asgi_bridge import STREAM, TYPES, initialize, notification
from helpers.requirements import E, req
from helpers.running import pass_time, run, until
from mcprev.revisions import Revision

ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
with_sessions = pytest.mark.parametrize("row", ROWS[:3], ids=lambda row: row.name)


def writes(method: str, params: object) -> str | None:
    """Calls of tools need more than anything else."""
    return "write" if method == "tools/call" else None


@req("AUTH-1", "AUTH-10", "SSE-1", "SSE-6")
@ways
@with_sessions
def test_clients_that_fall_back_to_the_oldest_transport_show_tokens_too(row: Revision, way: Way) -> None:
    """Both endpoints, each message by itself: its handler sees the token that it was posted with."""

    async def main() -> None:
        used = Tokens(more=good("alice", client_id="c", scopes="write"))
        auth = used.bearer(needs=writes)
        async with way(mcprev.Server(Guarded(), "s", "1"), auth=auth, sse=True) as ask:
            stream = await ask.stream("GET", "/sse", [*STREAM.items(), *shows("alice").items()])
            target = (await stream.heard(1))[0].data.decode()
            said = {"content-type": "application/json"}
            body = asked(row, "access")[3]
            for token, message, status in (
                ("alice", initialize(row), 202),
                ("bob", body, 404),
                ("nobody", body, 401),
                ("alice", body, 403),
                ("alice", [body], 403),
                ("more", body, 202),
            ):
                answer = await ask("POST", target, [*said.items(), *shows(token).items()], message)
                assert answer.status == status
            assert (await ask("POST", target, [*said.items()], body)).status == 401
            answers = [json.loads(event.data) for event in (await stream.heard(3))[1:]]
            assert [answer["id"] for answer in answers] == ["init", 1]
            assert answers[1]["result"]["content"][0]["text"] == '["alice", "c", ["write"], {}]'
            await stream.hang_up()

    run(main())


@req("SEC-4", "AUTH-1")
@ways
@with_sessions
def test_a_session_stands_for_nobody(row: Revision, way: Way) -> None:
    """It is no token, and of no use with that of another; a new one of the same subject is as good as the first."""

    async def main() -> None:
        handler, used = Guarded(), Tokens()
        async with way(mcprev.Server(handler, "s", "1"), auth=used.bearer()) as ask:
            said = await session(ask, row, "alice")
            bare = {"mcp-session-id": said["mcp-session-id"]}
            verb, target, headers, body = asked(row, "access")
            for method, payload in ((verb, body), ("GET", None), ("DELETE", None)):
                for extra, status in (({}, 401), (shows("bob"), 404)):
                    pairs = {**(headers if payload else STREAM), **bare, **extra}
                    assert (await ask(method, target, [*pairs.items()], payload)).status == status
            for token, client_id in (("alice", None), ("alice2", "other"), ("alice", None)):
                pairs = {**headers, **bare, **shows(token)}
                answer = await ask(verb, target, [*pairs.items()], body)
                assert answer.text.startswith('["alice", ' + ("null" if client_id is None else '"other"'))
            used.known["alice"] = None
            answer = await ask(verb, target, [*headers.items(), *said.items()], body)
            assert answer.status == 401, "revoked, and nothing is kept of it"
            assert (await ask("DELETE", target, [*(bare | shows("alice2")).items()])).status == 204

    run(main())


@req("AUTH-1", "HDR-8", at=E)
def test_tools_are_listed_for_the_token_of_the_call() -> None:
    async def main() -> None:
        handler, used = Guarded(), Tokens(alice=good("alice", scopes="read"))
        async with over_asgi(mcprev.Server(handler, "s", "1"), auth=used.bearer()) as ask:
            verb, target, headers, body = asked(ROWS[-1], "region")
            answer = await ask(verb, target, [*headers.items(), *shows("alice").items()], body)
            assert answer.status == 200
        assert handler.listed_by
        assert {access and access.scopes for access in handler.listed_by} == {frozenset({"read"})}

    run(main())


@req("AUTH-1", everywhere=True)
def test_without_tokens_handlers_see_none() -> None:
    seen: list[object] = []

    class Seeing(Guarded):
        async def do_see(self, ctx: mcprev.Context, params: Any) -> Any:
            seen.append(ctx.access)
            return await self.do_echo(ctx, params)

    async def main() -> None:
        server = mcprev.Server(Seeing(), "s", "1")
        async with mcprev.connect(mcprev.memory(server)) as client:
            await client.call_tool("see")
        async with over_asgi(server) as ask:
            verb, target, headers, body = asked(ROWS[-1], "see")
            assert (await ask(verb, target, [*headers.items()], body)).status == 200
        assert seen == [None, None]

    run(main())


# -- tokens that expire ----------------------------------------------------------------------------------

SOON = 600.0
"""Seconds that tokens are good for; the clock of the tests goes on when it is told to."""


def short_lived() -> Tokens:
    used = Tokens()
    used.known["short"] = good("alice", expires=used.now + SOON)
    used.known["shorter"] = good("alice", expires=used.now + SOON / 2)
    used.known["endless"] = good("alice", expires=None)
    return used


@req("AUTH-1")
@ways
@with_sessions
def test_a_stream_of_a_session_ends_with_its_token_and_the_session_goes_on(row: Revision, way: Way) -> None:
    async def main() -> None:
        used = short_lived()
        server = mcprev.Server(Guarded(), "s", "1")
        async with way(server, auth=used.bearer()) as ask:
            said = await session(ask, row, "short")
            ready = await ask(
                "POST", "/mcp", [*(TYPES | said).items()], notification("notifications/initialized")
            )
            assert ready.status == 202
            listens = [*(STREAM | said).items()]
            stream = await ask.stream("GET", "/mcp", listens)
            used.now += SOON
            await stream.ended()
            assert (await ask("GET", "/mcp", listens)).status == 401
            said |= shows("alice")
            again = await ask.stream("GET", "/mcp", [*(STREAM | said).items()])
            server.changed("tools")
            await until(lambda: b"list_changed" in b"".join(event.data for event in again.events))
            assert (await ask("DELETE", "/mcp", [*said.items()])).status == 204
            await again.ended()

    run(main())


@req("AUTH-1", "SUB-4", at=E)
@ways
def test_a_listen_stream_ends_with_its_token_in_good_order(way: Way) -> None:
    async def main() -> None:
        row, used = ROWS[-1], short_lived()
        async with way(mcprev.Server(Guarded(), "s", "1"), auth=used.bearer()) as ask:
            verb, target, headers, body = listening(row)
            streams = [
                await ask.stream(verb, target, [*headers.items(), *shows(token).items()], body)
                for token in ("endless", "short")
            ]
            assert b"acknowledged" in (await streams[1].heard(1))[0].data
            used.now += SOON
            await streams[1].ended()
            assert json.loads(streams[1].events[-1].data)["result"]["resultType"] == "complete"
            assert len(await streams[0].heard(1)) == 1
            await streams[0].hang_up()

    run(main())


@req("AUTH-1")
@ways
@with_sessions
def test_a_stream_ends_with_its_token_however_late_answers_become_streams(row: Revision, way: Way) -> None:
    async def main() -> None:
        used, now = short_lived(), asyncio.get_running_loop().time
        async with way(mcprev.Server(Guarded(), "s", "1"), auth=used.bearer(), defer=3600) as ask:
            stream = await ask.stream("GET", "/mcp", [*(STREAM | await session(ask, row, "short")).items()])
            used.now, began = used.now + SOON, now()
            await stream.ended()
            assert now() - began < 60

    run(main())


@req("AUTH-1")
@ways
@with_sessions
def test_a_stream_ends_with_its_token_also_if_the_time_of_day_is_set_back(row: Revision, way: Way) -> None:
    async def main() -> None:
        used = Tokens()
        used.known["short"] = good("alice", expires=used.now + 4)
        async with way(mcprev.Server(Guarded(), "s", "1"), auth=used.bearer()) as ask:
            stream = await ask.stream("GET", "/mcp", [*(STREAM | await session(ask, row, "short")).items()])
            used.now -= 1000
            pass_time(4)
            await stream.ended()

    run(main())


def listening(row: Revision) -> tuple[str, str, dict[str, str], Any]:
    """A request for a listen stream."""
    verb, target, headers, call = asked(row)
    params = {"notifications": {"toolsListChanged": True}, "_meta": call["params"]["_meta"]}
    del headers["mcp-name"]
    headers["mcp-method"] = "subscriptions/listen"
    return verb, target, headers, {**call, "method": "subscriptions/listen", "params": params}


@req("AUTH-1", "SSE-6")
@ways
@with_sessions
def test_a_stream_of_the_oldest_transport_lasts_as_long_as_any_token_shown(row: Revision, way: Way) -> None:
    async def main() -> None:
        used = short_lived()
        async with way(mcprev.Server(Guarded(), "s", "1"), auth=used.bearer(), sse=True) as ask:
            streams: list[Stream] = []
            targets: list[str] = []
            for token in ("shorter", "short", "short"):
                streams.append(await ask.stream("GET", "/sse", [*(STREAM | shows(token)).items()]))
                targets.append((await streams[-1].heard(1))[0].data.decode())
            said = {"content-type": "application/json"}
            for target, token in ((targets[0], "alice"), (targets[1], "endless")):
                answer = await ask("POST", target, [*(said | shows(token)).items()], initialize(row))
                assert answer.status == 202
            used.now += SOON
            await streams[2].ended()
            for target, status in zip(targets, (202, 202, 404), strict=True):
                answer = await ask("POST", target, [*(said | shows("alice")).items()], asked(row)[3])
                assert answer.status == status
            for stream in streams[:2]:
                assert json.loads((await stream.heard(3))[2].data)["id"] == 1
                await stream.hang_up()

    run(main())


@req("AUTH-1")
@ways
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_was_let_in_is_answered_after_its_token_has_expired(row: Revision, way: Way) -> None:
    async def main() -> None:
        handler, used = Guarded(), short_lived()
        async with way(mcprev.Server(handler, "s", "1"), auth=used.bearer(), defer=0.01) as ask:
            said = await session(ask, row, "short")
            verb, target, headers, body = asked(row, "quiet")
            stream_headers = [*headers.items(), *said.items()]
            stream = await ask.stream(verb, target, stream_headers, body)
            used.now += SOON
            assert (await ask(verb, target, stream_headers, body)).status == 401
            assert handler.running == 1
            handler.gate.set()
            await stream.ended()
            assert json.loads(stream.events[-1].data)["result"]["content"][0]["text"] == "quiet"

    run(main())
