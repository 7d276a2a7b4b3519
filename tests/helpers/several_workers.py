"""Several workers of one server in one process: a front that never gives two requests in a row to the same one."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

import pytest

import mcprev
from helpers.asgi_bridge import Client
from helpers.running import run, until
from helpers.served import Served
from mcprev.errors import StoreError
from mcprev.sharing.sessions import SharedSessions
from mcprev.sharing.worker import LEASE
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.sessions import Session, Sessions


class Directory:
    """The sessions of all workers, as a test looks at those of one server."""

    def __init__(self, apps: list[AsgiApp]) -> None:
        self._apps = apps

    def _all(self) -> Iterator[Sessions]:
        for app in self._apps:
            yield app.dispatcher.sessions

    def all(self) -> tuple[Session, ...]:
        """A copy of each session."""
        return tuple({session.id: session for each in self._all() for session in each.all()}.values())

    def __len__(self) -> int:
        return len(self.all())

    def find(self, session_id: bytes, principal: str | None) -> Session | None:
        """A copy of a session."""
        found = (each.find(session_id, principal) for each in self._all())
        return next((session for session in found if session is not None), None)

    def expire(self) -> float | None:
        """End what is idle; the seconds until the next may be."""
        waits = [wait for each in self._all() if (wait := each.expire()) is not None]
        return min(waits, default=None)


class Front:
    """An ASGI app in front of workers: it gives no two requests in a row to the same one."""

    def __init__(self, apps: list[AsgiApp], seed: int = 0) -> None:
        self.apps = apps
        self.sessions = Directory(apps)
        self._random = random.Random(seed)  # noqa: S311 - tests only
        self._last = -1
        self.given: list[int] = []
        """The number of the worker of each request."""

    def next(self) -> int:
        """The number of the worker for the next request."""
        others = [number for number in range(len(self.apps)) if number != self._last]
        self._last = self._random.choice(others)
        return self._last

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
            return
        number = self.next()
        self.given.append(number)
        await self.apps[number](scope, receive, send)

    async def _lifespan(self, scope: Any, receive: Any, send: Any) -> None:
        """Give each event to all workers, one after the other."""
        given: list[asyncio.Queue[Any]] = [asyncio.Queue() for _ in self.apps]
        said: list[asyncio.Queue[Any]] = [asyncio.Queue() for _ in self.apps]
        running = [
            asyncio.ensure_future(app(scope, to.get, back.put))
            for app, to, back in zip(self.apps, given, said, strict=True)
        ]
        ended = False
        while not ended:
            message = await receive()
            answers: list[Any] = []
            for to, back in zip(given, said, strict=True):
                to.put_nowait(message)
                answers.append(await back.get())
            failed = [answer for answer in answers if answer["type"].endswith("failed")]
            await send((failed or answers)[0])
            ended = bool(failed) or message["type"].endswith("shutdown")
        for task in running:
            task.cancel()
        await asyncio.wait(running)

    async def aclose(self, **options: Any) -> None:
        """Stop all workers."""
        await asyncio.gather(*(app.aclose(**options) for app in self.apps))

    def fail_requests(self) -> None:
        for app in self.apps:
            app.fail_requests()

    @property
    def dispatcher(self) -> Front:
        """What a test looks at: `sessions`, `sse` and `shared`."""
        return self

    @property
    def sse(self) -> list[object]:
        """The sessions of HTTP+SSE of all workers."""
        return [connection for app in self.apps for connection in app.dispatcher.sse.all()]

    @property
    def shared(self) -> Any:
        """The stateless connection of one worker."""
        return self.apps[0].dispatcher.shared

    @property
    def server(self) -> mcprev.Server:
        """The server of one worker."""
        return self.servers[0]

    @property
    def servers(self) -> list[mcprev.Server]:
        """The servers of all workers."""
        return [app.server for app in self.apps if isinstance(app.server, mcprev.Server)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.apps[0], name)


def memory(**modes: Any) -> mcprev.MemoryStore:
    """A store in memory on the clock of the running loop, which may be virtual."""
    return mcprev.MemoryStore(clock=asyncio.get_running_loop().time, **modes)


class Away(mcprev.MemoryStore):
    """A store that can be away, slow, or lose what it holds."""

    def __init__(self) -> None:
        super().__init__(clock=asyncio.get_running_loop().time)
        self.away = False
        self.slow = False

    async def _check(self) -> None:
        if self.slow:
            await asyncio.sleep(3600)
        if self.away:
            raise StoreError("the store is away")

    async def read(self, key: str, /) -> Any:
        await self._check()
        return await super().read(key)

    async def write(self, key: str, value: bytes, /, **options: Any) -> Any:
        await self._check()
        return await super().write(key, value, **options)

    async def remove(self, key: str, /, **options: Any) -> bool:
        await self._check()
        return await super().remove(key, **options)

    async def append(self, log: str, items: Any, /, **options: Any) -> Any:
        await self._check()
        return await super().append(log, items, **options)

    async def tail(self, log: str, after: int, /, *, wait: float = 0.0) -> Any:
        await self._check()
        found = await super().tail(log, after, wait=wait)
        await self._check()
        return found

    def forget(self) -> None:
        """Lose everything, as a server does that restarts without its data."""
        for key in tuple(self._held):
            self._drop(key)
        self._logs.clear()


def remember(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remember with which arguments servers are made, so that `fellows` makes more of the same."""
    make = mcprev.Server.__init__

    def init(server: mcprev.Server, *arguments: Any, **options: Any) -> None:
        make(server, *arguments, **options)
        _made[server] = arguments, options

    monkeypatch.setattr(mcprev.Server, "__init__", init)


