"""The connections to the server: one upstream is one connection, for the clients that may share it (SEC-6, TIME-1).

An upstream belongs to a key: a session, or the clients that share a principal and capabilities. Calls that the server may
answer with a question of its own hold one exclusively, because over pipes nothing says which call a question is
about. Numbers, waits and idle time are bounded, and each client has a share of what is bounded for all: a principal with
all its sessions and sets of capabilities, a network address, or the client of a pipe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from mcprev.bridge.introduction import ClientIntroduction, ServerIntroduction, UpstreamInfo
from mcprev.bridge.outages import Outage
from mcprev.bridge.probing import preferred
from mcprev.bridge.upstream import Caller, Receiver, ServerMessages, Upstream, logger
from mcprev.client.connect_options import OPEN
from mcprev.client.opener import Opener
from mcprev.client.probing import open_soon
from mcprev.client.targets import Target
from mcprev.core.background import Background
from mcprev.core.shares import Shares, share_of
from mcprev.errors import InternalError, Json, McpError
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.protocol.subscriptions import Changed
from mcprev.revisions import Era, Revision

if TYPE_CHECKING:
    from mcprev.client.recording.recording import Recording


ANSWER: Final = 4.0
"""Seconds that a server has to answer what it may not know, if there is something else to ask it: its client waits for the bridge
meanwhile, often 10 s.
"""
LEAST: Final = 4
"""The connections that a client may have where its share is not set, even if a quarter of all are fewer."""
_LOOK: Final = 1.0
"""Seconds between two looks of a call that waits for a connection."""


class Busy(InternalError):
    """The bridge has reached one of its bounds."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one bridge."""

    per_key: int = 4
    """Connections to the server for calls of one session or principal, without those that wait for a user; further calls
    wait for one."""
    upstreams: int = 64
    """Connections to the server in all."""
    per_client: int | None = None
    """Connections to the server of one principal, or of one network address without authentication, with those of its
    sessions and streams and those that wait for a user; beyond it, the longest unused one is closed for the next. None: a
    quarter of `upstreams`."""
    waiting: int = 256
    """Calls that wait for a connection to the server; of one client a quarter."""
    wait: float = 30.0
    """Seconds that a call waits for a connection to the server."""
    idle: float = 60.0
    """Seconds after which an unused connection to the server is closed."""
    held: int = 256
    """Calls that wait for a user; of one client a quarter."""
    user: float = 600.0
    """Seconds that a user has to answer."""
    grace: float = 30.0
    """Seconds that a user has at least. After them, the call is ended if others need its connection."""
    call: float = 3600.0
    """Seconds that a call to the server may take."""
    max_ttl: float = 3600.0
    """Seconds for which the cache returns a result at most, even if the server allows more."""

    @property
    def share(self) -> int:
        """The connections of one client."""
        return share_of(self.upstreams, LEAST) if self.per_client is None else self.per_client


class Owner(NamedTuple):
    """The client whose share a connection counts for."""

    client: Hashable
    """The principal, address or connection; None for one that nothing tells from others, which has no share."""
    single: bool = True
    """Whether it is one client: a network address may be that of several."""


NOBODY: Final = Owner(None)


class Targets(Protocol):
    """The server as its clients reach it. Hears what comes of each attempt."""

    def of(self, client: ClientIntroduction) -> Target:
        """Return the server as a client reaches it."""
        ...

    def check(self, client: ClientIntroduction) -> None:
        """Raise the error of a server that is not to be asked now on behalf of a client."""
        ...

    def opened(self) -> None:
        """Take note of a connection."""
        ...

    def failed(self, client: ClientIntroduction, error: Exception) -> None:
        """Take note of an attempt that failed."""
        ...


