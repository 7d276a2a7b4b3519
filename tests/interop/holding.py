"""A connection that stands for the length of several tests, so that each peer is started only once."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import wraps
from typing import Any, Final, Self, TypeAlias, cast

import pytest

import mcprev
from helpers.requirements import A, E, req
from interop.peers import DECORATED, LIMIT, PEERS, TRANSPORTS, Peer, chosen
from mcprev.client.targets import Target
from mcprev.errors import Json
from mcprev.revisions import Era
from mcprev_types.latest import models as m

Noted: TypeAlias = dict[str, Json]
"""One thing that the peer observed; `what` says of what kind."""
ABLE: Final = m.ClientCapabilities(
    elicitation=m.ClientCapabilitiesElicitation(url={}), sampling=m.ClientCapabilitiesSampling(tools={})
)

ASKED: Final = 300
"""How many times the peer is asked for what it observed, until it is taken to have missed it."""

ENDING: Final = 5.0
"""Seconds that a server gets to end."""


class Answering(mcprev.ClientHandler):
    """Answers all that servers ask, and keeps what it heard."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.news = asyncio.Event()
        self.action: Any = "accept"
        self.refusing = False

    def _hear(self, *what: object) -> None:
        self.heard.append(what)
        self.news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what is to be heard; the test's own limit is the bound."""
        while not condition():
            self.news.clear()
            await self.news.wait()

    async def create_message(
        self, ctx: mcprev.ClientContext, params: m.CreateMessageRequestParams
    ) -> m.CreateMessageResult:
        self._hear("sampling", params.to_wire())
        if self.refusing:
            raise mcprev.RpcError("the user said no", code=-1)
        await ctx.progress(1, 2, "thinking")
        if params.tools:
            use = m.ToolUseContent(id="u1", name=params.tools[0].name, input={"a": 1, "b": 2})
            return m.CreateMessageResult(role="assistant", model="mini", content=[use], stop_reason="toolUse")
        content = m.TextContent(text="it")
        return m.CreateMessageResult(role="assistant", model="mini", content=content, stop_reason="endTurn")

    async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
        self._hear("elicitation", params.to_wire())
        form = isinstance(params, m.ElicitRequestFormParams) and self.action == "accept"
        return m.ElicitResult(action=self.action, content={"name": "ann"} if form else None)

    async def list_roots(self, ctx: mcprev.ClientContext, params: object) -> m.ListRootsResult:
        self._hear("roots")
        return m.ListRootsResult(roots=[m.Root(uri="file:///srv/ann", name="home")])

    async def logging_message(
        self, ctx: mcprev.ClientContext, params: m.LoggingMessageNotificationParams
    ) -> None:
        self._hear("log", params.level, params.data, params.logger)


