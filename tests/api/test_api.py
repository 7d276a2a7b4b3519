"""Server and client together over the memory transport, at every revision."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import mcprev
from api.authors import URLS, Everything, Helpful, Refusing
from api.transports import reach
from helpers.named import ROW_A, B, C, rows_since, rows_until
from helpers.requirements import req
from helpers.running import Records, run, until
from mcprev.errors import (
    ConnectionLost,
    InputDeclined,
    LocalProtocolError,
    MethodNotFound,
    MissingClientCapability,
    NegotiationError,
    RemoteProtocolError,
    RequestTimeout,
    ResourceNotFound,
    RpcError,
)
from mcprev.protocol.negotiation import steps as plan
from mcprev.revisions import ALL, DEFAULT, LATEST, Revision, TaskSupport, load
from mcprev_types.latest import dispatch, models as m

Work = Callable[[mcprev.Client, Everything], Awaitable[None]]
each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


def at(row: Revision, work: Work, *, handler: Any = None, server: Any = None, **options: Any) -> None:
    """Do something with a client that speaks a revision."""

    async def main() -> None:
        author = Everything()
        made = server or mcprev.Server(author, "everything", "1", instructions="use it", title="E")
        async with (
            reach(made, row) as target,
            mcprev.connect(target, handler=handler, mode=row.name, name="c", **options) as client,
        ):
            assert client.revision == row.name
            await work(client, author)

    run(main())


def said(result: m.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, m.TextContent)
    return block.text


# -- typed calls -----------------------------------------------------------------------------------------


@req("SEAM-1", "SEAM-7")
def test_every_method_of_the_latest_revision_can_be_called_in_its_types(row: Revision) -> None:
    """What the generated callers have, a client calls at any revision without a line written for it."""

    async def work(client: mcprev.Client, _: Everything) -> None:
        found = await client.calls.call_tool(
            m.CallToolRequestParams(meta=client.meta, name="echo", arguments={"a": 1})
        )
        assert isinstance(found, m.CallToolResult)
        assert said(found) == "{'a': 1}"
        listed = await client.calls.list_tools(m.PaginatedRequestParams(meta=client.meta))
        assert listed.tools == (await client.list_tools()).tools
        await client.calls.cancelled(m.CancelledNotificationParams(request_id="none"))
        assert set(dispatch.SERVER_BINDINGS) == {
            spec.method for spec in LATEST.methods.values() if hasattr(client.calls, spec.attr)
        } - set(dispatch.CLIENT_BINDINGS) | {"notifications/cancelled"}

    at(row, work)


# -- who speaks what -------------------------------------------------------------------------------------


@req("NEG-2", "NEG-13", "LIFE-3", "LIFE-4", everywhere=True)
@pytest.mark.parametrize("theirs", [*DEFAULT, None], ids=lambda r: r.name if r else "all")
@pytest.mark.parametrize("ours", [*DEFAULT, None], ids=lambda r: r.name if r else "all")
def test_every_pair_of_revision_sets(ours: Revision | None, theirs: Revision | None) -> None:
    """NEG-2, NEG-13, LIFE-3, LIFE-4: the newest common revision, or an error that names both sides'."""

    async def main() -> None:
        server = mcprev.Server(Everything(), "s", "1", revisions=[theirs.name] if theirs else None)
        target = mcprev.connect(mcprev.memory(server), revisions=[ours.name] if ours else None)
        common = [row for row in DEFAULT if (ours in (None, row)) and (theirs in (None, row))]
        if common:
            async with target as client:
                assert client.revision == common[-1].name
                assert said(await client.call_tool("echo", {"a": 1})) == "{'a': 1}"
        else:
            with pytest.raises(NegotiationError) as caught:
                async with target:
                    pass
            assert set(caught.value.ours) == {ours.version if ours else None}
            assert caught.value.evidence
        await until(lambda: not server._connections)

    run(main())


