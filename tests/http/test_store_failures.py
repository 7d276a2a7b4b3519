"""What clients are answered over HTTP if the store fails that a request needs (ERR-1, HTTP-22).

Before the head of the response is sent, it is 503 with `Retry-After` if the request may be sent again. In a stream, and if
the request may have run, it is a JSON-RPC error. Either says which; none is an untyped internal error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

import mcprev
from helpers.asgi_bridge import Client, Exchange
from helpers.named import B, C, D, E
from helpers.requirements import req
from helpers.running import run
from mcprev.errors import StoreError
from mcprev.revisions import Revision, TaskSupport, revision_named

ROWS: Final = [revision_named(name) for name in (B, C, D, E)]
AGAIN: Final = "the server cannot reach its store; try again"
RAN: Final = "the server cannot reach its store; the request may have run in part"
KNOWS: Final[dict[str, Any]] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


class Away(mcprev.MemoryRecords):
    """A store that can be away."""

    away = False

    async def read(self, key: str, /) -> Any:
        if self.away:
            raise StoreError("the store at /a/secret/place is away")
        return await super().read(key)


def ask(client: Client, method: str, params: dict[str, Any]) -> Exchange:
    """Send a request; a request that describes itself says what its client can."""
    assert client.revision is not None
    more = {} if client.revision.handshake else {"clientCapabilities": KNOWS, "logLevel": "info"}
    return client.request(method, params, **more)


def each(test: Callable[[Client, Away], Any], row: Revision) -> None:
    """Run a test with a client of a server whose resources and tasks are in a store."""

    async def main() -> None:
        store = Away()
        app = mcprev.App("a", "1", tasks=mcprev.Tasks({}, poll_interval=10), store=store)

        @app.resource("memo://silent")
        async def silent() -> str:
            raise StoreError("the store at /a/secret/place is away")

        @app.resource("memo://talking")
        async def talking(ctx: mcprev.Context) -> str:
            await ctx.log("info", "about to read")
            raise StoreError("the store at /a/secret/place is away")

        @app.tool(task="optional")
        async def slow() -> str:
            return "done"

        http = app.server.asgi()
        try:
            client = await Client(http).open(row)
            store.away = True
            await test(client, store)
        finally:
            await http.aclose()
            await app.server.aclose()

    run(main())


def check(answer: Exchange, message: str, *, may_have_run: bool) -> None:
    """Check an error that says whether its request may be sent again; it does not name the store."""
    assert answer.error == {
        "code": -32603,
        "message": message,
        "data": {"reason": "store_unavailable", "mayHaveRun": may_have_run},
    }
    assert b"secret" not in answer.body


@req("ERR-1", at=[B, C, D, E])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_request_that_may_be_sent_again_is_refused_with_503(row: Revision) -> None:
    async def test(client: Client, _store: Away) -> None:
        answer = await ask(client, "resources/read", {"uri": "memo://silent"}).done()
        assert (answer.status, answer.headers.get("retry-after")) == (503, "1")
        check(answer, AGAIN, may_have_run=False)

    each(test, row)


@req("ERR-1", at=[B, C, D, E])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_in_a_stream_the_error_says_the_same(row: Revision) -> None:
    async def test(client: Client, _store: Away) -> None:
        if row.handshake:
            await client.request("logging/setLevel", {"level": "info"}).done()
        answer = await ask(client, "resources/read", {"uri": "memo://talking"}).done()
        assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
        check(answer, AGAIN, may_have_run=False)

    each(test, row)


@req("ERR-1", at=[D, E])
@pytest.mark.parametrize("row", [row for row in ROWS if row.tasks is not TaskSupport.NONE], ids=str)
def test_requests_about_tasks(row: Revision) -> None:
    async def test(client: Client, store: Away) -> None:
        core = row.tasks is TaskSupport.CORE
        for method in ("tasks/get", *(("tasks/result", "tasks/list") if core else ())):
            answer = await ask(client, method, {} if method == "tasks/list" else {"taskId": "x"}).done()
            assert (answer.status, answer.headers.get("retry-after")) == (503, "1"), method
            check(answer, AGAIN, may_have_run=False)
        for method in ("tasks/cancel", *(() if core else ("tasks/update",))):
            answer = await ask(client, method, {"taskId": "x", "inputResponses": {}}).done()
            assert answer.headers.get("retry-after") is None, method
            check(answer, RAN, may_have_run=True)
        store.away = False
        answer = await ask(client, "tasks/get", {"taskId": "x"}).done()
        assert answer.error["code"] == -32602

    each(test, row)


@req("ERR-1", at=D)
def test_a_call_that_cannot_become_a_task_has_not_begun() -> None:
    async def test(client: Client, _store: Away) -> None:
        answer = await ask(client, "tools/call", {"name": "slow", "arguments": {}, "task": {}}).done()
        assert (answer.status, answer.headers.get("retry-after")) == (503, "1")
        check(answer, AGAIN, may_have_run=False)

    each(test, revision_named(D))
