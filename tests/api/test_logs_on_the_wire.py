"""Log messages: who gets which, by the session's level or by the request's (LOG-1, LOG-2, LOG-3, LOG-5, CONV-39)."""

from __future__ import annotations

from typing import Any, Final, cast

import pytest

import mcprev
from api.scripted import giving, server, text
from api.wire import LOG_LEVEL, Json, Message, each_session, served, serving
from helpers.raw_server import Exchange, Mcp, serve
from helpers.requirements import E, req
from helpers.running import run
from mcprev.protocol.engine import LEVELS
from mcprev.revisions import LATEST, Revision
from mcprev_types.latest import models as m

MESSAGE: Final = "notifications/message"
CALL: Final[Message] = {"name": "t"}


async def log_all(ctx: mcprev.Context, params: Any) -> m.CallToolResult:
    for level in LEVELS:
        await ctx.log(level, {"at": level}, "here")
    return text("done")


def logging_server() -> mcprev.Server:
    return server(call_tool=log_all, list_tools=giving(m.ListToolsResult(tools=[])))


def levels(messages: list[Message]) -> list[Json]:
    return [params["level"] for params in messages]


@req("LOG-1", everywhere=True)
def test_the_levels_are_those_of_syslog() -> None:
    wanted = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
    assert wanted == LEVELS


@req("LOG-1", "LIFE-11")
def test_whoever_can_log_says_so(row: Revision) -> None:
    async def main() -> None:
        async with served(logging_server(), row) as client:
            assert client.hello["capabilities"]["logging"] == {}
        async with served(mcprev.Server(mcprev.ServerHandler(), "s", "1"), row) as client:
            assert "logging" not in client.hello["capabilities"]
            assert (await client.ask("logging/setLevel", {"level": "info"})).code == -32601

    run(main())


@each_session
@req("LOG-2", "LOG-5")
def test_a_session_has_a_level(row: Revision) -> None:
    """A warning is what it begins with; other sessions have levels of their own."""
    made = logging_server()

    async def main() -> None:
        async with served(made, row) as one, served(made, row) as other:
            first = await one.ask("tools/call", CALL)
            assert first.notified(MESSAGE)[0] == {
                "level": "warning",
                "data": {"at": "warning"},
                "logger": "here",
            }
            assert levels(first.notified(MESSAGE)) == list(LEVELS[3:])
            for number, level in enumerate(LEVELS):
                assert (await one.ask("logging/setLevel", {"level": level})).result == {}
                found = (await one.ask("tools/call", CALL)).notified(MESSAGE)
                assert levels(found) == list(LEVELS[number:])
            assert levels((await other.ask("tools/call", CALL)).notified(MESSAGE)) == list(LEVELS[3:])

    run(main())


@each_session
@req("LOG-2")
@pytest.mark.parametrize("level", ["loud", "", "INFO", None, 5, [], {}, ["info"]])
def test_an_unknown_level_is_refused_and_changes_nothing(row: Revision, level: Json) -> None:
    async def main() -> None:
        async with served(logging_server(), row) as client:
            assert (await client.ask("logging/setLevel", {"level": level})).code == -32602
            assert (await client.ask("logging/setLevel")).code == -32602
            assert levels((await client.ask("tools/call", CALL)).notified(MESSAGE)) == list(LEVELS[3:])

    run(main())


@req("LOG-3", "LOG-5", at=E)
def test_only_a_request_that_asks_for_it_is_logged_for() -> None:
    async def main() -> None:
        async with served(logging_server(), LATEST) as client:
            for number, level in enumerate(LEVELS):
                assert (await client.ask("tools/call", CALL)).before == []
                answer = await client.ask("tools/call", CALL, meta={LOG_LEVEL: level})
                assert levels(answer.notified(MESSAGE)) == list(LEVELS[number:])
            wrongs: tuple[Json, ...] = ("loud", 5, [], True)
            for wrong in wrongs:
                answer = await client.ask("tools/call", CALL, meta={LOG_LEVEL: wrong})
                assert (answer.code, answer.before) == (-32602, [])
            assert await client.settle() == [
                message for message in client.got if message.get("method") == MESSAGE
            ], "all of it came with its request"

    run(main())


