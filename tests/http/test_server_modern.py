"""The server over HTTP in the stateless era: POST only, each request by itself (HTTPM-*, HDR-*, ERR-6, AMB-6 to 9)."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable
from typing import Any

import pytest

import mcprev
from helpers.asgi_bridge import PREFIX, Client, modern, notification, request
from helpers.requirements import D, E, req
from helpers.running import Records, until
from helpers.served import QUICK, REGION, Served, server_of, who, work
from mcprev.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    HeaderMismatch,
)
from mcprev.protocol.tasks import EXTENSION
from mcprev.revisions import revision_named
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev_types.latest import models as m

Make = Callable[..., AsgiApp]
ROW = revision_named(E)


@req("HTTPM-4", "HTTPM-9", at=E)
def test_an_answer_that_comes_soon_and_alone_is_json() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        answer = await client.call("echo", {"x": 1}, "id-1").done()
        assert (answer.status, answer.json["id"]) == (200, "id-1")
        assert answer.text == "{'x': 1}"
        assert answer.result["resultType"] == "complete"

    work(test)


@req("HTTPM-4", "HTTPM-5", "HTTPM-8", "LOG-3", "PROG-3", at=E)
def test_what_comes_before_the_answer_makes_it_a_stream_without_ids() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        answer = await client.call("log", id_=7, logLevel="info").done()
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["x-accel-buffering"] == "no"
        assert [message.get("method", "answer") for message in answer.messages] == [
            "notifications/message",
            "notifications/message",
            "answer",
        ]
        assert answer.messages[-1]["id"] == 7
        assert all(event.id is None for event in answer.events)
        answer = await client.call("progress", progressToken="p").done()
        assert [message["params"]["progress"] for message in answer.messages[:-1]] == [1, 2]
        assert (await client.call("log").done()).json["result"]["content"][0]["text"] == "done"

    work(test)


@req("HTTPM-9", "HTTPM-5", at=E)
def test_an_answer_that_takes_long_becomes_a_stream_that_is_kept_awake() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(defer=QUICK, heartbeat=QUICK)).open(ROW)
        waiting = await client.call("quiet").begun()
        assert waiting.headers["content-type"] == "text/event-stream"
        await until(lambda: waiting.body.count(b": \n\n") >= 2)
        handler.gate.set()
        answer = await waiting.done()
        assert answer.text == "quiet"
        assert len(answer.events) == 1

    work(test)


@req("HTTPM-4", "HTTPM-9", at=E)
@pytest.mark.parametrize(
    ("accept", "option", "expected"),
    [
        ("application/json", None, "application/json"),
        ("text/event-stream", None, "text/event-stream"),
        (None, None, "application/json"),
        ("*/*", False, "text/event-stream"),
        ("application/json, text/event-stream", False, "text/event-stream"),
        ("application/json, text/event-stream", True, "application/json"),
        ("application/json", False, "application/json"),
        ("text/event-stream", True, "text/event-stream"),
    ],
)
def test_the_format_is_one_that_the_client_reads(
    accept: str | None, option: bool | None, expected: str
) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(json_response=option)).open(ROW)
        params: dict[str, Any] = {"name": "echo", "arguments": {}}
        answer = await modern(client, ROW, "tools/call", params, headers={"accept": accept}).done()
        assert answer.headers["content-type"] == expected
        assert answer.text == "{}"
        # What cannot be streamed is left out, and the answer is there all the same.
        params = {"name": "log", "arguments": {}}
        answer = await modern(
            client, ROW, "tools/call", params, headers={"accept": accept}, logLevel="debug"
        ).done()
        assert answer.text == "done"

    work(test)


@req("HTTPM-9", "ERR-6", at=E)
def test_an_error_has_its_status_also_where_streams_are_preferred() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(json_response=False)).open(ROW)
        answer = await client.request("no/such/method").done()
        assert (answer.status, answer.error["code"]) == (404, METHOD_NOT_FOUND)

    work(test)


@req("HTTPM-6", at=E)
@pytest.mark.parametrize("tool", ["wait", "hold", "stubborn"])
def test_closing_the_connection_cancels_the_request_and_no_other(tool: str) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(defer=QUICK)).open(ROW)
        other = client.call("quiet", id_=1)
        mine = client.call(tool, id_=1, logLevel="debug")
        await until(lambda: handler.started.is_set() or handler.running == 2)
        mine.disconnect()
        await mine.done()
        assert not mine.messages or "result" not in mine.messages[-1]
        await until(lambda: handler.running == 1)
        handler.gate.set()
        assert (await other.done()).text == "quiet"

    work(test)


@req("HTTPM-6", at=E)
def test_a_request_that_waits_for_json_is_cancelled_too() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(defer=QUICK, json_response=True)).open(ROW)
        mine = client.call("wait")
        await handler.started.wait()
        mine.disconnect()
        await handler.stopped.wait()
        await mine.done()
        assert mine.status == 0

    work(test)


@req("HTTPM-1", at=E)
@pytest.mark.parametrize("verb", ["GET", "DELETE", "PUT", "OPTIONS", "HEAD", "PATCH"])
def test_there_is_only_post(verb: str) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        answer = await client.send(verb).done()
        assert (answer.status, answer.headers["allow"]) == (405, "POST")

    work(test, revisions=[ROW.name])


@req("HTTPM-1", "HTTPM-8", at=E)
def test_session_and_event_ids_are_ignored_and_none_is_made() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        headers = {"mcp-session-id": "nobody's", "last-event-id": "1-1"}
        answer = await modern(client, ROW, "server/discover", headers=headers).done()
        assert answer.status == 200
        assert "mcp-session-id" not in answer.headers

    work(test)


@req("HTTPM-3", "AMB-8", "AMB-9", at=E)
@pytest.mark.parametrize("headers", [{}, {"mcp-method": "notifications/x"}])
def test_notifications_are_accepted(headers: dict[str, str]) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        for method in ("notifications/cancelled", "notifications/com.example/x"):
            params = {"requestId": 1, "_meta": {PREFIX + "protocolVersion": ROW.version}}
            answer = await client.post(
                notification(method, params), {"mcp-protocol-version": ROW.version, **headers}
            ).done()
            assert (answer.status, answer.body) == (202, b"")

    work(test)


@req("HTTPM-6", "CANC-3", at=E)
def test_a_notification_cancels_nobodys_request() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        running = client.call("quiet", id_=5)
        await until(lambda: handler.running == 1)
        params = {"requestId": 5, "_meta": {PREFIX + "protocolVersion": ROW.version}}
        await client.post(
            notification("notifications/cancelled", params), {"mcp-protocol-version": ROW.version}
        ).done()
        handler.gate.set()
        assert (await running.done()).text == "quiet"

    work(test)


@req("BASE-4", "BASE-5", "HTTPM-4", at=E)
def test_clients_with_the_same_id_get_their_own_answers() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        running = [client.call("hold", {"n": n}, 1, logLevel="debug") for n in range(20)]
        await until(lambda: handler.running == 20)
        handler.gate.set()
        for n, response_stream in enumerate(running):
            answer = await response_stream.done()
            assert answer.text == str({"n": n})
            assert answer.messages[0]["params"]["data"] == {"holding": {"n": n}}

    work(test)


@req("BASE-12", at=E)
def test_a_response_is_refused() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        answer = await client.post(
            {"jsonrpc": "2.0", "id": 1, "result": {}}, {"mcp-protocol-version": ROW.version}
        ).done()
        assert (answer.status, answer.json["error"]["code"]) == (400, INVALID_REQUEST)
        assert "id" not in answer.json

    work(test)


BAD_BODIES: list[tuple[bytes, int]] = [
    (b"", PARSE_ERROR),
    (b"{", PARSE_ERROR),
    (b"\xff\xfe", PARSE_ERROR),
    (b"[]", INVALID_REQUEST),
    (b'[{"jsonrpc":"2.0","id":1,"method":"x"}]', INVALID_REQUEST),
    (b"1", INVALID_REQUEST),
    (b'{"jsonrpc":"1.0","id":1,"method":"x"}', INVALID_REQUEST),
    (b'{"jsonrpc":"2.0","id":null,"method":"x"}', INVALID_REQUEST),
    (b'{"jsonrpc":"2.0","id":true,"method":"x"}', INVALID_REQUEST),
    (b'{"jsonrpc":"2.0","id":1,"method":"x","params":[]}', INVALID_PARAMS),
]


@req("BASE-10", "BASE-7", "BASE-2", "BATCH-6", "ERR-6", at=E)
@pytest.mark.parametrize(("body", "code"), BAD_BODIES)
def test_what_is_no_message_is_refused_with_400(body: bytes, code: int) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        answer = await client.send("POST", body, {"mcp-protocol-version": ROW.version}).done()
        assert (answer.status, answer.json["error"]["code"]) == (400, code)
        assert answer.json.get("id", None) in ((1, None) if b'"id":1' in body else (None,))

    work(test)


UNREAD: list[tuple[str, int]] = [
    ("1e999", PARSE_ERROR),
    ("9" * 5000, PARSE_ERROR),
    ("[" * 300 + "]" * 300, PARSE_ERROR),
    ("[" + "{}," * 600_000 + "{}]", INVALID_REQUEST),
]


@req("BASE-10", "BASE-7", "SEC-6", "ERR-6", everywhere=True)
@pytest.mark.parametrize(("value", "code"), UNREAD, ids=lambda part: str(part)[:5])
def test_what_is_refused_unread_is_refused_with_its_id(value: str, code: int) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        body = f'{{"params":{{"n":{value}}},"jsonrpc":"2.0","id":7,"method":"tools/call"}}'
        answer = await client.send("POST", body.encode(), {"mcp-protocol-version": ROW.version}).done()
        assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (400, code, 7)

    work(test)


def pre_dispatch() -> list[tuple[str, dict[str, Any], dict[str, str | None], int, int]]:
    """Requests that are refused before anybody serves them: method, `_meta`, headers, and what to expect (AMB-6)."""
    stamp: dict[str, Any] = {PREFIX + "protocolVersion": ROW.version, PREFIX + "clientCapabilities": {}}
    ok: dict[str, str | None] = {"mcp-protocol-version": ROW.version}
    future = {**stamp, PREFIX + "protocolVersion": "v999.0.0"}
    bare = {PREFIX + "protocolVersion": ROW.version}
    return [
        # the shape of _meta comes before everything else
        ("server/discover", {}, {**ok, "mcp-method": "x"}, 400, INVALID_PARAMS),
        ("server/discover", bare, {**ok, "mcp-method": "x"}, 400, INVALID_PARAMS),
        ("no/such", bare, {**ok, "mcp-method": "no/such"}, 400, INVALID_PARAMS),
        # then the headers
        ("server/discover", stamp, {**ok, "mcp-method": "x"}, 400, HEADER_MISMATCH),
        ("server/discover", stamp, {**ok, "mcp-method": None}, 400, HEADER_MISMATCH),
        ("server/discover", stamp, {"mcp-method": "server/discover"}, 400, HEADER_MISMATCH),
        ("server/discover", future, {**ok, "mcp-method": "server/discover"}, 400, HEADER_MISMATCH),
        ("no/such", stamp, {**ok, "mcp-method": "NO/SUCH"}, 400, HEADER_MISMATCH),
        # then the version
        ("no/such", future, {"mcp-protocol-version": "v999.0.0", "mcp-method": "no/such"}, 400, UNSUPPORTED_PROTOCOL_VERSION),
        # then capabilities, then the method
        ("prompts/list", stamp, {**ok, "mcp-method": "prompts/list"}, 400, MISSING_CLIENT_CAPABILITY),
        ("no/such", stamp, {**ok, "mcp-method": "no/such"}, 404, METHOD_NOT_FOUND),
        ("ping", stamp, {**ok, "mcp-method": "ping"}, 404, METHOD_NOT_FOUND),
        ("initialize", stamp, {**ok, "mcp-method": "initialize"}, 404, METHOD_NOT_FOUND),
        ("logging/setLevel", stamp, {**ok, "mcp-method": "logging/setLevel"}, 404, METHOD_NOT_FOUND),
        ("resources/subscribe", stamp, {**ok, "mcp-method": "resources/subscribe"}, 404, METHOD_NOT_FOUND),
    ]  # fmt: skip


@req("ERR-6", "AMB-6", "MOD-3", "MOD-4", "MOD-6", "MOD-14", "HDR-1", "HDR-3", "HDR-4", at=E)
def test_refusals_have_their_status_code_and_id_in_the_order_of_the_ladder() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        for number, (method, meta, headers, status, code) in enumerate(pre_dispatch()):
            params = {"_meta": meta} if meta else None
            answer = await client.post(request(method, params, f"id-{number}"), headers).done()
            assert (answer.status, answer.error["code"]) == (status, code), (method, meta, headers)
            assert answer.json["id"] == f"id-{number}"
            if code == UNSUPPORTED_PROTOCOL_VERSION:
                assert ROW.version in answer.error["data"]["supported"]
                assert answer.error["data"]["requested"] == "v999.0.0"

    work(test, requires={"prompts/list": m.ClientCapabilities(roots={})})


@req("AMB-7", "ERR-6", at=E)
@pytest.mark.parametrize(
    ("tool", "code", "failed"),
    [("error", -31000, None), ("crash", None, True), ("tries", None, None), ("invalid", None, True)],
)
def test_what_a_handler_answers_has_status_200(tool: str, code: int | None, failed: bool | None) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        answer = await client.call(tool).done()
        assert answer.status == 200
        assert answer.json.get("error", {}).get("code") == code
        assert answer.json.get("result", {}).get("isError") == failed
        assert b"secret" not in answer.body
        unserved = await client.request("tools/call", {"arguments": {}}).done()
        assert (unserved.status, unserved.error["code"]) == (200, INVALID_PARAMS)

    work(test)


@req("MOD-6", "ERR-6", at=E)
def test_a_handler_that_misses_a_capability_gets_400() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        answer = await client.call("ask").done()
        assert (answer.status, answer.error["code"]) == (400, MISSING_CLIENT_CAPABILITY)
        assert answer.error["data"]["requiredCapabilities"] == {"elicitation": {"form": {}}}

    work(test)


# -- headers ---------------------------------------------------------------------------------------------


def encoded(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@req("HDR-2", "HDR-3", "HDR-4", "HDR-5", at=E)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"mcp-name": "echo"}, 200),
        ({"mcp-name": "  echo\t"}, 200),
        ({"mcp-name": encoded("echo")}, 200),
        ({"mcp-name": "Echo"}, 400),
        ({"mcp-name": "=?base64?!!!?="}, 400),
        ({"mcp-name": "=?base64?ZWNobw?="}, 400),
        ({"mcp-name": None}, 400),
        ({"mcp-name": ""}, 400),
        ({"mcp-name": "ech\u00f6"}, 400),
        ({"mcp-method": "TOOLS/CALL"}, 400),
        ({"mcp-method": None}, 400),
        ({"mcp-protocol-version": None}, 400),
        ({"mcp-protocol-version": D}, 400),
    ],
)
def test_routing_headers_are_compared_after_decoding(headers: dict[str, str | None], status: int) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        answer = await modern(
            client, ROW, "tools/call", {"name": "echo", "arguments": {}}, 3, headers=headers
        ).done()
        assert answer.status == status
        assert answer.json["id"] == 3
        if status == 400:
            assert answer.error["code"] == HEADER_MISMATCH

    work(test)


@req("HDR-3", at=E)
def test_a_routing_header_that_is_there_twice_is_refused() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()

        async def twice(scope: Any, receive: Any, send: Any) -> None:
            await app(
                {**scope, "headers": [*scope["headers"], (b"mcp-method", b"tools/call")]}, receive, send
            )

        client = await Client(twice).open(ROW)
        answer = await client.call("echo").done()
        assert (answer.status, answer.error["code"]) == (400, HEADER_MISMATCH)

    work(test)


@req("HDR-8", "HDR-5", "HDR-6", at=E)
@pytest.mark.parametrize(
    ("arguments", "headers", "status"),
    [
        ({}, {}, 200),
        ({"region": "eu"}, {"mcp-param-region": "eu"}, 200),
        ({"region": "eu"}, {"mcp-param-region": encoded("eu")}, 200),
        ({"region": "\u00e9"}, {"mcp-param-region": encoded("\u00e9")}, 200),
        ({"region": "=?base64?x"}, {"mcp-param-region": "=?base64?x"}, 200),
        ({"region": ""}, {"mcp-param-region": ""}, 200),
        ({"size": 42}, {"mcp-param-size": "42.0"}, 200),
        ({"region": "eu"}, {"mcp-param-region": "eu", "mcp-param-other": "x"}, 200),
        ({"region": "eu"}, {}, 400),
        ({"region": "eu"}, {"mcp-param-region": "EU"}, 400),
        ({"region": "eu"}, {"mcp-param-region": "=?base64?e*?="}, 400),
        ({}, {"mcp-param-region": "eu"}, 400),
        ({"size": 42}, {"mcp-param-size": "43"}, 400),
        ({"size": 42}, {"mcp-param-size": "x"}, 400),
    ],
)
def test_headers_of_arguments_are_compared_as_the_listed_schema_says(
    arguments: dict[str, Any], headers: dict[str, str], status: int
) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        answer = await modern(
            client, ROW, "tools/call", {"name": "region", "arguments": arguments}, headers=headers
        ).done()
        assert answer.status == status, answer.body
        if status == 400:
            assert answer.error["code"] == HEADER_MISMATCH

    for validate in (True, False):
        work(test, validate=validate)


@req("HDR-8", "HDR-3", at=E)
def test_headers_of_a_tool_that_is_not_listed_are_not_compared() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        for headers in ({}, {"mcp-param-region": "us"}):
            params = {"name": "echo", "arguments": {"region": "eu"}}
            assert (await modern(client, ROW, "tools/call", params, headers=headers).done()).status == 200
        answer = await modern(client, ROW, "tools/call", {"name": 7}, headers={"mcp-name": None}).done()
        assert answer.error["code"] == INVALID_PARAMS

    for validate in (True, False):
        work(test, validate=validate)


@req("HDR-8", "ERR-6", "HTTPM-9", at=E)
def test_a_refusal_keeps_its_status_however_long_and_loud_the_listing_of_the_tools_is() -> None:
    async def test(handler: Served, make: Make) -> None:
        listed = asyncio.Event()

        async def list_tools(ctx: mcprev.Context, params: Any) -> m.ListToolsResult:
            await ctx.log("error", "listing")
            await listed.wait()
            return m.ListToolsResult(tools=handler.tools)

        handler.list_tools = list_tools  # type: ignore[method-assign]
        app = make(defer=QUICK, heartbeat=QUICK)
        client = await Client(app).open(ROW)
        bad, loud, quiet = (
            client.call(tool, {"region": "eu"}, logLevel="debug") for tool in ("region", "hold", "quiet")
        )
        await until(lambda: sum(call.awaited for call in (bad, loud, quiet)) == 3)
        listed.set()
        assert ((await bad.done()).status, bad.error["code"]) == (400, HEADER_MISMATCH)
        (said,) = await loud.heard(1)
        assert said["params"]["data"] == {"holding": {"region": "eu"}}, "what the listing said is dropped"
        assert (await quiet.begun()).headers["content-type"] == "text/event-stream"
        handler.gate.set()
        assert [(await call.done()).status for call in (loud, quiet)] == [200, 200]

    for validate in (True, False):
        work(test, validate=validate)


@req("HDR-8", at=E)
def test_a_schema_that_changed_in_silence_is_asked_for_before_a_call_is_refused() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        params = {"name": "region", "arguments": {"region": "eu"}}
        assert (
            await modern(client, ROW, "tools/call", params, headers={"mcp-param-region": "eu"}).done()
        ).status == 200
        handler.tools = [m.Tool(name="region", input_schema=m.ToolInputSchema())]
        assert (await modern(client, ROW, "tools/call", params).done()).status == 200
        lists = handler.lists
        handler.tools = [m.Tool(name="region", input_schema=REGION)]
        server_of(client.app).changed("tools")
        for _ in range(5):
            # Those that do not fit cannot have the tools listed each time.
            assert (await modern(client, ROW, "tools/call", params).done()).status == 400
        assert handler.lists <= lists + 2

    work(test)


@req("HDR-8", "MOD-11", at=E)
@pytest.mark.parametrize("failure", [RuntimeError("secret"), HeaderMismatch("of a server behind this one")])
def test_a_list_that_fails_or_differs_by_principal_harms_nobody(failure: Exception) -> None:
    async def test(handler: Served, make: Make) -> None:
        async def list_tools(ctx: Any, params: Any) -> m.ListToolsResult:
            if ctx.principal is None:
                raise failure
            return m.ListToolsResult(tools=handler.tools if ctx.principal == "a" else [])

        handler.list_tools = list_tools  # type: ignore[method-assign]
        app = make(principal=who)
        client = await Client(app).open(ROW)
        params = {"name": "region", "arguments": {"region": "eu"}}
        statuses = {
            who: (await modern(client, ROW, "tools/call", params, headers={"who": who}).done()).status
            for who in ("a", "b", "")
        }
        assert statuses == {"a": 400, "b": 200, "": 200}

    work(test, validate=False)


@req("HDR-2", "HDR-1", "TASKX-5", at=E)
def test_a_client_may_leave_the_name_of_a_task_to_the_body() -> None:
    """A widespread one does: that is counted and warned of once; a name that differs is refused."""
    able: dict[str, Any] = {"extensions": {EXTENSION: {}}}

    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        log, records = logging.getLogger("mcprev.transport.http"), Records()
        log.addHandler(records)
        try:
            for method in ("tasks/get", "tasks/cancel", "tasks/update"):
                for name, status in ((None, 200), ("t1", 200), ("other", 400), ("", 400)):
                    answer = await modern(
                        client,
                        ROW,
                        method,
                        {"taskId": "t1"},
                        headers={"mcp-name": name},
                        clientCapabilities=able,
                    ).done()
                    wanted = INVALID_PARAMS if status == 200 else HEADER_MISMATCH
                    assert (answer.status, answer.error["code"]) == (status, wanted), (method, name)
        finally:
            log.removeHandler(records)
        warned = [record.getMessage() for record in records.records if record.levelname == "WARNING"]
        assert warned == ["the peer sends requests about tasks without Mcp-Name: tasks/get"]
        (shared,) = server_of(client.app)._connections  # pyright: ignore[reportPrivateUsage]
        assert shared.tolerated_violations == {"requests about tasks without Mcp-Name": 3}

    work(test, tasks=mcprev.Tasks({}))


# -- listening -------------------------------------------------------------------------------------------


def listen(client: Client, id_: object = "L", **filter_: object) -> Any:
    return modern(client, ROW, "subscriptions/listen", {"notifications": filter_}, id_)


@req("SUB-2", "HTTPM-4", at=E)
def test_to_listen_is_to_read_a_stream() -> None:
    """Also where answers are JSON; a client that takes no stream is told at once."""

    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(json_response=True)).open(ROW)
        stream = listen(client, 1, toolsListChanged=True)
        await until(lambda: stream.messages)
        assert stream.headers["content-type"] == "text/event-stream"
        server_of(client.app).changed("tools")
        await until(lambda: len(stream.messages) == 2)
        stream.disconnect()
        await stream.done()
        params = {"notifications": {"toolsListChanged": True}}
        headers = {"accept": "application/json"}
        refused = await modern(client, ROW, "subscriptions/listen", params, headers=headers).done()
        assert (refused.status, refused.json["id"]) == (406, 1)
        assert "must accept text/event-stream" in refused.error["message"]
        assert (await client.call("echo").done()).headers["content-type"] == "application/json"

    work(test)


@req("SUB-2", "SUB-3", "SUB-6", "SUB-8", "META-7", "HTTPM-4", "HTTPM-5", at=E)
def test_listen_streams_carry_what_was_asked_for() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(ROW)
        tools = listen(client, 1, toolsListChanged=True)
        one = listen(client, 1, resourceSubscriptions=["a:1"])
        await tools.heard(1)
        await one.heard(1)
        await client.call("changed").done()
        assert [message["method"] for message in await tools.heard(2)] == [
            "notifications/subscriptions/acknowledged",
            "notifications/tools/list_changed",
        ]
        last = (await one.heard(2))[1]
        assert (last["method"], last["params"]["uri"]) == ("notifications/resources/updated", "a:1")
        for stream in (tools, one):
            assert all(
                message["params"]["_meta"][PREFIX + "subscriptionId"] == 1 for message in stream.messages
            )
            stream.disconnect()
            await stream.done()
        shared = client.app.dispatcher.shared
        await until(lambda: not shared.protocol.connection.incoming)

    work(test)


@req("SUB-4", "AMB-1", "HTTPM-4", at=E)
def test_a_server_that_stops_ends_listen_streams_with_their_result() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()
        client = await Client(app).open(ROW)
        stream = listen(client, 9, toolsListChanged=True)
        await stream.heard(1)
        await app.aclose()
        await stream.done()
        assert stream.messages[-1]["id"] == 9
        assert stream.messages[-1]["result"]["_meta"][PREFIX + "subscriptionId"] == 9
        assert (await client.call("echo").done()).status == 503

    work(test)


@pytest.mark.slow
@req("SEC-6", "SUB-8", at=E)
def test_a_listener_that_does_not_read_is_let_go() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(defer=QUICK)
        client = await Client(app).open(ROW)
        stream = listen(client, 1, resourceSubscriptions=["a:" + "x" * 4_000])
        await stream.heard(1)
        stream.reading.clear()
        for _ in range(3000):
            server_of(client.app).changed("resource", "a:" + "x" * 4_000)
        shared = app.dispatcher.shared
        await until(lambda: not shared.protocol.connection.incoming)
        stream.gone = True
        await stream.done()

    work(test)


@req("SEC-6", at=E)
def test_a_reader_who_takes_nothing_for_long_is_let_go() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(defer=QUICK, send_timeout=5 * QUICK)).open(ROW)
        streams = [client.call("flood", logLevel="debug"), client.call("echo", {"x": "y" * 100_000})]
        for stream in streams:
            stream.reading.clear()
            stream.gone = True
        await asyncio.gather(*(stream.task for stream in streams))
        assert len(handler.notes) < 500

    work(test)
