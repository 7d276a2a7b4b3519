"""The sessions of HTTP+SSE: a message that another worker gets is passed to the one that has the stream (SSE-4, HTTP-28).

Credentials stay where they were sent: the principal, the content of the token and the other headers are passed on.
"""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs

from typing_extensions import override

from mcprev.core.connection import Connection
from mcprev.core.interfaces import ServerApp
from mcprev.core.store import Store
from mcprev.error_text import MALFORMED, internal_error, invalid_value
from mcprev.errors import ConnectionLost, InvalidRequest, Json, RpcError, StoreError
from mcprev.protocol.http_request_class import HttpError, wants_answer
from mcprev.sharing.quotas import Quotas
from mcprev.sharing.record import key_of, owner_of
from mcprev.sharing.streams import LOST
from mcprev.sharing.worker import Worker
from mcprev.stores.bounded import LIMIT
from mcprev.transports.http.server.access import Access
from mcprev.transports.http.server.authentication import token_refusal
from mcprev.transports.http.server.body_budget import BodyBudget, BodyShare
from mcprev.transports.http.server.legacy_sse import SESSION, LegacySseServerConnection
from mcprev.transports.http.server.options import HttpSettings
from mcprev.transports.http.server.request import HttpRequest
from mcprev.wire.headers import Headers
from mcprev.wire.jsonrpc import Batch, Malformed, Message, Request, parse
from mcprev.wire.media import is_json
from mcprev.wire.payloads import is_secret

TTL: Final = 86_400.0
"""Seconds after which the record of a session ends; it is renewed while the session lasts."""
AGAIN: Final = 5.0
"""Seconds after which something is stored again that could not be."""
SSE: Final = "sse"
"""The index of all sessions of HTTP+SSE."""
_logger: Final = logging.getLogger("mcprev.sharing")


class PassedRequest(HttpRequest):
    """A request that another worker has received and answers."""

    verb = "POST"

    def __init__(
        self, headers: Headers, principal: str | None, access: Access | None, client: str | None
    ) -> None:
        self.headers: Headers = headers
        self.principal: str | None = principal
        self.access: Access | None = access
        self._client = client

    @property
    @override
    def client(self) -> str | None:
        return self._client

    @property
    @override
    def scope(self) -> Mapping[str, Any]:
        return {}


@dataclass(frozen=True, slots=True)
class _Open:
    """A session whose stream this worker has."""

    key: str
    connection: LegacySseServerConnection
    index: str
    """The index of the sessions of its client, "" if that is not known."""

    def value(self, worker: int) -> bytes:
        """Return what is stored of it."""
        owner = owner_of(self.connection.principal, self.connection.id)
        return json.dumps([worker, owner, self.index]).encode()