@req("SEAM-8")
def test_draft_only_when_named_seam_8() -> None:
    draft = ALL[-1].name

    async def main() -> None:
        server = mcprev.Server(Everything(), "s", "1", revisions=[draft])
        async with mcprev.connect(mcprev.memory(server), revisions=[draft]) as client:
            assert client.revision == draft
            assert said(await client.call_tool("echo")) == "None"
            assert client.server_info is not None

    run(main())


@req("LIFE-11", "LIFE-12", "LIFE-14", "MOD-2", "MOD-7", "SEAM-3")
@each_row
def test_introductions(row: Revision) -> None:
    """LIFE-11, LIFE-12, LIFE-14, MOD-2, MOD-7, SEAM-3: each side learns who the other is and what it can do."""

    async def work(client: mcprev.Client, author: Everything) -> None:
        assert client.server_info is not None
        assert client.server_info.name == "everything"
        assert client.instructions == "use it"
        tools, resources = client.capabilities.tools, client.capabilities.resources
        assert (tools is not None and tools.list_changed) is True
        assert (resources is not None and resources.subscribe) is True
        assert ("completions" in client.capabilities.to_wire()) is (row is not ROW_A)
        caps = ["roots", "sampling"] if row in rows_until(B) else ["elicitation", "roots", "sampling"]
        if row.tasks is TaskSupport.EXTENSION:
            caps.insert(1, "extensions")
        wanted = str([row.name, "c", caps, 7])
        assert said(await client.call_tool("who", meta={"com.example/x": 7})) == wanted

    at(row, work, handler=Helpful())


@req("LIFE-11", "LIFE-10", "SEAM-3")
@each_row
def test_an_empty_handler_advertises_nothing_life_11(row: Revision) -> None:
    class Nothing(mcprev.ServerHandler):
        pass

    async def work(client: mcprev.Client, author: Everything) -> None:
        assert client.capabilities.to_wire() == {}
        for method in ("tools/list", "resources/read", "prompts/get"):
            with pytest.raises(LocalProtocolError):
                await client.call(method, {})
            with pytest.raises(MethodNotFound):
                await client.raw(method, {})

    at(row, work, server=mcprev.Server(Nothing(), "s", "1"))


# -- tools, resources, prompts ---------------------------------------------------------------------------


@req("TOOL-1", "RES-1", "PROM-1", "COMP-1", "COMP-2", "PAGE-1")
@each_row
def test_every_method_of_a_server(row: Revision) -> None:
    """TOOL-1, RES-1, PROM-1, COMP-1, COMP-2, PAGE-1: typed in the latest revision at every other."""

    async def work(client: mcprev.Client, author: Everything) -> None:
        assert [tool.name async for tool in client.tools()] == ["tool0", "tool1", "tool2"]
        assert (await client.list_tools("1")).next_cursor == "2"
        assert said(await client.call_tool("echo", {"a": [1, None]})) == "{'a': [1, None]}"
        (resource,) = [found async for found in client.resources()]
        assert (resource.uri, resource.title) == ("a:1", "R" if row in rows_since(C) else None)
        assert [found.uri_template async for found in client.resource_templates()] == ["a:{x}"]
        read = await client.read_resource("a:1")
        assert isinstance(read.contents[0], m.TextResourceContents)
        assert read.ttl_ms == (0 if row.handshake else 5)
        assert [prompt.name async for prompt in client.prompts()] == ["p"]
        prompt = await client.get_prompt("p", {"a": "b"})
        assert "'a': 'b'" in str(prompt.messages[0].content)
        ref = m.PromptReference(name="p")
        done = await client.complete(ref, "a", "v", {"k": "w"})
        assert done.completion.values == ["vx", "{'k': 'w'}" if row in rows_since(C) else "None"]
        await client.ping()

    at(row, work)


@req("ERR-2")
@each_row
def test_resource_not_found_err_2(row: Revision) -> None:
    async def work(client: mcprev.Client, author: Everything) -> None:
        with pytest.raises(ResourceNotFound) as caught:
            await client.read_resource("a:nope")
        assert caught.value.code == row.resource_not_found
        assert caught.value.data == {"uri": "a:nope"}

    at(row, work)