@req("LOG-3")
def test_nothing_is_logged_once_the_request_is_over() -> None:
    kept: list[mcprev.Context] = []

    async def call(ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        kept.append(ctx)
        return text("done")

    async def main() -> None:
        async with served(server(call_tool=call), LATEST) as client:
            await client.ask("tools/call", CALL, meta={LOG_LEVEL: "debug"})
            await kept[0].log("emergency", "late")
            assert await client.settle() == []

    run(main())


@req("LOG-5", "CONV-39")
def test_a_client_says_from_which_level_on(row: Revision) -> None:
    """Once for the session and only when it changes, or with each request."""

    async def main() -> None:
        script: Any = {"tools/call": {"content": []}, "tools/list": {"tools": []}}
        async with serving(row, script) as (client, hand):
            await client.list_tools()
            await client.call_tool("t", log_level="info")
            await client.call_tool("t", log_level="info")
            await client.set_log_level("error")
            await client.set_log_level("error")
            await client.call_tool("t")
            sent = [
                (
                    request["method"],
                    request["params"].get("_meta", {}).get(LOG_LEVEL, request["params"].get("level")),
                )
                for request in hand.requests
            ]
        if row.handshake:
            assert sent == [
                ("tools/list", None), ("logging/setLevel", "info"), ("tools/call", None), ("tools/call", None),
                ("logging/setLevel", "error"), ("tools/call", None),
            ]  # fmt: skip
        else:
            assert sent == [
                ("tools/list", None),
                *(("tools/call", level) for level in ("info", "info", "error")),
            ]

    run(main())


@req("LOG-5", "SEAM-1")
def test_a_client_hears_what_is_logged(row: Revision) -> None:
    heard: list[Json] = []

    class Hearing(mcprev.ClientHandler):
        async def logging_message(self, ctx: Any, params: m.LoggingMessageNotificationParams) -> None:
            heard.append((params.level, params.data, params.logger))

    async def main() -> None:
        def call(_: Message) -> Message:
            hand.tell(MESSAGE, {"level": "notice", "data": [None, "x"], "logger": "l"})
            hand.tell(MESSAGE, {"level": "loud", "data": 1})
            return {"content": []}

        async with serving(row, {"tools/call": call}, handler=Hearing()) as (client, hand):
            await client.call_tool("t", log_level="debug")
            await client.ping()
            assert heard == [("notice", [None, "x"], "l")]

    run(main())


class Reader(mcprev.ClientHandler):
    def __init__(self) -> None:
        self.levels: list[str] = []

    async def logging_message(
        self, ctx: mcprev.ClientContext, params: m.LoggingMessageNotificationParams
    ) -> None:
        self.levels.append(params.level)


@req("LOG-5", "CONV-39")
@each_session
def test_a_level_holds_where_the_server_cannot_be_told(row: Revision) -> None:
    """A server that logs without saying so sends everything; the caller reads what it asked for."""

    async def main() -> None:
        handler = Reader()
        replies: dict[str, Any] = {"tools/call": {"content": []}}
        async with serving(row, replies, capabilities={"tools": {}}, handler=handler) as (client, hand):
            wanted: tuple[m.LoggingLevel, ...] = ("error", "info")
            for least in wanted:
                await client.call_tool("t", log_level=least)
                handler.levels.clear()
                for level in LEVELS:
                    hand.tell(MESSAGE, {"level": level, "data": 1})
                await client.ping()
                assert handler.levels == list(LEVELS[LEVELS.index(least) :])
            with pytest.raises(ValueError, match="'loud' is not a log level"):
                await client.call("tools/call", {"name": "t"}, log_level=cast("Any", "loud"))

    run(main())


@req("LOG-5", at=E)
def test_a_message_that_is_not_valid_is_said_to_be_the_servers_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    got: list[object] = []

    async def logs(exchange: Exchange) -> None:
        await exchange.stream()
        for level in ("loud\x1b[31m", "info"):
            params = {"level": level, "data": "secret"}
            await exchange.event({"jsonrpc": "2.0", "method": MESSAGE, "params": params})
        result: dict[str, Any] = {"resultType": "complete", "content": []}
        await exchange.event({"jsonrpc": "2.0", "id": exchange.message["id"], "result": result})
        await exchange.end()

    async def main() -> None:
        async with (
            serve(Mcp(LATEST, {"tools/call": logs})) as raw,
            mcprev.connect(raw.url, logging=lambda message: got.append(message.data)) as client,
        ):
            await client.call_tool("t")

    run(main())
    assert got == ["secret"]
    (said,) = [record for record in caplog.records if MESSAGE in record.getMessage()]
    assert said.getMessage().startswith(
        f"the peer's '{MESSAGE}' is not valid and was ignored: Invalid params: level: "
    )
    assert said.exc_info is None
    assert "secret" not in caplog.text
    assert "\x1b" not in caplog.text
