"""How a client finds out over HTTP what a server speaks, and for how long it remembers (NEG-6, NEG-7)."""

from __future__ import annotations

from typing import Any

import pytest

import mcprev
from helpers.named import ROW_D, B, row_of, rows_since
from helpers.raw_server import Exchange, Mcp, OldMcp, Raw, connected, serve, text
from helpers.requirements import NAMES, A, E, req
from helpers.running import passing, run
from mcprev.errors import ConnectionLost, HttpStatusError, NegotiationError, RpcError
from mcprev.protocol.negotiation.machine import GATEWAY
from mcprev.revisions import DEFAULT, Era, Revision
from mcprev.transports.http.client.target import VERDICTS

LATEST, OLDEST = row_of(E), row_of(A)
DISCOVER = "server/discover"


def said(raw: Raw) -> list[str]:
    """What was asked, one word each: the methods that open, and other verbs."""
    opening = (DISCOVER, "initialize")
    return [seen.method or seen.verb for seen in raw.seen if seen.method in opening or seen.verb == "GET"]


@req("NEG-6", "NEG-1", "NEG-2", "NEG-12")
@pytest.mark.parametrize("row", rows_since(B), ids=lambda row: row.name)
def test_a_server_of_any_revision_is_found_out(row: Revision) -> None:
    """NEG-6: by default, and where only its revision is allowed."""

    async def main(**options: Any) -> None:
        server = Mcp(row, {"tools/call": text("x")})
        async with serve(server) as raw, mcprev.connect(mcprev.http(raw.url), **options) as client:
            assert client.revision == row.name
            await client.call_tool("t")

    run(main())
    run(main(revisions=[row.name]))
    run(main(mode=row.name))


@req("NEG-6", "SSE-3")
def test_the_oldest_transport_is_found_after_both_posts_were_refused(row: Revision) -> None:
    async def main() -> None:
        server = OldMcp(OLDEST, {"tools/call": text("x")})
        async with serve(server) as raw:
            async with mcprev.connect(mcprev.http(raw.url)) as client:
                assert client.revision == A
                assert "x" in str(await client.call_tool("t"))
            assert said(raw) == [DISCOVER, "initialize", "GET", "initialize"]
            assert [post.path for post in raw.asked()[2:]] == [server.endpoint] * 3

    del row
    run(main())