@req("ERR-2")
@each_row
def test_a_raised_resource_not_found_needs_no_data(row: Revision) -> None:
    app = mcprev.App("shop", "1.0")

    @app.resource("shop://items/{name}")
    def item(name: str) -> str:
        raise ResourceNotFound(f"no item {name}")

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            with pytest.raises(ResourceNotFound, match="no item shoes") as caught:
                await client.read_resource("shop://items/shoes")
            assert caught.value.data == {"uri": "shop://items/shoes"}

    asyncio.run(main())


@req("ERR-1", "SEAM-4")
@each_row
def test_what_handlers_raise_err_1(row: Revision) -> None:
    """ERR-1, SEAM-4: a fixed text on the wire, everything in the log, and the next call is served."""

    async def work(client: mcprev.Client, author: Everything) -> None:
        log = logging.getLogger("mcprev.server")
        records = Records()
        log.addHandler(records)
        try:
            for name in ("crash", "invalid", "nothing"):
                failed = await client.call_tool(name)
                assert (failed.is_error, said(failed)) == (True, f"the tool '{name}' failed")
            with pytest.raises(RpcError) as caught:
                await client.call_tool("url")
            assert "secret" not in str(caught.value.to_wire())
        finally:
            log.removeHandler(records)
        # Where there are URLs to visit, an error that names none does not go out either (ERR-3, ERR-4).
        assert len(records.records) == 3 + ("url" in row.elicitation_modes)
        with pytest.raises(RpcError) as mine:
            await client.call_tool("error")
        assert (mine.value.code, mine.value.message, mine.value.data) == (-31000, "mine", {"x": 1})
        assert said(await client.call_tool("echo")) == "None"

    at(row, work)


@req("ERR-1", "TOOL-2")
@each_row
@pytest.mark.parametrize(
    "params", [{}, {"name": 3}, {"name": "echo", "arguments": "no"}, {"arguments": {}}, None]
)
def test_bad_params_are_the_callers(row: Revision, params: Any) -> None:
    async def work(client: mcprev.Client, author: Everything) -> None:
        with pytest.raises(RpcError) as caught:
            await client.raw("tools/call", params)
        assert caught.value.code == -32602
        assert author.runs == 0

    at(row, work)


@req("BASE-9", "MOD-14", "SEAM-2")
@each_row
def test_every_method_that_is_not_served(row: Revision) -> None:
    """BASE-9, MOD-14, SEAM-2: each method of any revision that this one lacks, or a server does not send."""
    methods = {method for r in DEFAULT for method, spec in r.methods.items() if spec.result is not None}

    async def work(client: mcprev.Client, author: Everything) -> None:
        kinds = mcprev.Server(author, "s", "1").identity.kinds(row)
        for method in sorted(methods - kinds.keys() - {"initialize", "ping"}):
            with pytest.raises(MethodNotFound):
                await client.raw(method, {})

    at(row, work)


# -- talking back ----------------------------------------------------------------------------------------


@req("PROG-2", "CONV-28")
@each_row
def test_progress_prog_2(row: Revision) -> None:
    async def work(client: mcprev.Client, author: Everything) -> None:
        told: list[Any] = []

        def tell(*report: object) -> None:
            told.append(report)

        await client.call_tool("progress", progress=tell)
        message = None if row is ROW_A else "step"
        assert told == [(1, 2, message), (2, 2, message)]
        await client.call_tool("progress")
        assert len(told) == 2

    at(row, work)


@req("LOG-2", "LOG-3", "LOG-5", "CONV-39")
@each_row
def test_logging_log_5(row: Revision) -> None:
    """LOG-2, LOG-3, LOG-5, CONV-39: one way to ask for it, gated as the revision wants."""
    handler = Helpful()

    async def work(client: mcprev.Client, author: Everything) -> None:
        await client.call_tool("log")
        first = [level for level, _ in handler.logs]
        assert first == (["error"] if row.handshake else [])
        handler.logs.clear()
        await client.call_tool("log", log_level="info")
        assert [level for level, _ in handler.logs] == ["info", "error"]
        await client.set_log_level("debug")
        handler.logs.clear()
        await client.call_tool("log")
        await until(lambda: len(handler.logs) == 3)
        assert handler.logs[0] == ("debug", {"at": "debug"})
        with pytest.raises(ValueError, match="loud"):
            await client.set_log_level("loud")  # type: ignore[arg-type]

    at(row, work, handler=handler)