class SharedSseSessions:
    """The HTTP+SSE sessions of this worker, and the way to those of others."""

    def __init__(
        self,
        store: Store,
        worker: Worker,
        settings: HttpSettings,
        server: ServerApp[Connection],
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        *,
        limit: int,
        per_client: int,
    ) -> None:
        self._quotas = Quotas(store, SSE, ttl=TTL, limit=limit, per_client=per_client, is_over=self.is_over)
        self._store, self._worker, self._settings, self._start = store, worker, settings, start
        self._server = server
        self._budget = BodyBudget(settings.max_bodies)
        self._open: dict[str, _Open] = {}

    async def opened(self, connection: LegacySseServerConnection, client: str | None) -> HttpError | None:
        """Let the other workers know of a session, or return how it is refused. Raises `StoreError`."""
        index = "" if client is None else self._quotas.client_index(client)
        session = _Open(key_of(connection.id), connection, index)
        refused = await self._count(session)
        if refused is not None:
            return refused
        self._open[session.key] = session
        renewing = self._start(self._renew(session))

        def closed(_: object) -> None:
            renewing.cancel()
            del self._open[session.key]
            self._start(self._forget(session.key, index))

        connection.closed.add_done_callback(closed)
        return None

    async def _count(self, session: _Open) -> HttpError | None:
        """Count a session, and store that this worker has it; or return how it is refused. Raises `StoreError`."""
        await self._worker.start()
        refused = await self._quotas.take(session.index, None, null_id=True)
        if refused is None:
            try:
                await self._write(session)
            except BaseException:
                self._start(self._forget(session.key, session.index, stored=False))
                raise
        return refused

    async def _renew(self, session: _Open) -> None:
        """Store again that this worker has a session, while the session lasts."""
        pause = TTL / 3
        while True:
            await asyncio.sleep(pause)
            pause = TTL / 3
            try:
                await self._write(session)
            except StoreError as error:
                self._worker.complain("a session of HTTP+SSE is renewed later", error)
                pause = AGAIN

    async def _write(self, session: _Open) -> None:
        value = session.value(await self._worker.start())
        await asyncio.gather(
            self._quotas.mark(session.index, session.key, value),
            self._store.write(f"sse/{session.key}", value, ttl=TTL, index=SSE),
        )

    async def _forget(self, key: str, index: str, *, stored: bool = True, seen: int | None = None) -> None:
        """Remove a session, unless another worker has done so; one that is not `stored` for sure was counted.

        While the store is away, it is tried again: what is left of a session counts for as long as its worker lives.
        """
        failed = False
        while True:
            try:
                gone = await self._store.remove(f"sse/{key}", seen=seen)
                if failed:
                    # What was done before is not known, so nothing is subtracted: at the limit it is counted anew.
                    await self._quotas.discard(index, key)
                elif gone or not stored:
                    await self._quotas.give_back(index, key)
            except StoreError as error:
                failed = True
                self._worker.complain("a session of HTTP+SSE that has ended is still counted", error)
                await asyncio.sleep(AGAIN)
            else:
                return

    def lapsed(self) -> None:
        """Go on with the sessions under the next number of this worker: under the last one, they have ended for others."""
        for session in tuple(self._open.values()):
            self._start(self._go_on(session))

    async def _go_on(self, session: _Open) -> None:
        while session.key in self._open:
            try:
                refused = await self._count(session)
            except StoreError as error:
                self._worker.complain("a session of HTTP+SSE is unknown to other workers", error)
                await asyncio.sleep(AGAIN)
                continue
            if refused is not None:
                why = "others have taken the room of the session"
                session.connection.ended(ConnectionLost(why, in_flight=True, retry_safe=False))
            return

    async def is_over(self, value: bytes) -> bool:
        """Return whether the worker of a session is dead, given its record or mark."""
        with suppress(StoreError):  # another version may have written it
            worker, *_ = _decoded(value)
            return not await self._worker.is_alive(worker)
        return False

    async def post(self, body: bytes, http_request: HttpRequest) -> HttpError | None:
        """Pass a message on, and return how it is refused, if so. Raises `StoreError`."""
        query = parse_qs(http_request.scope.get("query_string", b"").decode("latin-1"))
        session_id = query.get(SESSION, [""])[0]
        key = key_of(session_id)
        record = await self._store.read(f"sse/{key}")
        worker, owner, index = (0, None, "") if record is None else _decoded(record.value)
        version = None if record is None else record.version
        if not worker or owner != owner_of(http_request.principal, session_id):
            return _refuse(404, "there is no such session")
        if not is_json(http_request.headers.get(b"content-type")):
            return _refuse(415, "the body has to be application/json")
        headers = {
            name: text for name, text in http_request.headers.texts().items() if not is_secret(name)
        }  # credentials are not stored
        message: dict[str, Json] = {
            "kind": "sse",
            "key": key,
            "body": b64encode(body).decode(),
            "headers": headers,
            "principal": http_request.principal,
            "from": http_request.client,
            "access": None if http_request.access is None else _packed(http_request.access),
            "root": http_request.root,
        }
        try:
            answers = await self._worker.ask({worker}, message, wait=LIMIT)
            if worker in answers:
                answer = answers[worker]
                return None if answer is None else _error(answer)
            if not await self._worker.is_alive(worker):
                await self._forget(key, index, seen=version)
                return HttpError(404, RpcError.from_wire(LOST), null_id=True)
            error = StoreError(f"worker {worker} does not respond")
        except StoreError as found:
            error = found
        read = parse(body, batch=True, max_values=self._settings.max_values)
        if isinstance(read, Malformed) or not wants_answer(read):
            raise error  # the client sends it again: it does no harm to take it twice
        _logger.warning("it is not known whether a message reached worker %d: %s", worker, error)
        return HttpError(503, internal_error(error, may_have_run=True), null_id=True)

    async def take(self, message: dict[str, Json]) -> Json:
        """Process a message that another worker has passed on; return how it is refused."""
        session = self._open.get(message["key"])
        if session is None:
            return _told(_refuse(404, "there is no such session"))
        connection = session.connection
        pairs = [
            (str(name).encode(), str(text).encode("latin-1")) for name, text in message["headers"].items()
        ]
        access = self._access(message["access"], message["root"]) if message["access"] else None
        http_request = PassedRequest(Headers.of(pairs), message["principal"], access, message.get("from"))
        body = b64decode(message["body"])
        http_request.share = BodyShare(self._budget, body, http_request)
        try:
            if access is not None:
                connection.renew(access)
            refused = self._budget.refusal(http_request.share)
            most = self._settings.max_values
            read = parse(body, batch=True, max_values=most)
            refused = refused or await self._refusal(access, message["root"], read)
            refused = refused or connection.take(body, http_request, most)
        finally:
            http_request.share.release()
        return None if refused is None else _told(refused)

    def _access(self, packed: Json, root: str) -> Access:
        """Return the content of a token, as the worker that got it has checked it."""
        access = Access(**packed)

        async def refusal(method: str, params: Mapping[str, Json]) -> RpcError | None:
            reject = await self._refusal(access, root, Request(0, method, {**params}))
            return None if reject is None else reject.error

        object.__setattr__(access, "refusal", refusal)
        return access

    async def _refusal(self, access: Access | None, root: str, message: Message | Batch) -> HttpError | None:
        """Return the error response if a message needs more scopes than a token has."""
        auth = self._settings.auth
        if access is None or auth is None:
            return None
        return await token_refusal(auth.at(root), access, message, self._server.canonical_uri)