# What real servers of the handshake era say to a request that they do not know: the status and the body.
REFUSALS: list[tuple[int, bytes]] = [
    (400, b""),
    (400, b"Bad Request: Server not initialized"),
    (
        400,
        b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID"},"id":null}',
    ),
    (400, b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Missing session ID"}}'),
    (404, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}'),
    (200, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}'),
    (200, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Invalid request parameters"}}'),
    (405, b""),
    (406, b"Not Acceptable"),
    (422, b'{"detail":"?"}'),
    (500, b"Internal Server Error"),
    (501, b"Not Implemented"),
    (502, b"<html>Bad Gateway</html>"),
    (504, b"<html>Gateway Timeout</html>"),
    (200, b""),
    (202, b""),
    (200, b"<html>"),
    (200, b'{"jsonrpc":"2.0","id":1,"result":{}}'),
]


@pytest.mark.parametrize(("status", "body"), REFUSALS)
@pytest.mark.parametrize("row", [row for row in rows_since(B) if row.handshake], ids=lambda row: row.name)
@req("NEG-6", "NEG-4", "LIFE-2")
def test_any_refusal_of_the_probe_leads_to_a_handshake(row: Revision, status: int, body: bytes) -> None:
    async def main() -> None:
        async def refuse(response_stream: Exchange) -> None:
            await response_stream.respond(status, body, {"Content-Type": "application/json"})

        async with serve(Mcp(row, {DISCOVER: refuse})) as raw:
            async with mcprev.connect(mcprev.http(raw.url)) as client:
                assert client.revision == row.name
            assert (VERDICTS.get(raw.url) is None) is (status in GATEWAY)
            opening = raw.asked(method="initialize")[0].message["params"]["protocolVersion"]
            assert opening == ROW_D.version

    run(main())


@pytest.mark.parametrize("row", [row for row in rows_since(B) if row.handshake], ids=lambda row: row.name)
@req("NEG-6", "NEG-4")
def test_a_stream_without_an_answer_to_the_probe_leads_to_a_handshake(row: Revision) -> None:
    """As servers on old releases of the official SDK do that know no sessions."""

    async def main() -> None:
        async def end_early(response_stream: Exchange) -> None:
            await response_stream.stream()
            await response_stream.end()

        async with serve(Mcp(row, {DISCOVER: end_early})) as raw:
            async with mcprev.connect(mcprev.http(raw.url)) as client:
                assert client.revision == row.name
            assert said(raw)[:2] == [DISCOVER, "initialize"]

    run(main())


@pytest.mark.parametrize("code", [-32022, -32020, -32021])
@req("NEG-6", "NEG-3", "MOD-10", at=E)
def test_an_error_that_only_modern_servers_know_keeps_to_them(code: int) -> None:
    async def main() -> None:
        async def refuse(response_stream: Exchange) -> None:
            data = {"supported": ["2099-01-01"], "requested": E}
            await response_stream.error(code, 400, data=data if code == -32022 else None)

        async with serve(Mcp(LATEST, {DISCOVER: refuse})) as raw:
            with pytest.raises(NegotiationError) as caught:
                await mcprev.connect(mcprev.http(raw.url))
            assert isinstance(caught.value.__cause__, RpcError)
            assert set(said(raw)) == {DISCOVER}

    run(main())


@req("NEG-6", "NEG-3", "MOD-10", at=E)
def test_a_refusal_that_names_the_revision_that_was_asked_for_is_asked_again() -> None:
    """MOD-10: the first answer of some servers is wrong; what they name is tried once more."""

    async def main() -> None:
        async def refuse_once(response_stream: Exchange) -> None:
            if len(raw.asked(method=DISCOVER)) == 1:
                await response_stream.error(-32022, 400, data={"supported": [E], "requested": E})
            else:
                await server.usual(response_stream)

        server = Mcp(LATEST, {DISCOVER: refuse_once})
        async with serve(server) as raw:
            async with mcprev.connect(mcprev.http(raw.url)) as client:
                assert client.revision == E
            assert said(raw) == [DISCOVER, DISCOVER]

    run(main())


@req("NEG-6", everywhere=True)
@pytest.mark.parametrize("status", [502, 504])
@pytest.mark.parametrize("options", [{}, {"era": Era.STATELESS}, {"mode": E}], ids=str)
def test_a_gateway_without_a_server_is_told_as_it_is(status: int, options: dict[str, Any]) -> None:
    """What a gateway says at a probe may be of a server with sessions that hung up, unless it is known to have none."""

    async def main() -> None:
        async def answer(exchange: Exchange) -> None:
            await exchange.respond(status)

        async with serve(answer) as raw:
            with pytest.raises(HttpStatusError) as caught:
                await mcprev.connect(mcprev.http(raw.url), **options)
            assert caught.value.status == status
            assert said(raw) == [DISCOVER] + ["initialize"] * (not options)
            assert VERDICTS.get(raw.url) is None

    run(main())


@pytest.mark.parametrize("status", [401, 403, 429, 503])
@pytest.mark.parametrize("at", ["probe", "initialize"])
@req("NEG-6")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_a_login_or_a_busy_server_says_nothing_of_the_era(row: Revision, at: str, status: int) -> None:
    """NEG-6: it is told as it is, and nothing else is asked."""

    async def main() -> None:
        async def answer(response_stream: Exchange) -> None:
            if at == "initialize" and response_stream.method == DISCOVER:
                await response_stream.respond(400)
            else:
                await response_stream.respond(status, b"", {"WWW-Authenticate": "Bearer"})

        async with serve(answer) as raw:
            with pytest.raises(mcprev.TokenRejected if status == 401 else HttpStatusError) as caught:
                await mcprev.connect(mcprev.http(raw.url))
            error = caught.value.__cause__ if status == 401 else caught.value
            assert isinstance(error, HttpStatusError)
            assert error.status == status
            assert error.headers["www-authenticate"] == "Bearer"
            assert said(raw) == ([DISCOVER] if at == "probe" else [DISCOVER, "initialize"])
            assert VERDICTS.get(raw.url) is None

    del row
    run(main())


@req("NEG-6", everywhere=True)
def test_a_server_of_nothing() -> None:
    """NEG-6: every way was tried, and the error says what came of each."""

    async def main() -> None:
        async def answer(response_stream: Exchange) -> None:
            await response_stream.respond(404, b"nothing here")

        async with serve(answer) as raw:
            with pytest.raises(NegotiationError) as caught:
                await mcprev.connect(mcprev.http(raw.url))
            assert said(raw) == [DISCOVER, "initialize", "GET"]
            assert len(caught.value.evidence) == 3
            assert all("404" in line for line in caught.value.evidence)
            assert isinstance(caught.value.__cause__, HttpStatusError)

    run(main())


@req("NEG-6", "SSE-8", everywhere=True)
@pytest.mark.parametrize("broken", ["html", "silent", "cut", "elsewhere"])
def test_a_stream_that_does_not_say_where_to_post(broken: str) -> None:
    async def main() -> None:
        async def answer(response_stream: Exchange) -> None:
            if response_stream.verb == "POST":
                await response_stream.respond(405)
            elif broken == "html":
                await response_stream.respond(200, b"<html>", {"Content-Type": "text/html"})
            elif broken == "elsewhere":
                await response_stream.stream()
                await response_stream.send(b"event: endpoint\ndata: https://evil.example/x\n\n")
                await response_stream.gone.wait()
            else:
                await response_stream.stream()
                if broken == "cut":
                    response_stream.cut()
                else:
                    await response_stream.gone.wait()

        async with serve(answer) as raw:
            target = mcprev.http(raw.url, connect_timeout=5)
            with pytest.raises(mcprev.McpError) as caught:
                await passing(5, mcprev.connect(target), lambda: len(raw.asked()) == 2)
            assert not isinstance(caught.value, ConnectionLost) or broken in ("silent", "cut")
            assert len(raw.asked()) == 2

    run(main())


# -- what is remembered ----------------------------------------------------------------------------------


@req("NEG-7")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_a_verdict_saves_asking_the_next_time(row: Revision) -> None:
    async def main() -> None:
        server = Mcp(row) if row is not OLDEST else OldMcp(row)
        async with serve(server) as raw:
            for _ in range(3):
                async with mcprev.connect(mcprev.http(raw.url)) as client:
                    assert client.revision == row.name
            opened = "initialize" if row.handshake else DISCOVER
            again = ["GET", "initialize"] if row is OLDEST else [opened]
            found = [step for step in said(raw) if step != "GET" or row is OLDEST]
            first = [DISCOVER, "initialize", "GET", "initialize"] if row is OLDEST else [DISCOVER, opened]
            assert found == [*(first if row.handshake else [DISCOVER]), *again, *again]
            # It belongs to the endpoint and not to the host.
            assert VERDICTS.get(raw.url.replace("/mcp", "/other")) is None

    run(main())


@pytest.mark.parametrize("before", DEFAULT, ids=lambda row: f"before-{row.name}")
@pytest.mark.parametrize("row", [DEFAULT[0], ROW_D, DEFAULT[-1]], ids=lambda row: row.name)
@req("NEG-7", at=NAMES)
def test_a_verdict_that_does_not_hold_any_more_is_forgotten(before: Revision, row: Revision) -> None:
    """NEG-7: the server was replaced by one of another revision, of another era, or of another transport."""

    async def main() -> None:
        def speaks(which: Revision) -> Any:
            return OldMcp(which) if which is OLDEST else Mcp(which)

        now = [speaks(before)]

        async def answer(response_stream: Exchange) -> None:
            if (
                response_stream.method == "initialize"
                and isinstance(now[0], Mcp)
                and not now[0].revision.handshake
            ):
                await response_stream.error(-32601, 404)
            else:
                await now[0](response_stream)

        async with serve(answer) as raw:
            async with mcprev.connect(mcprev.http(raw.url)) as client:
                assert client.revision == before.name
            now[0] = speaks(row)
            async with mcprev.connect(mcprev.http(raw.url)) as client:
                assert client.revision == row.name

    run(main())


@req("NEG-7", everywhere=True)
def test_what_a_client_did_not_ask_is_not_remembered() -> None:
    """NEG-7: that a client wanted a session says nothing of what the server speaks besides."""

    async def main() -> None:
        async with serve(Mcp(ROW_D)) as raw:
            async with mcprev.connect(mcprev.http(raw.url), mode="legacy"):
                pass
            assert VERDICTS.get(raw.url) is None

    run(main())


@req("NEG-12", at=E)
def test_a_prior_discovery_needs_no_request_at_all() -> None:
    async def main() -> None:
        async with connected(LATEST, {"tools/call": text("x"), "tools/list": {"tools": []}}) as (
            client,
            _,
            raw,
        ):
            result = client.capabilities.to_wire()
            from mcprev_types.latest import models as m

            prior = m.DiscoverResult.from_wire(
                {"supportedVersions": [E], "capabilities": result, "ttlMs": 0, "cacheScope": "private"}
            )
            raw.seen.clear()
            async with mcprev.connect(mcprev.http(raw.url), prior=prior) as second:
                assert raw.seen == []
                await second.call_tool("t")
                assert raw.asked(method=DISCOVER) == []

    run(main())