@req("SUB-7", "SUB-8", "CONV-38")
@each_row
def test_changes_sub_7(row: Revision) -> None:
    """SUB-1..8, CONV-38: one API for subscriptions and for listen streams."""

    async def work(client: mcprev.Client, author: Everything) -> None:
        async with client.listen(tools=True, uris=["a:1"]) as changes, client.listen(prompts=True) as others:
            await client.call_tool("changed")
            found = {await anext(changes), await anext(changes)}
            assert found == {
                mcprev.Change(mcprev.Changed.TOOLS),
                mcprev.Change(mcprev.Changed.RESOURCE, "a:1"),
            }
            assert not changes._waiting
            assert not others._waiting
        await client.call_tool("changed")
        assert not changes._waiting

    at(row, work)


@req("SUB-4")
def test_listening_ends_with_the_server_sub_4() -> None:
    async def main(row: Revision) -> None:
        server = mcprev.Server(Everything(), "s", "1")
        async with (
            mcprev.connect(mcprev.memory(server), mode=row.name) as client, client.listen(tools=True) as changes
        ):  # fmt: skip
            (connection,) = server._connections
            await connection.aclose()
            if not row.handshake:
                with pytest.raises(StopAsyncIteration):
                    await anext(changes)
            else:
                with pytest.raises(ConnectionLost):
                    await anext(changes)
            with pytest.raises((ConnectionLost, LocalProtocolError)):
                await client.call_tool("echo")

    for row in DEFAULT:
        run(main(row))


# -- input -----------------------------------------------------------------------------------------------


@req("MRTR-11", "MRTR-12")
@each_row
def test_asking_is_the_same_in_both_eras_mrtr_12(row: Revision) -> None:
    """MRTR-1, 5, 7, 11, 12: the same handler and the same callbacks, by requests or by results."""
    handler = Helpful()

    async def work(client: mcprev.Client, author: Everything) -> None:
        if row in rows_until(B):
            with pytest.raises(RpcError) as caught:
                await client.call_tool("ask")
            assert caught.value.code == -32602
            return
        result = said(await client.call_tool("ask"))
        assert result == "['accept', {'name': 'bob'}, 'mm', ['file:///x']]"
        assert handler.asked == ["who?", "sampling", "roots"]
        assert author.runs == (1 if row.handshake else 4)
        assert said(await client.call_tool("ask_both")) == "['accept', 'accept']"

    at(row, work, handler=handler)


@req("MRTR-11", "CONV-17")
@each_row
def test_explicit_input_required_mrtr_11(row: Revision) -> None:
    """MRTR-11, CONV-17: a result that asks is asked by requests where results cannot."""
    handler = Helpful()

    async def work(client: mcprev.Client, author: Everything) -> None:
        result = await client.call_tool("explicit")
        if row in rows_until(B):
            assert result.is_error
            assert "elicitation" in said(result)
        else:
            assert said(result) == "[['a', 'b'], 'mine 2']"
            assert author.runs == 3

    at(row, work, handler=handler)


@req("MRTR-3", "ELIC-1", "CONV-18")
@each_row
@pytest.mark.parametrize("able", [True, False], ids=["declared", "undeclared"])
def test_url_mode_is_for_those_who_declare_it_mrtr_3(row: Revision, able: bool) -> None:
    """MRTR-3, ELIC-1, CONV-18: -32021 where there is such a code, else a failure that names what is needed."""
    handler = Helpful()
    possible = able and "url" in row.elicitation_modes

    async def work(client: mcprev.Client, author: Everything) -> None:
        if possible:
            assert said(await client.call_tool("ask_url")) == "accept"
            return
        with pytest.raises(RpcError) as caught:
            await client.call_tool("ask_url")
        assert caught.value.code == (-32602 if row.handshake else -32021)
        if not row.handshake:
            assert isinstance(caught.value, MissingClientCapability)
            assert caught.value.required == {"elicitation": {"url": {}}}
            with pytest.raises(MissingClientCapability):
                await client.call_tool("explicit_url")
        else:
            result = await client.call_tool("explicit_url")
            assert result.is_error
            assert "https://example.com/x" in said(result)

    at(row, work, handler=handler, capabilities=URLS if able else None)