def _decoded(value: bytes) -> tuple[int, Json, str]:
    """Return the worker of a session, its owner and the index of its client. Raises `StoreError`."""
    try:
        decoded: list[Json] = json.loads(value)
        worker, owner, *more = decoded
        return int(worker), owner, str(more[0]) if more else ""
    except MALFORMED as error:
        raise invalid_value("a session of HTTP+SSE") from error


def _packed(access: Access) -> dict[str, Json]:
    return {
        "subject": access.subject,
        "audience": list(access.audience),
        "scopes": sorted(access.scopes),
        "client_id": access.client_id,
        "expires": access.expires,
        "audience_checked": access.audience_checked,
        "claims": {**access.claims},
    }


def _refuse(status: int, why: str) -> HttpError:
    return HttpError(status, InvalidRequest(f"Invalid Request: {why}"), null_id=True)


def _told(refused: HttpError) -> dict[str, Json]:
    headers = [[name.decode(), value.decode()] for name, value in refused.headers]
    return {
        "status": refused.status,
        "error": refused.error.to_wire(),
        "id": refused.id,
        "null_id": refused.null_id,
        "headers": headers,
    }


def _error(told: dict[str, Json]) -> HttpError:
    headers = tuple((str(name).encode(), str(value).encode()) for name, value in told["headers"])
    return HttpError(
        told["status"],
        RpcError.from_wire(told["error"]),
        told["id"],
        null_id=told["null_id"],
        headers=headers,
    )