class OneTarget:
    """A server that every client reaches alike."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def of(self, client: ClientIntroduction) -> Target:
        """Return the server."""
        del client
        return self._target

    def check(self, client: ClientIntroduction) -> None:
        """Do nothing: it may always be asked."""

    def opened(self) -> None:
        """Do nothing."""

    def failed(self, client: ClientIntroduction, error: Exception) -> None:
        """Do nothing: whoever waits for the connection gets the error."""


class Upstreams:
    """The upstreams of one bridge in one event loop."""

    def __init__(
        self,
        targets: Targets,
        revisions: tuple[Revision, ...],
        own: Mapping[str, Json],
        bounds: Bounds,
        recording: Recording | None = None,
        outage: Outage | None = None,
    ) -> None:
        self._targets = targets
        self._revisions = revisions
        self._own = own
        self.bounds = bounds
        self._recording = recording
        self._all: dict[Hashable, list[Upstream]] = {}
        self._changed = asyncio.Condition()
        self._waiting = Shares(bounds.waiting)
        self._closing = Background(logger, "the end of a connection to the server")
        self._stopped = False
        self.outage: Outage = Outage() if outage is None else outage
        """Whether those that listen hear of the server's changes."""
        self._look: asyncio.TimerHandle | None = None
        """When unused ones are looked for."""
        self.era: Era | None = None
        """The era of the server, once it is known."""
        self.introduction: ServerIntroduction | None = None
        """What the server said of itself last."""
        self.attributes: bool = False
        """Whether everything that the server sends during a call names the call."""
        self.changed: Callable[[Changed, str | None], None] = lambda _kind, _uri: None
        """Takes the changes that the server tells of, before clients do."""
        self.replaced: Callable[[], None] = lambda: None
        """Called when the server may have become another one."""

    def __len__(self) -> int:
        return sum(len(upstreams) for upstreams in self._all.values())

    def __contains__(self, upstream: Upstream) -> bool:
        return upstream in self._all.get(upstream.key, ())

    async def take(
        self,
        key: Hashable,
        client: ClientIntroduction,
        receiver: Callable[[], Receiver],
        *,
        owner: Callable[[], Owner],
        holder: Caller | None = None,
    ) -> Upstream:
        """Return an open upstream for a key, with a `holder` one that nobody else holds; `give` returns it.

        It counts for the share of the client that `owner` returns. Raises `Busy` if there is none in time, and the error of a server that cannot be reached.
        """
        # Without others that wait, there is nobody to be fair to.
        waits = self._waiting.held or self._stopped
        upstream = None if waits else self._free(key, client, receiver, owner, holder)
        if upstream is None:
            try:
                async with asyncio.timeout(self.bounds.wait):
                    upstream = await self._find(key, client, receiver, owner, holder)
            except TimeoutError:
                raise Busy(f"no connection to the server was free within {self.bounds.wait:g} s") from None
        opening = upstream.opening
        assert opening is not None
        if opening.done() and not opening.cancelled() and opening.exception() is None:
            return upstream
        try:
            await asyncio.shield(opening)
        except BaseException:
            self.give(upstream, holder=holder)
            raise
        return upstream

    async def _find(
        self,
        key: Hashable,
        client: ClientIntroduction,
        receiver: Callable[[], Receiver],
        owner: Callable[[], Owner],
        holder: Caller | None,
    ) -> Upstream:
        waits = False
        try:
            # Nobody is told of a change between a look and the wait for it: both hold the lock.
            async with self._changed:
                while not self._stopped:
                    upstream = self._free(key, client, receiver, owner, holder)
                    if upstream is not None:
                        return upstream
                    if not waits and not self._waiting.take(owner().client):
                        raise Busy("too many calls wait for a connection to the server")
                    waits = True
                    # A call that waits for a user makes room later, which is no change.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK):
                            await self._changed.wait()
            raise Busy("the bridge is shutting down")
        finally:
            if waits:
                self._waiting.give(owner().client)

    def _free(
        self,
        key: Hashable,
        client: ClientIntroduction,
        receiver: Callable[[], Receiver],
        owner: Callable[[], Owner],
        holder: Caller | None,
    ) -> Upstream | None:
        """Return an upstream that can be used now, a new one if needed; None if the bounds allow none."""
        for upstream in tuple(self._all.get(key, ())):
            if not upstream.alive:
                if not upstream.users:
                    self._drop(upstream)
            elif holder is None or (upstream.holder is None and not self._calls_too_much(key, owner())):
                return self._claimed(upstream, owner, holder)
            elif upstream.holder is not None:
                request = upstream.holder.request
                if upstream.settling or not (request is None or request.open):
                    return None
        if (holder is not None and self._calls_too_much(key, owner())) or not self._make_room(owner()):
            return None
        upstream = Upstream(key, receiver(), self.changed, owner().client, self.outage)
        upstream.opening = asyncio.get_running_loop().create_task(self._open(upstream, client))
        upstream.opening.add_done_callback(_retrieved)
        self._all.setdefault(key, []).append(upstream)
        return self._claimed(upstream, owner, holder)

    def _every(self) -> Iterator[Upstream]:
        return (each for upstreams in self._all.values() for each in upstreams)

    def _calls_too_much(self, key: Hashable, owner: Owner) -> bool:
        """Return whether the calls of a client hold as many upstreams as they may: of a principal those of every key."""
        calls = 0
        for each in self._every():
            of_client = each.owner == owner.client if owner.client is not None else each.key == key
            holder = each.holder if of_client else None
            calls += holder is not None and holder.suspended_since is None
        return calls >= (self.bounds.per_key if owner.single else self.bounds.share)

    def _make_room(self, owner: Owner) -> bool:
        """Return whether a client may have one more upstream; one that makes room for it is closed.

        A client that has its share gives one of its own. If there are too many in all, it is one of anybody's.
        """  # SEC-6
        own = [each for each in self._every() if each.owner == owner.client]
        if owner.client is not None and len(own) >= self.bounds.share:
            spare = self._spare(own, least=0.0)
        elif len(self) >= self.bounds.upstreams:
            spare = self._spare(self._every(), least=self.bounds.grace)
        else:
            return True
        if spare is not None:
            self._drop(spare)
        return spare is not None

    def _spare(self, among: Iterable[Upstream], least: float) -> Upstream | None:
        """Return the upstream that can be spared first, if there is one.

        First that which nobody uses, then that of the session which has not been used for the longest time and for
        `least` seconds, then that whose call has waited for its user for the longest time.
        """
        now, found = asyncio.get_running_loop().time(), list[tuple[int, float, Upstream]]()
        for each in among:
            since = None if each.holder is None else each.holder.suspended_since
            if not each.users:
                found.append((0, each.unused_since, each))
            elif each.rests and now - each.unused_since >= least:
                found.append((1, each.unused_since, each))
            elif since is not None and now - since >= self.bounds.grace and each.users == 1:
                found.append((2, since, each))
        return min(found, key=lambda spare: spare[:2])[2] if found else None

    def _claimed(self, upstream: Upstream, owner: Callable[[], Owner], holder: Caller | None) -> Upstream:
        upstream.users += 1
        if holder is not None:
            upstream.holder, upstream.owner = holder, owner().client
        return upstream

    async def _open(self, upstream: Upstream, client: ClientIntroduction) -> None:
        try:
            self._targets.check(client)
        except McpError:
            self._drop(upstream)
            raise
        try:
            await self._connect(upstream, client)
        except Exception as error:
            self._targets.failed(client, error)
            raise
        self._targets.opened()

    async def _connect(self, upstream: Upstream, client: ClientIntroduction) -> None:
        info = UpstreamInfo(client, self._revisions, self._own)
        target = self._targets.of(client)
        falls_back = any(revision.handshake for revision in self._revisions)

        def new_opener() -> Opener:
            opener = Opener(target, info, ANSWER if falls_back else OPEN, OPEN, ServerMessages(upstream))
            if self._recording is not None:
                opener.new_protocol, opener.tap = self._recording.protocol, self._recording.tap
            return opener

        prefer = preferred(client.revision, self._revisions)
        try:
            upstream.opener, opened = await open_soon(
                new_opener, self._closing.start, self.era, prefer=prefer
            )
        except BaseException:
            self._drop(upstream)
            raise
        protocol = opened.connection.protocol
        assert isinstance(protocol, ClientProtocol)
        upstream.link = opened.connection
        now = asyncio.get_running_loop().time()
        upstream.server = ServerIntroduction(protocol.revision, dict(opened.introduction), now)
        if self.introduction is not None and self.introduction.result != upstream.server.result:
            self.replaced()
        self.era, self.introduction = protocol.revision.era, upstream.server
        self.attributes = upstream.attributes
        opened.connection.closed.add_done_callback(lambda _: self._lost(upstream))
        self.outage.reached()

    def _lost(self, upstream: Upstream) -> None:
        if upstream not in self:
            return
        self._drop(upstream)
        self.replaced()
        if not self._stopped:
            upstream.receiver.lost(upstream)

    def rename(self, upstream: Upstream, key: Hashable, owner: Owner) -> None:
        """Let others use an upstream: those with another key; it counts for the share of its new owner."""
        upstream.owner = owner.client
        self._all[upstream.key].remove(upstream)
        if not self._all[upstream.key]:
            del self._all[upstream.key]
        upstream.key = key
        self._all.setdefault(key, []).append(upstream)

    def share(self, upstream: Upstream, holder: Caller) -> None:
        """Let others use an upstream that a call has held so far; the call goes on."""
        if upstream.holder is holder:
            upstream.holder = None
            self._wake()

    def give(self, upstream: Upstream, *, holder: Caller | None = None, keep: bool = True) -> None:
        """Take back an upstream; one that nobody uses is closed after some time, or now unless it is to be kept."""
        upstream.users -= 1
        if holder is not None and upstream.holder is holder:
            upstream.holder = None
        if upstream not in self:
            if not upstream.users:
                self._close(upstream)
        elif not upstream.users and not (keep and upstream.alive):
            self._drop(upstream)
        elif not upstream.users:
            upstream.unused_since = now = asyncio.get_running_loop().time()
            if self._look is None:
                self._look_at(now + self.bounds.idle)
        self._wake()

    def _look_at(self, when: float) -> None:
        self._look = asyncio.get_running_loop().call_at(when, self._close_unused)

    def _close_unused(self) -> None:
        """Close what has not been used for some time, and look again when the next may be due."""
        self._look = None
        now, idle = asyncio.get_running_loop().time(), self.bounds.idle
        unused = [each for upstreams in self._all.values() for each in upstreams if not each.users]
        for each in unused:
            if now - each.unused_since >= idle:
                self._drop(each)
        left = [each.unused_since for each in unused if not each.closed]
        if left:
            self._look_at(min(left) + idle)

    def _drop(self, upstream: Upstream) -> None:
        """Take an upstream out, and close it."""
        known = self._all.get(upstream.key, [])
        if upstream in known:
            known.remove(upstream)
        if not known:
            self._all.pop(upstream.key, None)
        self._close(upstream)
        self._wake()

    def _close(self, upstream: Upstream) -> None:
        if upstream.closed:
            return
        upstream.closed = True
        self._closing.start(self._end(upstream))

    async def _end(self, upstream: Upstream) -> None:
        try:
            await upstream.end()
        except (McpError, OSError):
            logger.exception("a connection to the server could not be closed")

    def _wake(self) -> None:
        if self._waiting.held:
            self._closing.start(self._notify())

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def aclose(self) -> None:
        """Close every upstream."""
        self._stopped = True
        self.outage.end()
        if self._look is not None:
            self._look.cancel()
        self._wake()
        for upstream in [upstream for upstreams in self._all.values() for upstream in upstreams]:
            self._drop(upstream)
        while self._closing:
            await self._closing.finish()


def _retrieved(task: asyncio.Task[None]) -> None:
    """Retrieve the error of an opening that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