@req("MRTR-6", "MRTR-11")
@each_row
def test_asking_ends_mrtr_6(row: Revision) -> None:
    async def work(client: mcprev.Client, author: Everything) -> None:
        if row.handshake:
            assert (await client.call_tool("forever")).is_error
        else:
            with pytest.raises(RemoteProtocolError):
                await client.call_tool("forever")
        assert author.runs < 20

    at(row, work, handler=Helpful())


@req("MRTR-10")
@pytest.mark.parametrize("row", rows_since(C), ids=lambda row: row.name)
def test_declined_input_mrtr_10(row: Revision) -> None:
    async def work(client: mcprev.Client, author: Everything) -> None:
        with pytest.raises(RpcError if row.handshake else InputDeclined):
            await client.call_tool("explicit")

    at(row, work, handler=Refusing())


@req("MRTR-4")
def test_state_is_sealed_mrtr_4() -> None:
    """MRTR-4: a state that was changed, or made for another request, is refused before the handler runs."""

    async def work(client: mcprev.Client, author: Everything) -> None:
        asked = await client.raw("tools/call", {"name": "explicit"})
        state, runs = asked["requestState"], author.runs
        assert "mine" not in state
        for name, token in (
            ("explicit", state[:-1] + "!"),
            ("ask", state),
            ("explicit", 5),
            ("explicit", "x"),
        ):
            with pytest.raises(RpcError) as caught:
                await client.raw("tools/call", {"name": name, "requestState": token})
            assert caught.value.code == -32602
        with pytest.raises(RpcError) as shape:
            await client.raw("tools/call", {"name": "explicit", "inputResponses": {"a": 5}})
        assert shape.value.code == -32602
        assert author.runs == runs
        given = {"a": {"action": "accept"}}
        again = await client.raw(
            "tools/call", {"name": "explicit", "inputResponses": given, "requestState": state}
        )
        assert set(again["inputRequests"]) == {"b"}

    at(LATEST, work, handler=Helpful())


@req("MRTR-1")
@pytest.mark.parametrize("row", [LATEST], ids=lambda row: row.name)
def test_reading_a_resource_may_ask_mrtr_1(row: Revision) -> None:
    async def work(client: mcprev.Client, author: Everything) -> None:
        read = await client.read_resource("a:ask")
        assert "accept" in str(read.contents[0])

    at(row, work, handler=Helpful())


@req("ROOT-2", "SAMP-1", "ELIC-1", "ERR-9")
@pytest.mark.parametrize("row", [r for r in DEFAULT if r.handshake], ids=lambda row: row.name)
def test_every_method_of_a_client(row: Revision) -> None:
    """ROOT-2, SAMP-1, ELIC-1, ERR-9: server requests with valid and invalid payloads, served and not."""
    helpful = Helpful()

    async def main(handler: Any) -> None:
        server = mcprev.Server(Everything(), "s", "1")
        async with mcprev.connect(mcprev.memory(server), handler=handler, mode=row.name):
            (connection,) = server._connections
            side: Any = connection.protocol
            methods = [m for m, s in row.methods.items() if s.result and "server_to_client" in s.directions]
            for method in methods:
                call = side.session.call(method, {"x": 1}, connection.now(), idle=5, total=5, unchecked=True)
                served = handler is helpful and not method.startswith("tasks/")
                if method == "ping" or (served and method == "roots/list"):
                    await connection.wait(call)
                else:
                    with pytest.raises(RpcError) as caught:
                        await connection.wait(call)
                    assert caught.value.code == (-32602 if served else -32601)

    run(main(helpful))
    run(main(None))


