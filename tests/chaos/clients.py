"""The clients of the chaos run, what they call, and what they check of each answer."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

import aiohttp

import mcprev
from helpers.asgi_bridge import PREFIX, TYPES, request
from mcprev.errors import (
    INTERNAL_MESSAGE,
    ConnectionLost,
    HttpStatusError,
    McpError,
    NegotiationError,
    RpcError,
    StoreError,
)
from mcprev.revisions import LATEST, HttpShape, Revision, TaskSupport
from mcprev_types.latest import models as m

LIMIT: Final = 30.0
"""Seconds after which a call hangs."""
TASK_LIMIT: Final = 60.0
"""Seconds after which a task is stuck. A worker that finds no lease looks again some seconds later, if it is not killed before."""
PAUSE: Final = 1.0
"""Seconds between two calls of a client, on average."""
CALLS: Final = 20
"""Calls of a client before it connects anew."""
NUMBERS: Final = 50
"""Messages of a call of `count`."""
IDLE: Final = 60.0
"""Seconds that an idle client waits between two requests."""
NEAR: Final = 1.0
"""Seconds after a process was killed in which a request may still be given to it."""
LOST: Final = "worker_lost"
BAD_GATEWAY: Final = 502
NOT_SERVED: Final = frozenset({404, 503})
"""Statuses that say that a request was not served."""
NEED_STORE: Final = frozenset({"ask", "visit"})
"""Tools that fail while the store is away."""


@dataclass
class Tally:
    """What has happened to all clients."""

    done: Counter[str] = field(default_factory=Counter[str])
    """Calls with the right answer, by tool and revision."""
    failed: Counter[str] = field(default_factory=Counter[str])
    """Calls that failed with an error that says whether they may be repeated."""
    wrong: list[str] = field(default_factory=list[str])
    """What must not happen."""
    added: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """How often each call of `add` may have happened: at least and at most."""
    messages: int = 0
    """Numbered messages that have arrived."""
    kills: list[float] = field(default_factory=list[float])
    """When a process was killed."""

    def has_killed(self, since: float) -> bool:
        """Whether a process was killed since a time, or so shortly before that requests still went to it."""
        return any(at >= since - NEAR for at in self.kills)

    def check(self, what: str, *, right: bool) -> None:
        """Note what is wrong."""
        if not right:
            self.wrong.append(what)


def reason_of(error: RpcError) -> str:
    """The reason in the data of an error; empty if it has none."""
    data: object = error.data
    return str(cast("dict[str, object]", data).get("reason", "")) if isinstance(data, dict) else ""


def typed(error: McpError) -> str:
    """An error as it is counted; empty for one that does not say whether the call may be repeated."""
    if isinstance(error, ConnectionLost):
        return f"ConnectionLost(in_flight={error.in_flight}, retry_safe={error.retry_safe})"
    if isinstance(error, NegotiationError):
        return "not connected"  # over HTTP+SSE: its session was over before it was open
    if isinstance(error, HttpStatusError) and error.status in NOT_SERVED:
        return f"HTTP {error.status}: not served"
    if isinstance(error, StoreError):
        return f"the tool failed: {error}"
    if isinstance(error, RpcError) and error.message != INTERNAL_MESSAGE:
        return f"answered: {type(error).__name__}({error.message[:60]!r}) {reason_of(error)}".rstrip()
    return ""


class ChaosClient(mcprev.ClientHandler):
    """One client, which calls until it is told to stop."""

    def __init__(self, number: int, row: Revision, url: str, tally: Tally) -> None:
        self.number, self.row, self.tally = number, row, tally
        self.url = f"{url.removesuffix('mcp')}sse" if row.http is HttpShape.SSE else url
        self._random = random.Random(number)  # noqa: S311 - not for a secret
        self._calls = 0
        self._heard: defaultdict[str, list[int]] = defaultdict(list)
        self.handle: str | None = None
        self.visits = (0, 0)
        """How many visits the state of the handle has had: at least and at most."""
        has: dict[Tool, bool] = {work: row.tasks is not TaskSupport.NONE, ask: bool(row.elicitation_modes)}
        self.tools: list[Tool] = [tool for tool in TOOLS if has.get(tool, True)]

    async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
        """Answer with the question, which only this client may be asked."""
        self.tally.check(
            f"a question of another client: {params.message}", right=self.is_mine(params.message)
        )
        return m.ElicitResult(action="accept", content={"value": params.message})

    async def logging_message(self, ctx: mcprev.ClientContext, params: Any) -> None:
        """Keep the number of a message."""
        token = str(params.data["token"])
        self.tally.check(f"a message of another client: {token}", right=self.is_mine(token))
        self._heard[token].append(int(params.data["number"]))
        self.tally.messages += 1

    def is_mine(self, token: str) -> bool:
        """Whether a token is of a call of this client."""
        return token.startswith(f"{self.row.name}/{self.number}/")

    def token(self) -> str:
        """A token for one call."""
        self._calls += 1
        return f"{self.row.name}/{self.number}/{self._calls}"

    async def run(self, stop: asyncio.Event) -> None:
        """Call until `stop`."""
        await asyncio.sleep(self._random.random() * PAUSE)
        while not stop.is_set():
            try:
                async with mcprev.connect(
                    self.url, mode=self.row.name, handler=self, restart=False
                ) as client:
                    await self._call_several(client, stop)
            except McpError as error:
                self.failed("connect", error)
                await asyncio.sleep(PAUSE / 4)
            except Exception as error:  # noqa: BLE001 - this is what is looked for
                self.tally.wrong.append(f"{self.row.name} connect: {type(error).__name__}: {error}")
                return

    async def _call_several(self, client: mcprev.Client, stop: asyncio.Event) -> None:
        if self.row.handshake:
            self.handle, self.visits = None, (0, 0)  # the state ends with its session
        await client.list_tools()
        if not self.row.log_level_per_request:
            await client.set_log_level("info")
        for _ in range(CALLS):
            if stop.is_set() or client.session.connection.error is not None:
                return
            tool = self._random.choice(self.tools)
            try:
                await tool(self, client)
                self.tally.done[f"{tool.__name__} {self.row.name}"] += 1
            except McpError as error:
                self.failed(tool.__name__, error)
            except Exception as error:  # noqa: BLE001 - this is what is looked for
                self.tally.wrong.append(f"{self.row.name} {tool.__name__}: {type(error).__name__}: {error}")
            reopened = client.session.reopened
            self.tally.check(f"the session of {self.row.name}/{self.number} was lost", right=not reopened)
            await asyncio.sleep(self._random.random() * 2 * PAUSE)

    def failed(self, what: str, error: McpError) -> None:
        """Count a call that failed."""
        found = typed(error)
        if not found and isinstance(error, HttpStatusError) and error.status == BAD_GATEWAY:
            found = "HTTP 502: its process was killed" if self.tally.has_killed(time.monotonic()) else ""
        if found:
            self.tally.failed[f"{what} {self.row.name}: {found}"] += 1
        else:
            self.tally.wrong.append(f"{self.row.name} {what}: {type(error).__name__}: {error}")

    async def call(self, client: mcprev.Client, tool: str, **arguments: object) -> Any:
        """Call a tool, and return its data."""
        result = await client.call_tool(tool, arguments, timeout=LIMIT, total_timeout=LIMIT, log_level="info")
        if result.is_error and tool in NEED_STORE:
            raise StoreError(result.text)
        return result

    # -- the tools -----------------------------------------------------------------------------------------

    def heard(self, token: str, *, all_of_them: bool) -> None:
        """Check the numbers of the messages of a call: none is missing, none comes twice."""
        found = self._heard.pop(token, [])
        wanted = list(range(NUMBERS if all_of_them else len(found)))
        self.tally.check(f"messages of {token}: {found}", right=found == wanted)

    def visited(self, visits: int) -> None:
        """Check the number of visits: each is counted, and none twice."""
        least, most = self.visits
        self.tally.check(
            f"visits of {self.number}: {visits}, not {least} to {most}", right=least <= visits <= most
        )
        self.visits = visits, visits


class IdleClient:
    """A client of a balancer that asks once in a minute, on one connection."""

    def __init__(self, url: str, tally: Tally, number: int) -> None:
        self.url, self.tally, self.number = url, tally, number

    async def run(self, stop: asyncio.Event) -> None:
        """Ask until `stop`, and once more then."""
        stamp: dict[str, object] = {
            PREFIX + "protocolVersion": LATEST.version,
            PREFIX + "clientCapabilities": {},
        }
        body = request("tools/list", {"_meta": stamp})
        headers = {**TYPES, "mcp-protocol-version": LATEST.version, "mcp-method": "tools/list"}
        connector = aiohttp.TCPConnector(limit=1, keepalive_timeout=2 * IDLE)
        async with aiohttp.ClientSession(connector=connector) as http:
            last = False
            while not last:
                began, last = time.monotonic(), stop.is_set()
                try:
                    async with http.post(self.url, json=body, headers=headers) as answer:
                        await answer.read()
                        found = str(answer.status)
                except aiohttp.ClientError as error:
                    found = type(error).__name__
                self.check(found, began)
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), IDLE)

    def check(self, found: str, began: float) -> None:
        """Count a response: 503 says that it was not served, and 502 that its process was killed."""
        if found == "200":
            self.tally.done["asked after a minute"] += 1
            return
        self.tally.failed[f"asked after a minute: {found}"] += 1
        killed = self.tally.has_killed(began)
        self.tally.check(
            f"idle client {self.number} got {found}", right=found == "503" or (found == "502" and killed)
        )


Tool: TypeAlias = Callable[[ChaosClient, mcprev.Client], Awaitable[None]]


async def echo(chaos: ChaosClient, client: mcprev.Client) -> None:
    """What may be repeated."""
    token = chaos.token()
    found = (await chaos.call(client, "echo", token=token)).text
    chaos.tally.check(f"{token} got {found}", right=found == token)


async def add(chaos: ChaosClient, client: mcprev.Client) -> None:
    """What must not be done twice."""
    token = chaos.token()
    chaos.tally.added[token] = (0, 1)
    try:
        found = (await chaos.call(client, "add", token=token)).text
    except ConnectionLost as error:
        if not error.in_flight:
            chaos.tally.added[token] = (0, 0)
        raise
    chaos.tally.added[token] = (1, 1)
    chaos.tally.check(f"{token} got {found}", right=found == token)


async def count(chaos: ChaosClient, client: mcprev.Client) -> None:
    """Messages in their order."""
    token = chaos.token()
    done = False
    try:
        found = (await chaos.call(client, "count", token=token, numbers=NUMBERS)).text
        done = True
        chaos.tally.check(f"{token} got {found}", right=found == token)
    finally:
        chaos.heard(token, all_of_them=done)


async def ask(chaos: ChaosClient, client: mcprev.Client) -> None:
    """A question, whose answer any worker may get."""
    token = chaos.token()
    found = (await chaos.call(client, "ask", token=token)).text
    chaos.tally.check(f"{token} got {found}", right=found == f"{token} {token}")


async def visit(chaos: ChaosClient, client: mcprev.Client) -> None:
    """State that all workers share."""
    chaos.visits = (chaos.visits[0] + 1, chaos.visits[1] + 1)
    try:
        result = await chaos.call(client, "visit", handle=chaos.handle)
        visits, chaos.handle = result.read(tuple[int, str])
    except (McpError, StoreError):
        chaos.visits = (chaos.visits[0] - 1, chaos.visits[1])  # it may have been counted, or not
        if chaos.handle is None and not chaos.row.handshake:
            chaos.visits = (0, 0)  # of a state that nobody knows
        raise
    chaos.visited(visits)


async def work(chaos: ChaosClient, client: mcprev.Client) -> None:
    """A task, which ends whatever happens: with its result, or with the error that its worker is lost."""
    token, now = chaos.token(), asyncio.get_running_loop().time
    task = await client.start_tool("work", {"token": token, "seconds": 1.0}, total_timeout=LIMIT)
    until = now() + TASK_LIMIT
    while True:
        try:
            result = await task.result(timeout=max(until - now(), 0.1))
        except ConnectionLost:
            pass
        except RpcError as error:
            if reason_of(error) == LOST:
                raise
            chaos.failed("task", error)
            chaos.tally.check(f"{token} is unknown", right="Unknown" not in error.message)
        except mcprev.RequestTimeout:
            chaos.tally.wrong.append(f"the task of {token} is stuck: {task.status}")
            return
        else:
            if result.is_error:
                raise StoreError(result.text)  # it could not become a task
            chaos.tally.check(f"{token} got {result.text}", right=result.text == token)
            return
        if client.session.connection.error is not None or now() > until:
            chaos.tally.check(f"the task of {token} is stuck: {task.status}", right=now() <= until)
            return
        await asyncio.sleep(0.2)


TOOLS: Final[tuple[Tool, ...]] = (echo, add, count, ask, visit, work)
