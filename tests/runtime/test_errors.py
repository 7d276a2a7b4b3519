"""ERR-*: which errors go out, what callers get of them, and what never looks like one; at each revision."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest

import mcprev
from api.authors import Everything
from api.wire import Error, Message, served, serving
from helpers.requirements import D, req
from helpers.running import run
from mcprev import errors
from mcprev.errors import (
    ConnectionLost,
    InternalError,
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    McpError,
    MethodNotFound,
    RemoteProtocolError,
    RequestTimeout,
    ResourceNotFound,
    RpcError,
    UnknownRpcError,
    UrlElicitationRequired,
)
from mcprev.revisions import Revision
from mcprev_types.latest import models as m

URL: Message = {"mode": "url", "message": "log in", "url": "https://x.test/login"}
WITH_ID: Message = {**URL, "elicitationId": "e1"}


class Raises(Everything):
    """A tool and a prompt that raise what they were given."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def do_raise(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        raise self.error

    async def get_prompt(self, ctx: mcprev.Context, params: Any) -> m.GetPromptResult:
        raise self.error


class Sampler(mcprev.ClientHandler):
    def __init__(self, error: Exception) -> None:
        self.error = error

    async def create_message(
        self, ctx: mcprev.ClientContext, params: m.CreateMessageRequestParams
    ) -> m.CreateMessageResult:
        raise self.error


async def answer_to(error: Exception, row: Revision, **capabilities: Any) -> Message:
    """What a client sees of an error."""
    made = mcprev.Server(Raises(error), "s", "1")
    async with served(made, row, capabilities=capabilities) as hand:
        found = (await hand.ask("tools/call", {"name": "raise"})).error
        # One error does not end the connection.
        assert (await hand.ask("tools/list")).result["tools"]
        return found