# -- time and trouble ------------------------------------------------------------------------------------


@req("TIME-1", "LIFE-18")
@each_row
def test_timeout_stops_the_handler_time_1(row: Revision) -> None:
    async def work(client: mcprev.Client, author: Everything) -> None:
        await client.call_tool("echo")
        with pytest.raises(RequestTimeout):
            await client.call_tool("wait", timeout=0.1)
        await asyncio.wait_for(author.stopped.wait(), 5)
        with pytest.raises(RequestTimeout):
            await client.call_tool("wait", total_timeout=0.1)
        assert said(await client.call_tool("echo")) == "None"

    at(row, work)


@req("CANC-7")
@each_row
def test_cancelled_caller_stops_the_handler_canc_7(row: Revision) -> None:
    async def work(client: mcprev.Client, author: Everything) -> None:
        task = asyncio.create_task(client.call_tool("wait"))
        await author.started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(author.stopped.wait(), 5)
        assert said(await client.call_tool("echo")) == "None"

    at(row, work)


@req("BASE-5")
@each_row
def test_many_calls_at_once(row: Revision) -> None:
    async def work(client: mcprev.Client, author: Everything) -> None:
        calls = (client.call_tool("echo", {"n": number}) for number in range(200))
        results = await asyncio.gather(*calls)
        assert [said(result) for result in results] == [f"{{'n': {number}}}" for number in range(200)]

    at(row, work)


@req("SEAM-9")
@each_row
def test_exact_types_seam_9(row: Revision) -> None:
    package: Any = load(row, "constants")
    dispatch, models = load(row, "dispatch"), row.models

    class Exact(dispatch.ServerHandler[Any]):  # type: ignore[misc, name-defined]
        async def call_tool(self, ctx: mcprev.Context, params: Any) -> Any:
            assert isinstance(params, models.CallToolRequestParams)
            return models.CallToolResult(content=[models.TextContent(text=f"exact {ctx.revision}")])

    async def work(client: mcprev.Client, author: Everything) -> None:
        assert said(await client.call_tool("x")) == f"exact {row.name}"
        right: Any = importlib.import_module(row.package)
        calls: Any = client.exact(right)
        fields: dict[str, Any] = {"name": "x"}
        if not row.handshake:
            fields["meta"] = models.RequestMetaObject(
                protocol_version=row.version, client_capabilities=models.ClientCapabilities()
            )
        result = await calls.call_tool(models.CallToolRequestParams(**fields))
        assert isinstance(result, models.CallToolResult)
        wrong: Any = importlib.import_module((DEFAULT[0] if not row.handshake else LATEST).package)
        with pytest.raises(LocalProtocolError):
            client.exact(wrong)

    at(row, work, server=mcprev.Server(Everything(), "s", "1", exact={row.name: Exact()}))
    assert row.name == package.REVISION


@req("SEAM-9", "LIFE-9", "BASE-11")
@each_row
def test_a_handler_sends_the_types_of_a_package_as_they_are(row: Revision) -> None:
    package: Any = importlib.import_module(row.package)
    other: Any = importlib.import_module((DEFAULT[0] if not row.handshake else LATEST).package)
    models, heard = row.models, list[str]()

    class Exact(load(row, "dispatch").ServerHandler[Any]):  # type: ignore[misc]
        async def call_tool(self, ctx: mcprev.Context, params: Any) -> Any:
            calls: Any = ctx.exact(package, timeout=5)
            note = models.LoggingMessageNotificationParams(level="error", data="as it is")
            assert await calls.logging_message(note) is None
            with pytest.raises(LocalProtocolError, match=row.name):
                ctx.exact(other)
            names = []
            if row.handshake:
                names = [root.name for root in (await calls.list_roots()).roots]
                wanted: Any = models.CreateMessageRequestParams(messages=[], max_tokens=1)
                with pytest.raises(LocalProtocolError, match="sampling"):
                    await calls.create_message(wanted)
            else:
                with pytest.raises(LocalProtocolError, match="send no requests"):
                    await ctx.raw("roots/list")
            return models.CallToolResult(content=[models.TextContent(text=str(names))])

    class Roots(mcprev.ClientHandler):
        async def list_roots(self, ctx: mcprev.ClientContext, params: Any) -> m.ListRootsResult:
            return m.ListRootsResult(roots=[m.Root(uri="file:///a", name="a")])

        async def logging_message(
            self, ctx: mcprev.ClientContext, params: m.LoggingMessageNotificationParams
        ) -> None:
            heard.append(params.data)

    async def work(client: mcprev.Client, author: Everything) -> None:
        assert said(await client.call_tool("x", log_level="error")) == str(["a"] if row.handshake else [])
        await until(lambda: heard == ["as it is"])

    at(row, work, server=mcprev.Server(None, "s", "1", exact={row.name: Exact()}), handler=Roots())


