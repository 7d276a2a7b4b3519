"""One session of `mcprev dev`: the server, what was on the wire, and what the page asks for."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from mcprev.client.request_handler import ClientContext
from mcprev.core.background import Background
from mcprev.dev.calls import SHOWN, Calls
from mcprev.dev.channels import Channels, shortened_json
from mcprev.dev.event_log import EVENTS, EventLog
from mcprev.dev.events import NAME, Seen, SeenEvent, SeenExchange
from mcprev.dev.launch import Launcher
from mcprev.dev.lists import Lists
from mcprev.dev.peer import ClientOpener
from mcprev.dev.questions import PageHandler, Questions
from mcprev.dev.repeating import Repetitions
from mcprev.dev.spool import FILE, MEMORY
from mcprev.dev.tasks import TaskBoard
from mcprev.dev.verdicts import Verdicts, logger
from mcprev.dev.wire import as_json
from mcprev.errors import AuthError, Json, McpError, ProcessExited
from mcprev.extensions.ui import HOST
from mcprev.protocol.subscriptions import Changed
from mcprev.revisions import ALL
from mcprev.serving.source_files import SourceFiles
from mcprev.wire.jsonrpc import Message, Notification

if TYPE_CHECKING:
    from mcprev.client.client import Client
    from mcprev.client.subscriptions import Change, Subscription

LOGS: Final = 2000
"""How many log messages and pieces of stderr are kept for a page that is opened late."""
STDERR: Final = 16 * 1024
"""How many bytes of one piece of stderr, or of the data of a log message, are shown."""
SUBSCRIPTIONS: Final = 200
_CHECK: Final = 0.25
"""Seconds between two looks at whether the connection is lost."""
_CLOSING: Final = 5.0
WATCH: Final = 0.5
"""Seconds between two looks at the source files."""
_SETTLE: Final = 0.1
_SETTLING: Final = 20
"""How many looks may find further changes before the server is started again."""
_FILES: Final = 500
"""How many files the page is told of."""
_LOG: Final = "notifications/message"
_UPDATED: Final = "notifications/resources/updated"
_LISTS: Final = {
    Changed.TOOLS: ("tools",), Changed.PROMPTS: ("prompts",), Changed.RESOURCES: ("resources", "templates"),
}  # fmt: skip
FAILURES: Final = (McpError, OSError, TimeoutError, ValueError, ValidationError)
"""What opening a connection may raise."""


READ_ONLY: Final = "this is a saved session: nothing can be sent"


class NotConnected(McpError):
    """A request of the page that needs a server, while none is connected."""


class Inspector:
    """One session."""

    read_only = False
    """Whether nothing can be sent."""

    def __init__(self, launcher: Launcher, revision: str | None = None, *, pages: bool = False) -> None:
        """`pages` says whether clients declare that they show pages (MCP Apps), which the page only lists."""
        self.pages: bool = pages
        self.id: str = secrets.token_hex(8)
        self.launcher: Launcher = launcher
        self.revision: str | None = revision
        self.channels: Channels = Channels()
        self.log: EventLog = EventLog()
        self.questions: Questions = Questions(self.log, self.channels)
        self.calls: Calls = Calls(self.log, self.channels, self.client_at)
        self.repetitions: Repetitions = Repetitions(self.channels, self.client_at)
        self.lists: Lists = Lists(self.channels)
        self.tasks: TaskBoard = TaskBoard(self.channels, self._task_began)
        self.logs: deque[dict[str, Json]] = deque(maxlen=LOGS)
        self.log.observers += [self.tasks.observe, self._observe]
        self.log.changed.append(self.channels.wake)
        launcher.logins.tell = partial(self.channels.line, "authorization")
        self._peers = ClientOpener(self.log, self._new_handler, self._tell_answered, [HOST] if pages else [])
        self.verdicts: Verdicts = Verdicts(self.log, self._tell_verdict, self._output_schema)
        self._client: Client | None = None
        self._others: dict[str, Client] = {}
        self._subscriptions: dict[str, tuple[Subscription, asyncio.Task[None]]] = {}
        self._opening = asyncio.Lock()
        self._background = Background(logger, "work of the page")
        self._state = "starting"
        self._error: dict[str, Json] | None = None
        self._level: str | None = None
        self.reloaded: dict[str, Json] | None = None
        """What was told last about the source files."""

    # -- the server ----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to connect; `target` tells when the server is there."""
        self._background.start(self.verdicts.run())
        self._background.start(self.connect())
        self._background.start(self._watch())
        if self.launcher.sources is not None:
            self._background.start(self._reload(self.launcher.sources))

    async def aclose(self) -> None:
        """End the session; if it is cancelled, without waiting for the server."""
        self._background.cancel()
        try:
            await asyncio.gather(
                self._background.finish(_CLOSING),
                self.calls.aclose(),
                self.repetitions.stop(),
                self.lists.aclose(),
            )
            await self._disconnect()
        finally:
            try:
                await self.launcher.stop()
            finally:
                self.launcher.close()
                self.channels.close()
                self.log.close()

    async def connect(self, state: str = "starting", *, anew: bool = True) -> None:
        """Start the server and connect to it, in place of the present connections; not `anew` if it is connected."""
        async with self._opening:
            if not anew and self._client is not None and self._client.connection.error is None:
                return
            self._set(state)
            await self._disconnect()
            try:
                await self.launcher.stop()
                await self.launcher.start(self._hear)
                self._client = await self._open(self.revision)
            except FAILURES as error:
                if isinstance(error, AuthError):
                    self.launcher.logins.add("failed", {"text": str(error)})
                self._set("failed", _described(error))
                return
            self._set("connected")
        if self._level is not None:
            with suppress(*FAILURES):
                await self._client.set_log_level(self._level)  # type: ignore[arg-type]
        for kind in self.lists.wanted:
            self.lists.load(self._client, kind)

    async def use(self, revision: str | None) -> None:
        """Connect again at a revision; None: the one that is negotiated."""
        self.revision = revision
        await self.connect("restarting")

    @property
    def client(self) -> Client:
        """The client of the page. Raises `NotConnected`."""
        if self._client is None or self._client.connection.error is not None:
            raise NotConnected("the server is not connected")
        return self._client

    async def client_at(self, revision: str | None) -> Client:
        """Return the client at a revision; None: that of the page, which is connected again if it was lost."""
        if self._client is None or self._client.connection.error is not None:
            await self.connect("restarting", anew=False)
        client = self.client
        if revision is None or revision == client.revision:
            return client
        async with self._opening:
            other = self._others.get(revision)
            if other is None or other.connection.error is not None:
                if other is not None:
                    await _close(other)
                other = self._others[revision] = await self._open(revision, main=False)
            return other

    async def _open(self, revision: str | None, *, main: bool = True) -> Client:
        on_change = self._list_changed if main else None
        return await self._peers.open(self.launcher, self._take_stderr, revision, on_change)

    async def _disconnect(self) -> None:
        clients = [*self._others.values(), *([self._client] if self._client is not None else [])]
        self._client = None
        self._others.clear()
        for _, task in self._subscriptions.values():
            task.cancel()
        self._subscriptions.clear()
        await asyncio.gather(*map(_close, clients))

    async def _watch(self) -> None:
        """Tell when the connection is lost."""
        while True:
            await asyncio.sleep(_CHECK)
            client = self._client
            if client is not None and self._state == "connected" and client.connection.error is not None:
                self._set("stopped", _described(client.connection.error))

    async def _reload(self, sources: SourceFiles) -> None:
        """Start the server again when its source files change."""
        shown: Json = None
        while True:
            changed = sources.changed()
            if changed:
                await self._settled(sources)
                self._tell_reload("changed", changed)
                await self.connect("restarting")
                if self._state == "connected":
                    self._tell_reload("restarted", changed)
                else:
                    self._tell_reload("failed", changed, self._error)
            elif len(sources.names) != shown:
                shown = len(sources.names)
                self._tell_reload("watching", sources.names)
            await asyncio.sleep(WATCH)

    async def _settled(self, sources: SourceFiles) -> None:
        """Wait until an editor has written all files."""
        for _ in range(_SETTLING):
            await asyncio.sleep(_SETTLE)
            if not sources.changed():
                return

    def _tell_reload(self, state: str, files: list[str], error: dict[str, Json] | None = None) -> None:
        found: dict[str, Json] = {"state": state, "files": [*files[:_FILES]], "count": len(files)}
        if error is not None:
            found["error"] = error
        self.reloaded = found
        self.channels.state("reload", "", found)

    def target(self) -> dict[str, Json]:
        """Return what the page shows of the server."""
        found: dict[str, Json] = {
            "label": self.launcher.label, "kind": self.launcher.kind, "transport": self.launcher.transport,
            "state": self._state, "error": self._error, "pinned": self.revision,
            "revisions": [revision.name for revision in ALL],
            "requires_authorization": self.launcher.logins.required,
        }  # fmt: skip
        client = self._client
        if client is not None:
            info = client.server_info
            introduced = client.session.opened.discovery.get("supportedVersions")
            found |= {
                "revision": client.revision,
                "era": "session" if client.spoken.handshake else "stateless",
                "server_info": None if info is None else info.to_wire(),
                "capabilities": client.capabilities.to_wire(),
                "client_capabilities": dict(client.session.identity.capabilities(client.spoken)),
                "instructions": client.instructions,
                "server_revisions": introduced,
                "evidence": list(client.plan.evidence),
            }
        return found

    def _set(self, state: str, error: dict[str, Json] | None = None) -> None:
        self._state, self._error = state, error
        self.channels.state("target", "", self.target())

    # -- what the server tells -----------------------------------------------------------------------------

    def _new_handler(self, call_of: Callable[[ClientContext], str | None]) -> PageHandler:
        return PageHandler(self.questions, call_of, self.calls.asking)

    def _output_schema(self, name: str, revision: str | None) -> Json:
        """Return the output schema of a tool, if its list was read at that revision."""
        shown = self.target().get("revision")
        tool = self.lists.find("tools", "name", name) if revision == shown else None
        return None if tool is None else tool.get("outputSchema")

    def _tell_verdict(self, event: SeenEvent) -> None:
        value: Json = {"n": event.n, "problems": event.problems}
        self.channels.state("verdict", str(event.n), value, of_event=event.n)

    def _tell_answered(self, exchange: SeenExchange, login: bool) -> None:  # noqa: FBT001 - a callback
        self.launcher.logins.answered(exchange, login=login)
        self.channels.state("status", str(exchange.n), as_json(exchange))

    def _hear(self, data: bytes) -> None:
        """Note what a server over HTTP writes to stderr, which no connection reports."""
        self.log.add(Seen("stderr", "in", "", data, own=True))
        self._take_stderr(data)

    def _take_stderr(self, data: bytes) -> None:
        line: dict[str, Json] = {
            "at": round(self.log.now(), 6), "text": data[-STDERR:].decode(errors="replace"),
        }  # fmt: skip
        self.logs.append(line)
        self.channels.line("stderr", line)

    def _list_changed(self, change: Change) -> None:
        client = self._client
        for kind in _LISTS.get(change.what, ()):
            if client is not None and kind in self.lists.wanted:
                self.lists.load(client, kind)

    def _task_began(self, call_id: str, task_id: str) -> None:
        call = self.calls.get(call_id)
        if call is not None and call.task is None:
            call.task = task_id
            self.calls.tell(call)

    def _observe(self, event: SeenEvent, message: Message | None) -> None:
        """Tell of log messages and of resources that have changed."""
        if not isinstance(message, Notification) or event.dir != "in":
            return
        params = message.params or {}
        if message.method == _LOG:
            line: dict[str, Json] = {
                "at": round(event.at, 6), "n": event.n, "call": event.call, "level": shortened_json(params.get("level"), NAME),
                "logger": shortened_json(params.get("logger"), NAME), "data": shortened_json(params.get("data"), STDERR),
            }  # fmt: skip
            self.logs.append(line)
            self.channels.line("log", line)
        elif message.method == _UPDATED:
            self.channels.line("updated", {"uri": shortened_json(params.get("uri"), STDERR), "n": event.n})

    # -- what the page asks for ----------------------------------------------------------------------------

    def restart(self) -> None:
        """Start the server again, and connect to it."""
        self._background.start(self.connect("restarting"))

    def switch(self, revision: str | None) -> None:
        """Connect again at a revision; None: the one that is negotiated."""
        self._background.start(self.use(revision))

    async def set_level(self, level: str) -> None:
        """Ask for log messages from this level up. Raises `ValueError` and `McpError`."""
        await self.client.set_log_level(level)  # type: ignore[arg-type]
        self._level = level

    async def subscribe(self, uri: str, *, on: bool) -> None:
        """Subscribe to changes of a resource, or unsubscribe. Raises `McpError`."""
        held = self._subscriptions.pop(uri, None)
        if held is not None:
            held[1].cancel()
            with suppress(*FAILURES):
                await held[0].aclose()
        if not on:
            return
        if len(self._subscriptions) >= SUBSCRIPTIONS:
            raise ValueError(f"there are {SUBSCRIPTIONS} subscriptions; end one of them first")
        subscription = self.client.listen(uris=[uri])
        await subscription.__aenter__()
        self._subscriptions[uri] = subscription, self._background.start(_read(subscription))

    def subscribed(self) -> list[Json]:
        """Return the URIs of the resources that are subscribed to."""
        return list(self._subscriptions)

    def roots_changed(self) -> None:
        """Tell the server that the roots have changed."""
        if self._client is not None and self._client.connection.error is None:
            self._client.roots_changed()

    def hello(self) -> dict[str, Json]:
        """Return the first words of a stream."""
        bounds: dict[str, Json] = {"events": EVENTS, "memory": MEMORY, "file": FILE, "shown": SHOWN}
        return {
            "session": self.id,
            "began": self.log.began,
            "first": self.log.first,
            "next": self.log.next,
            "bounds": bounds,
        }

    def state(self) -> dict[str, Json]:
        """Return everything that a page shows which is opened late."""
        return {
            "target": self.target(), "lists": self.lists.documents(), "calls": self.calls.documents(),
            "questions": self.questions.documents(), "tasks": self.tasks.documents(), "logs": list(self.logs),
            "authorization": list(self.launcher.logins.steps), "subscriptions": self.subscribed(),
            "repeat": self.repetitions.shown, "level": self._level, "reload": self.reloaded, "roots": self.questions.roots, "answers": dict(self.questions.saved),
            "first": self.log.first, "next": self.log.next,
        }  # fmt: skip


async def _read(subscription: Subscription) -> None:
    """Take the changes; the messages of the wire tell the page of them."""
    with suppress(*FAILURES):
        async for _ in subscription:
            pass


async def _close(client: Client) -> None:
    with suppress(*FAILURES):
        async with asyncio.timeout(_CLOSING):
            await client.aclose()


def _described(error: BaseException) -> dict[str, Json]:
    """Return an error as the page shows it."""
    found: dict[str, Json] = {
        "text": str(error).strip() or type(error).__name__,
        "kind": type(error).__name__,
    }
    notes: list[str] = getattr(error, "__notes__", [])
    if notes:
        found["notes"] = list(notes)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ProcessExited) and cause.stderr:
            found["traceback"] = cause.stderr
            break
        cause = cause.__cause__ or cause.__context__
    return found