@req("ERR-1")
@pytest.mark.parametrize(
    "error",
    [ValueError("secret"), RuntimeError(), KeyError("secret"), ConnectionLost("secret", in_flight=True, retry_safe=False),
     LocalProtocolError("secret"), RequestTimeout("secret", elapsed=1, kind="idle"), ExceptionGroup("secret", [OSError()])],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_what_a_handler_raises_is_not_shown(
    row: Revision, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """But a tool's failure, which is a result; see `test_failing_tools`."""

    async def main() -> None:
        async with served(mcprev.Server(Raises(error), "s", "1"), row) as hand:
            for _ in range(2):
                answer = await hand.ask("prompts/get", {"name": "p"})
                assert answer.error == {"code": -32603, "message": "Internal error"}
        if not row.handshake:
            return
        async with serving(row, handler=Sampler(error)) as (_, hand):
            params: Message = {"messages": [], "maxTokens": 1}
            assert (await hand.ask("sampling/createMessage", params)).error == {
                "code": -32603,
                "message": "Internal error",
            }

    with caplog.at_level(logging.ERROR, logger="mcprev"):
        run(main())
    assert len(caplog.records) == 2 + row.handshake
    assert all(record.exc_info is not None for record in caplog.records)


@req("ERR-1")
@pytest.mark.parametrize(
    ("code", "kind"),
    [(-32700, UnknownRpcError), (-32600, InvalidRequest), (-32601, MethodNotFound), (-32602, InvalidParams),
     (-32603, InternalError), (0, UnknownRpcError), (7, UnknownRpcError), (-31000, UnknownRpcError)],
)  # fmt: skip
def test_codes_of_json_rpc_are_exceptions(row: Revision, code: int, kind: type[RpcError]) -> None:
    async def main() -> None:
        for data in (None, {"a": 1}):
            async with serving(row, {"tools/call": Error(code, "m", data)}) as (client, _):
                with pytest.raises(RpcError) as caught:
                    await client.call_tool("x")
                found = caught.value
                assert (type(found), found.code, found.message, found.data) == (kind, code, "m", data)

    run(main())


@req("ERR-1")
def test_what_an_author_answers_goes_out_as_it_is(row: Revision) -> None:
    async def main() -> None:
        for code in (-32602, -32000, 1, -31000):
            said = await answer_to(RpcError("mine", code=code, data={"x": [1]}), row)
            assert said == {"code": code, "message": "mine", "data": {"x": [1]}}

    run(main())


@req("ERR-2")
def test_a_missing_resource(row: Revision) -> None:
    """The code of the revision goes out; either code is understood when it comes."""

    async def main() -> None:
        async with served(mcprev.Server(Everything(), "s", "1"), row) as hand:
            error = (await hand.ask("resources/read", {"uri": "a:9"})).error
            assert error["code"] == (-32002 if row.handshake else -32602)
            assert error["data"] == {"uri": "a:9"}
        for code in (-32002, -32602):
            async with serving(row, {"resources/read": Error(code, "gone", {"uri": "a:9"})}) as (client, _):
                with pytest.raises(ResourceNotFound):
                    await client.read_resource("a:9")
        async with serving(row, {"resources/read": Error(-32602, "bad uri")}) as (client, _):
            with pytest.raises(InvalidParams):
                await client.read_resource("a:9")

    run(main())


@req("ERR-3", at=D)
def test_a_url_to_visit_is_an_error_with_ids() -> None:
    from mcprev.revisions import revision_named

    row = revision_named(D)

    async def main() -> None:
        said = await answer_to(UrlElicitationRequired("go", data={"elicitations": [WITH_ID], "more": 1}), row)
        assert said == {"code": -32042, "message": "go", "data": {"elicitations": [WITH_ID], "more": 1}}
        said = await answer_to(UrlElicitationRequired("go", data={"elicitations": [URL, URL]}), row)
        first, second = said["data"]["elicitations"]
        assert {**first, "elicitationId": 0} == {**URL, "elicitationId": 0}
        assert first["elicitationId"] != second["elicitationId"]
        wrong: list[Any] = [
            None,
            {},
            {"elicitations": []},
            {"elicitations": [{**URL, "mode": "form"}]},
            {"elicitations": [7]},
            {"elicitations": [URL, {"mode": "url", "url": "x"}]},
        ]
        for data in wrong:
            assert await answer_to(UrlElicitationRequired("go", data=data), row) == {
                "code": -32603, "message": "Internal error",
            }  # fmt: skip
        async with serving(row, {"tools/call": Error(-32042, "go", {"elicitations": [WITH_ID]})}) as (
            client,
            _,
        ):
            with pytest.raises(UrlElicitationRequired) as caught:
                await client.call_tool("x")
            assert caught.value.data == {"elicitations": [WITH_ID]}

    run(main())


@req("ERR-4")
@pytest.mark.parametrize("code", [-32042, -32002, -32019 - 4, -32023, -32050, -32099])
def test_no_code_that_is_reserved_and_undefined(row: Revision, code: int) -> None:
    async def main() -> None:
        for data in (None, {"elicitations": [WITH_ID]}):
            assert await answer_to(RpcError("mine", code=code, data=data), row) == {
                "code": -32603, "message": "Internal error",
            }  # fmt: skip

    run(main())


@req("ERR-3", "ERR-4")
def test_where_there_is_no_code_for_urls_it_is_not_sent(row: Revision) -> None:
    async def main() -> None:
        said = await answer_to(UrlElicitationRequired("go", data={"elicitations": [WITH_ID]}), row)
        assert (said["code"] == -32042) is row.handshake

    run(main())


@req("ERR-4")
def test_codes_that_are_anybodys_mean_nothing(row: Revision) -> None:
    async def main() -> None:
        for code in range(-32019, -31999):
            async with serving(row, {"resources/read": Error(code)}) as (client, _):
                with pytest.raises(RpcError) as caught:
                    await client.read_resource("a:1")
                assert type(caught.value) is (ResourceNotFound if code == -32002 else UnknownRpcError)

    run(main())


@req("ERR-5")
def test_what_happens_here_is_no_answer_of_the_peers(row: Revision) -> None:
    async def main() -> None:
        local: list[McpError] = []
        async with serving(row, {"tools/call": lambda _: None, "tools/list": {"tools": 7}}) as (client, hand):
            with pytest.raises(RequestTimeout) as late:
                await client.call_tool("x", timeout=0.01)
            with pytest.raises(RemoteProtocolError) as garbled:
                await client.list_tools()
            with pytest.raises(LocalProtocolError) as misuse:
                await client.call("no/such", {})
            waiting = asyncio.create_task(client.call_tool("x"))
            await hand.heard("tools/call")
            await hand.aclose()
            with pytest.raises(ConnectionLost) as lost:
                await waiting
            local += [late.value, garbled.value, misuse.value, lost.value]
        for error in local:
            assert not isinstance(error, RpcError)
            assert not hasattr(error, "code")

    run(main())


@req("ERR-9")
def test_how_a_client_refuses(row: Revision) -> None:
    """What it cannot be asked, what its user rejects, and a mode it did not declare."""
    questions: list[tuple[str, Message]] = [
        ("roots/list", {}),
        ("sampling/createMessage", {"messages": [], "maxTokens": 1}),
        ("elicitation/create", {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}),
    ]

    class Forms(mcprev.ClientHandler):
        async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
            return m.ElicitResult(action="decline")

    async def main() -> None:
        async with serving(row) as (_, hand):
            for method, params in questions:
                assert (await hand.ask(method, params)).code == -32601
        async with serving(row, handler=Sampler(RpcError("the user said no", code=-1))) as (_, hand):
            assert (await hand.ask(*questions[1])).error == {"code": -1, "message": "the user said no"}
        if "url" in row.elicitation_modes:
            async with serving(row, handler=Forms()) as (_, hand):
                assert (await hand.ask("elicitation/create", {**WITH_ID})).code == -32602

    run(main())


def test_the_module_draws_the_tree_of_its_classes() -> None:
    """The tree in the documentation of `mcprev.errors` has every error below the class that it derives from."""
    drawn: dict[str, str] = {}
    above = ["McpError"]
    for line in (errors.__doc__ or "").split("\n"):
        if found := re.match(r"((?:│   |    )*)[├└]── (\w+)", line):
            depth = len(found[1]) // 4 + 1
            above[depth:] = [found[2]]
            drawn[found[2]] = above[depth - 1]
    classes = [
        each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, McpError)
    ]
    assert drawn == {each.__name__: each.__mro__[1].__name__ for each in classes if each is not McpError}