@req("MOD-6")
def test_requirements_of_methods_mod_6() -> None:
    needs = m.ClientCapabilities(sampling=m.ClientCapabilitiesSampling())

    async def work(client: mcprev.Client, author: Everything) -> None:
        with pytest.raises(MissingClientCapability):
            await client.call_tool("echo")

    at(LATEST, work, server=mcprev.Server(Everything(), "s", "1", requires={"tools/call": needs}))


@req("NEG-12", everywhere=True)
def test_prior_discovery_saves_asking_neg_12() -> None:
    async def main() -> None:
        server = mcprev.Server(Everything(), "s", "1")
        async with mcprev.connect(mcprev.memory(server)) as client:
            found = m.DiscoverResult.from_wire(await client.raw("server/discover"))
        async with mcprev.connect(mcprev.memory(server), prior=found) as client:
            assert isinstance(client.plan.step, plan.Ready)
            assert client.plan.step.method is plan.Method.PRIOR
            assert client.server_info is not None
            assert said(await client.call_tool("echo")) == "None"

    run(main())


@req("LIFE-16", everywhere=True)
def test_await_instead_of_async_with() -> None:
    async def main() -> None:
        server = mcprev.Server(Everything(), "s", "1")
        client = await mcprev.connect(mcprev.memory(server))
        await asyncio.gather(client.aclose(), client.aclose(), asyncio.create_task(client.aclose()))
        with pytest.raises((ConnectionLost, LocalProtocolError)):
            await client.call_tool("echo")

    run(main())


@req("NEG-13", everywhere=True)
def test_misuse_is_told_at_once() -> None:
    class Wrong(mcprev.ServerHandler):
        async def discover(self, ctx: mcprev.Context, params: Any) -> Any:
            return None

    with pytest.raises(ValueError, match="server/discover"):
        mcprev.Server(Wrong(), "s", "1")
    with pytest.raises(ValueError, match="unknown revision"):
        mcprev.Server(Everything(), "s", "1", revisions=["1999-01-01"])
    with pytest.raises(ValueError, match="unknown revision"):
        mcprev.connect(mcprev.memory(mcprev.Server(None, "s", "1")), mode="1999-01-01")
    server = mcprev.Server(Everything(), "s", "1")
    for what, uri in (("x", None), ("resource", None), ("tools", "a:1")):
        with pytest.raises(LocalProtocolError):
            server.changed(what, uri)


@req("ROOT-1", everywhere=True)
def test_roots_changed_root_1() -> None:
    async def work(client: mcprev.Client, author: Everything) -> None:
        client.roots_changed()
        await client.ping()

    for row in DEFAULT:
        at(row, work, handler=Helpful())


@req("PAGE-3", at=LATEST.name)
def test_endless_pages_page_3() -> None:
    class Loop(mcprev.ServerHandler):
        async def list_prompts(self, ctx: Any, params: Any) -> m.ListPromptsResult:
            return m.ListPromptsResult(prompts=[], next_cursor="same")

    async def work(client: mcprev.Client, author: Everything) -> None:
        with pytest.raises(RemoteProtocolError):
            _ = [prompt async for prompt in client.prompts()]

    at(LATEST, work, server=mcprev.Server(Loop(), "s", "1"))