_made: WeakKeyDictionary[mcprev.Server, tuple[tuple[Any, ...], dict[str, Any]]] = WeakKeyDictionary()


def fellows(server: mcprev.Server, number: int, store: mcprev.Store) -> list[mcprev.Server]:
    """Servers of the same handler with the same options, each with connections, schemas and tasks of its own.

    What is announced by `server` is announced by one of them. `remember` was called before `server` was made.
    """
    arguments, options = _made[server]
    found: list[mcprev.Server] = []
    for _ in range(number):
        made = mcprev.Server(*arguments, **{"store": store, **options})
        made.routes, made.guard = server.routes, server.guard
        if made.tasks is not None and server.tasks is not None:
            made.tasks.support, made.tasks.sees = server.tasks.support, server.tasks.sees
        found.append(made)
    return found


def sessions_of(app: AsgiApp) -> SharedSessions:
    """The directory of one worker."""
    directory = app.dispatcher.directory
    assert isinstance(directory, SharedSessions)
    return directory


def at(front: Front, client: Client, number: int) -> Client:
    """The same client of the same session, at one worker."""
    found = Client(front.apps[number])
    found.session, found.revision = client.session, client.revision
    return found


async def lapse() -> None:
    """Let the lease of a worker that is dead end."""
    await asyncio.sleep(LEASE + 2)


async def kill(app: AsgiApp) -> None:
    """End a worker as a process that is killed: nothing more of it reaches the store or a client."""
    sessions = sessions_of(app)
    sessions.worker.abandon()
    sessions.changes.on_read.clear()
    sessions.changes.on_away.clear()
    tasks = set(sessions.background)
    if sessions._ticking is not None:
        tasks.add(sessions._ticking)
    for copy in sessions._by_key.values():
        session = copy.session
        copy.drop()
        session.lives_on = False
        for response_stream in tuple(session.response_streams):
            response_stream._stop()
        tasks |= set(session._tasks)
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


@asynccontextmanager
async def fronted(
    server: mcprev.Server, store: mcprev.Store, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> AsyncGenerator[Front, None]:
    """Three workers like `server` behind a front; what `server` announces, one of them does."""
    servers = fellows(server, 3, store)
    front = Front([each.asgi(**options) for each in servers])

    def changed(*what: str) -> None:
        servers[front.next()].changed(*what)

    monkeypatch.setattr(server, "changed", changed)
    try:
        yield front
    finally:
        await front.aclose()
        await until(lambda: not any(each._connections for each in servers))
        for each in servers:
            await each.aclose()


def work(
    test: Callable[[Served, Callable[..., Front]], Any],
    make_store: Callable[[], mcprev.Store],
    run: Callable[[Coroutine[Any, Any, None]], object] = run,
    number: int = 3,
    **server_options: Any,
) -> None:
    """Run a test as `served.work` does, with a way to make fronts of several workers that share a handler and a store."""

    async def main() -> None:
        handler, store = Served(), make_store()
        options: dict[str, Any] = {"store": store, **server_options}
        servers = [mcprev.Server(handler, "served", "1", **options) for _ in range(number)]
        fronts: list[Front] = []

        def make(**options: Any) -> Front:
            fronts.append(Front([server.asgi(**options) for server in servers]))
            return fronts[-1]

        try:
            await test(handler, make)
        finally:
            handler.gate.set()
            for front in fronts:
                await front.aclose()
            await store.aclose()

    run(main())
