"""Several servers of one store, each with what it sees of the store, and clients by hand at each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final

import pytest

import mcprev
from api.scripted import form
from api.wire import HandClient, Message, Reply, served
from helpers.named import ROW_D as CORE, ROW_E as MODERN
from helpers.running import run as run_within, until
from mcprev.protocol.subscriptions import ACKNOWLEDGED, LISTEN
from mcprev.protocol.tasks import EXTENSION, TASK_NOTIFICATION
from mcprev.revisions import Revision
from mcprev_types.latest import models as m
from stores.unreliable import Unreliable

KNOWS: Final[dict[str, Any]] = {"extensions": {EXTENSION: {}}, "elicitation": {"form": {}}}
ACCEPT: Final[Message] = {"action": "accept", "content": {"name": "bob"}}
TOOLS: Final[dict[str, str]] = {"slow": "optional", "ask": "optional", "step": "optional", "busy": "optional"}
run: Final = partial(run_within, limit=10_000)
"""The clock goes on by itself, and so a test that hangs ends soon."""
each_kind = pytest.mark.parametrize("row", [CORE, MODERN], ids=lambda row: row.name)


class Author(mcprev.ServerHandler):
    """Tools that wait for the test, and note how they ended."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.steps: asyncio.Queue[str] = asyncio.Queue()
        self.ends: list[object] = []
        self.begun = 0

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        return m.ListToolsResult(
            tools=[m.Tool(name=name, input_schema=m.ToolInputSchema()) for name in (*TOOLS, "plain", "state")]
        )

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        if params.name == "plain":
            return said("plain")
        if params.name == "state":
            ctx.state = (ctx.state or "") + "+"
            await ctx.ask("who", form())
            return said(f"asked {ctx.state}")
        try:
            await ctx.detach(poll_interval=10)
            self.begun += 1
            if params.name == "ask":
                answers = [(await ctx.ask(key, form(key))).action for key in ("one", "two")]
                self.ends.append(answers)
                return said(answers)
            while params.name == "step" and (step := await self.steps.get()) != "end":
                await ctx.set_status(step)
            if params.name == "slow":
                await self.gate.wait()
            if params.name == "busy":
                asking = asyncio.ensure_future(ctx.ask("one", form("one")))
                await ctx.set_status(await self.steps.get())
                await asking
                await self.gate.wait()
        except BaseException as end:
            self.ends.append(end)
            raise
        self.ends.append("done")
        return said("done")


def said(what: object) -> m.CallToolResult:
    return m.CallToolResult(content=[m.TextContent(text=str(what))])


class Fellows:
    """The servers, their views of the store, and one client at each."""

    def __init__(self, row: Revision, author: Author, stores: list[Unreliable], **options: Any) -> None:
        self.row, self.author, self.stores = row, author, stores
        self.servers = [
            mcprev.Server(author, "s", "1", store=store, tasks=mcprev.Tasks(TOOLS, **options))
            for store in stores
        ]
        self.hands: list[HandClient] = []

    async def start(self, at: int, name: str, **task: Any) -> str:
        """Start a task at a server; its id."""
        given: Message = {"name": name, "arguments": {}}
        wanted = {**given, "task": task} if self.row is CORE else given
        result = (await self.hands[at].ask("tools/call", wanted)).result
        return str((result["task"] if self.row is CORE else result)["taskId"])

    async def get(self, at: int, task_id: str) -> Message:
        return (await self.hands[at].ask("tasks/get", {"taskId": task_id})).result

    async def comes_to(self, at: int, task_id: str, *status: str) -> Message:
        """Look until the task has one of these states."""
        return await self._look(at, task_id, lambda found: found["status"] in status)

    async def asks(self, at: int, task_id: str, key: str) -> Message:
        """Look until the task asks a question."""
        return await self._look(at, task_id, lambda found: key in found.get("inputRequests", ()))

    async def _look(self, at: int, task_id: str, wanted: Callable[[Message], bool]) -> Message:
        found: Message = {}
        for _ in range(10_000):
            if wanted(found := await self.get(at, task_id)):
                break
            await asyncio.sleep(0.1)
        assert wanted(found), found
        return found

    async def listen(self, at: int, task_id: str) -> None:
        hand = self.hands[at]
        params = {"notifications": {"taskIds": [task_id]}, "_meta": hand.stamp}
        hand.send({"jsonrpc": "2.0", "id": "l", "method": LISTEN, "params": params})
        await hand.heard(ACKNOWLEDGED)

    def told(self, at: int) -> list[Message]:
        """What came on the listen stream."""
        return [each["params"] for each in self.hands[at].got if each.get("method") == TASK_NOTIFICATION]

    async def hears(self, at: int, status: str) -> None:
        """Wait until the listen stream says that the task has come to a state."""
        await until(lambda: any(each["status"] == status for each in self.told(at)))

    def asked(self, at: int) -> int:
        return sum(each.get("method") == "elicitation/create" for each in self.hands[at].got)

    async def update(self, at: int, task_id: str, **answers: Message) -> Any:
        return await self.hands[at].ask("tasks/update", {"taskId": task_id, "inputResponses": answers})

    def kill(self, at: int) -> None:
        """End a worker as SIGKILL does: nothing of it reaches the store any more."""
        store = self.stores[at]

        async def never(_name: str, _key: str) -> None:
            await asyncio.sleep(3600)

        store.before, store.away = never, True

    def all(self, change: Callable[[Unreliable], object]) -> None:
        """What happens to the store itself."""
        for store in self.stores:
            change(store)


@asynccontextmanager
async def fellows(
    row: Revision,
    many: int = 2,
    *,
    replies: Mapping[str, Reply] | None = None,
    prepare: Callable[[Unreliable], object] = lambda _: None,
    **options: Any,
) -> AsyncGenerator[Fellows, None]:
    """Start servers of one store, and connect a client with each."""
    first = Unreliable()
    stores = [first, *(Unreliable(first) for _ in range(many - 1))]
    for store in stores:
        prepare(store)
    found = Fellows(row, Author(), stores, **options)
    async with AsyncExitStack() as stack:
        for server in found.servers:
            hand = served(server, row, capabilities=KNOWS, replies=replies or {})
            found.hands.append(await stack.enter_async_context(hand))
        yield found
        found.author.gate.set()
    closing: list[Awaitable[None]] = [server.aclose() for server in found.servers]
    await asyncio.gather(*closing)
    await asyncio.sleep(30)