class Listener:
    """A server in a process of its own that listens; the first line that it writes is its URL."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, say: Callable[[bytes], None]) -> None:
        self.url = url
        self._process = process
        self._reading = asyncio.create_task(self._read(say))

    @classmethod
    async def start(cls, *command: str, say: Callable[[bytes], None]) -> Self:
        """Run it; `say` is given what it writes to stderr."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        assert process.stdout is not None
        try:
            url = (await process.stdout.readline()).decode().strip()
            assert url.startswith("http://"), f"{command} did not say where it listens"
        except BaseException:  # such as the limit of the test, while the server starts
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()
            raise
        return cls(process, url, say)

    async def _read(self, say: Callable[[bytes], None]) -> None:
        assert self._process.stderr is not None
        while text := await self._process.stderr.readline():
            say(text)

    async def close(self) -> None:
        """End it."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), ENDING)
        except TimeoutError:
            self._process.kill()
        await self._reading


class Held:
    """A client of ours, connected to a server on an official SDK, with its loop, which runs while a test does."""

    def __init__(self, peer: Peer, role: str) -> None:
        self.peer = peer
        self._script = peer.script(role)
        self.handler = Answering()
        self.stderr = bytearray()
        self._runner = asyncio.Runner(debug=True)
        self._complaints: list[str] = []
        self._listener: Listener | None = None
        self._client: mcprev.Client | None = None
        self._verdict: Era | None = None

    @property
    def client(self) -> mcprev.Client:
        assert self._client is not None
        return self._client

    @property
    def url(self) -> str:
        """Where the server listens."""
        assert self._listener is not None
        return self._listener.url

    def run(self, work: Callable[[Held], Awaitable[None]]) -> None:
        """Run one case. What the loop would only log fails it."""
        self._complaints.clear()
        self._runner.run(self._case(work))
        assert self._complaints == []

    def close(self) -> None:
        """End the connection; nothing of it may be left."""
        self._complaints.clear()
        try:
            self._runner.run(self._close())
        finally:
            self._runner.close()
            gc.collect()
        assert self._complaints == []

    async def renew(self) -> None:
        """End the connection and the server, so that the next case finds new ones."""
        client, listener = self._client, self._listener
        self._client = self._listener = None
        if client is not None:
            await client.aclose()
        if listener is not None:
            await listener.close()

    async def _case(self, work: Callable[[Held], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = 5.0
        loop.set_exception_handler(lambda _, context: self._complaints.append(str(context)))
        async with asyncio.timeout(LIMIT):
            try:
                if self._client is None:
                    self._client = await self._connect()
                await self.journal()
                self.handler.heard.clear()
                self.handler.refusing = False
                self.stderr.clear()
                await work(self)
            except BaseException:
                await self.renew()
                raise

    async def _connect(self) -> mcprev.Client:
        script, transport = self._script, self.peer.transport
        if transport == "stdio":
            target: Target = mcprev.stdio(*script, stderr=self._say)
        else:
            self._listener = await Listener.start(*script, transport, say=self._say)
            target = mcprev.http(self._listener.url)
        client = await mcprev.connect(
            target,
            handler=self.handler,
            name="interop",
            version="1.2",
            mode=self.peer.mode,
            capabilities=ABLE,
            timeout=LIMIT / 2,
            probe_timeout=self.peer.probe,
            era=self._verdict,
        )
        self._verdict = client.spoken.era
        return client

    def _say(self, text: bytes) -> None:
        self.stderr += text
        self.handler.news.set()

    async def _close(self) -> None:
        await self.renew()
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        self._complaints.extend(f"left running: {task!r}" for task in left)

    # -- what the peer observed --------------------------------------------------------------------------------

    async def journal(self) -> list[Noted]:
        """All that it observed since this was last asked, but for the call of `journal` itself."""
        result = await self.client.call_tool("journal")
        return cast("list[Noted]", json.loads(text_of(result)))

    async def noted(self, what: str) -> Noted:
        """Ask until it observed something of a kind."""
        seen: list[Noted] = []
        for _ in range(ASKED):
            fresh = await self.journal()
            for entry in fresh:
                if entry["what"] == what:
                    return entry
            seen += fresh
        raise AssertionError(f"the peer observed no '{what}', but {seen}")

    async def said(self, text: str) -> None:
        """Wait until it wrote a text to stderr; the test's own limit is the bound."""
        await self.handler.until(lambda: text.encode() in self.stderr)


def text_of(result: m.CallToolResult) -> str:
    """The text of a result's first block."""
    block = result.content[0]
    assert isinstance(block, m.TextContent)
    return block.text


Case: TypeAlias = Callable[..., Coroutine[Any, Any, None]]
"""Given the held connection, and what else the test is parametrised with."""


def case(
    *ids: str,
    since: str = A,
    until: str = E,
    role: str = "server",
    transports: tuple[str, ...] = TRANSPORTS,
) -> Callable[[Case], Callable[..., None]]:
    """A case with every peer of a range of revisions: marked, parametrised, and run by whoever holds the connection.

    `role` says which script the server is.
    """

    def mark(work: Case) -> Callable[..., None]:
        peers = chosen(since, until, transports, DECORATED if role == "decorated" else PEERS)

        @wraps(work)
        def test(**given: Any) -> None:
            held: Held = given.pop(role)
            held.run(lambda held: work(held, **given))

        test = pytest.mark.parametrize(role, peers, indirect=True, scope="session")(test)
        marked: Callable[..., None] = req(*ids)(test)
        return marked

    return mark
