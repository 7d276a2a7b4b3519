"""The calls of the page: sent by a client, followed to their end, and cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from json import JSONDecodeError, JSONDecoder
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic import ValidationError

from mcprev.core.background import Background
from mcprev.dev.channels import Channels, shortened_json
from mcprev.dev.event_log import EventLog
from mcprev.dev.events import IN, OUT, SeenEvent
from mcprev.dev.questions import CURRENT
from mcprev.errors import Json, McpError, RpcError
from mcprev.protocol.tasks import GET, RESULT
from mcprev.revisions import LATEST
from mcprev.wire.jsonrpc import Message, Response
from mcprev_types import Direction, Kind

if TYPE_CHECKING:
    from mcprev.client.client import Client

KEPT: Final = 2000
"""How many calls are kept; the oldest that have ended are dropped."""
OPEN: Final = 200
"""How many calls may be open at once."""
SHOWN: Final = 10 * 1024 * 1024
"""The maximum length of a result that is sent to the page, in bytes."""
LISTED: Final = 64 * 1024
"""The maximum length of a result in a list of all calls."""
TOOL: Final = "tools/call"
ALL: Final = 8 * 1024 * 1024
"""The maximum length of all results in a list of all calls; the newest are in it."""
SAID: Final = 16 * 1024
"""The maximum length of a text or of data in the progress or error of a call; the event has all of it."""
_RESTORED: Final = (
    "again_of", "state", "progress", "error", "ended", "first", "last", "response", "task",
)  # fmt: skip
_ENDED: Final = frozenset({"done", "failed", "cancelled"})
_decoder: Final = JSONDecoder(strict=False)
_logger: Final = logging.getLogger("mcprev.dev")
ClientAt: TypeAlias = "Callable[[str | None], Awaitable[Client]]"
"""Returns the client at a revision; None: that of the page."""


@dataclass(slots=True)
class PageCall:
    """One call of the page."""

    id: str
    method: str
    params: dict[str, Json]
    revision: str | None
    """The revision that was asked for, and once it is sent, the revision that it was sent at."""
    started: float
    again_of: str | None = None
    state: str = "open"
    progress: dict[str, Json] | None = None
    error: dict[str, Json] | None = None
    ended: float | None = None
    first: int | None = None
    """The number of the first event of the call."""
    last: int | None = None
    response: int | None = None
    """The number of the event with the result."""
    task: str | None = None
    running: asyncio.Task[None] | None = None


class TooManyCalls(ValueError):
    """A call that is not made, because too many are open."""


class Calls:
    """The calls of a session."""

    def __init__(self, log: EventLog, channels: Channels, client_at: ClientAt) -> None:
        self._log, self._channels, self._client_at = log, channels, client_at
        self._calls: OrderedDict[str, PageCall] = OrderedDict()
        self._background = Background(_logger, "a call of the page")
        self._count = 0
        log.observers.append(self._observe)
        log.only_call = self._only_open

    def get(self, id_: str) -> PageCall | None:
        """Return a call; None if there is none, or no longer."""
        return self._calls.get(id_)

    def documents(self, most: int = LISTED, together: int = ALL) -> list[Json]:
        """Return all calls that are kept; results of more than `most` bytes are left out, and the oldest beyond `together`."""
        found: list[Json] = []
        for call in reversed(self._calls.values()):
            document = self.document(call, min(most, together))
            together -= len(document.get("result") or "")
            found.append(document)
        return found[::-1]

    def document(self, call: PageCall, most: int = SHOWN) -> dict[str, Json]:
        """Return a call as the page shows it; a result of more than `most` bytes is left out."""
        found: dict[str, Json] = {
            "call": call.id, "state": call.state, "method": call.method, "params": call.params,
            "revision": call.revision, "started": call.started, "ended": call.ended, "first": call.first,
            "last": call.last, "response": call.response, "progress": call.progress, "error": call.error,
            "task": call.task, "again_of": call.again_of,
        }  # fmt: skip
        name = call.params.get("name", call.params.get("uri"))
        if isinstance(name, str):
            found["name"] = name
        if call.response is not None:
            body = self._log.body(call.response)
            if body is not None and len(body) <= most:
                found["result"] = self._result(call.response, body.decode(errors="replace"))
            else:
                found["result_left_out"] = 0 if body is None else len(body)
        return found

    def _result(self, number: int, text: str) -> str | None:
        """Return the result in a response, which in that of `tasks/get` is a member of the task."""
        event = self._log.get(number)
        found = member_text(text, "result")
        is_task = event is not None and event.method == GET and found is not None
        return member_text(found, "result") if is_task and found is not None else found

    def restore(self, documents: Sequence[Mapping[str, Json]]) -> None:
        """Take over the calls of a saved session. Raises `KeyError` and `TypeError` for what is none."""
        for found in documents[-KEPT:]:
            call = PageCall(
                str(found["call"]),
                str(found["method"]),
                dict(found["params"]),
                found.get("revision"),
                float(found["started"]),
            )
            for name in _RESTORED:
                setattr(call, name, found.get(name))
            for name in ("first", "last", "response"):
                number: Json = found.get(name)
                if not isinstance(number, int | None):
                    raise TypeError("the number of an event is not a whole number")
            self._calls[call.id] = call

    def start(
        self,
        method: str,
        params: dict[str, Json],
        *,
        revision: str | None = None,
        as_task: bool = False,
        meta: dict[str, Json] | None = None,
        again_of: str | None = None,
    ) -> PageCall:
        """Make a call. Raises `TooManyCalls`."""
        if sum(call.state not in _ENDED for call in self._calls.values()) >= OPEN:
            raise TooManyCalls(f"{OPEN} calls are open; cancel one of them first")
        self._count += 1
        call = PageCall(f"call{self._count}", method, params, revision, round(self._log.now(), 6), again_of)
        self._calls[call.id] = call
        while len(self._calls) > KEPT:
            old = next((each.id for each in self._calls.values() if each.state in _ENDED), None)
            if old is None:
                break
            del self._calls[old]
        call.running = self._background.start(self._run(call, revision, meta or {}, as_task=as_task))
        self.tell(call)
        return call

    def cancel(self, call: PageCall) -> None:
        """Cancel a call; does nothing if it has ended."""
        if call.running is not None and call.state not in _ENDED:
            call.running.cancel()

    async def aclose(self) -> None:
        """Cancel all calls and wait for their end."""
        await self._background.aclose(2.0)

    def tell(self, call: PageCall) -> None:
        """Show the state of a call on the page."""
        self._channels.state("call", call.id, self.document(call))

    def asking(self, call_id: str | None, asking: bool) -> None:  # noqa: FBT001 - a callback
        """Set whether a call waits for an answer of the user."""
        call = None if call_id is None else self._calls.get(call_id)
        if call is not None and call.state not in _ENDED:
            call.state = "asking" if asking else "open"
            self.tell(call)

    def _only_open(self) -> str | None:
        """Return the one call that is open; None if there are more or none."""
        found = [call.id for call in self._calls.values() if call.state not in _ENDED]
        return found[0] if len(found) == 1 else None

    async def _run(
        self, call: PageCall, revision: str | None, meta: dict[str, Json], *, as_task: bool
    ) -> None:
        CURRENT.set(call.id)
        state, error = "done", None
        try:
            client = await self._client_at(revision)
            call.revision = client.revision
            await self._send(client, call, meta, as_task=as_task)
        except asyncio.CancelledError:
            state = "cancelled"
        except RpcError as failure:
            state, error = "failed", {
                name: shortened_json(value, SAID) for name, value in failure.to_wire().items()
            }
        except (McpError, OSError, TimeoutError, ValueError, ValidationError, TypeError) as failure:
            # A result that is not valid has come nevertheless, and the page shows it.
            state = "failed" if call.response is None else "done"
            error = {"code": None, "message": shortened_json(str(failure), SAID) or type(failure).__name__}
        call.state, call.error, call.ended = state, error, round(self._log.now(), 6)
        self.tell(call)

    async def _send(self, client: Client, call: PageCall, meta: dict[str, Json], *, as_task: bool) -> None:
        def report(progress: float, total: float | None, message: str | None) -> None:
            call.progress = {"progress": progress, "total": total, "message": shortened_json(message, SAID)}
            self.tell(call)

        if as_task and call.method == TOOL:
            name, arguments = call.params.get("name"), call.params.get("arguments")
            task = await client.start_tool(str(name), arguments, progress=report, meta=meta)
            if task.id:
                call.task = task.id
                await task.result()
            return
        spec = LATEST.methods.get(call.method)
        known = (
            spec is not None and spec.kind == Kind.REQUEST and Direction.CLIENT_TO_SERVER in spec.directions
        )
        if known and call.method in client.spoken.methods:
            await client.call(call.method, call.params, progress=report, meta=meta)
        else:
            await client.raw(call.method, call.params or None, meta=meta)

    def _observe(self, event: SeenEvent, message: Message | None) -> None:
        """Note the events of a call, and its result."""
        call = None if event.call is None else self._calls.get(event.call)
        if call is None:
            return
        call.first = call.first or event.n
        call.last = event.n
        if event.dir == OUT and event.shape == "request" and event.method == call.method:
            call.response = None  # the call is sent once more, with what was asked for
        if event.dir == IN and isinstance(message, Response):
            result: object = message.result
            in_task = event.method == GET and isinstance(result, dict) and "result" in result
            if in_task or event.method in (call.method, RESULT):
                call.response = event.n


def member_text(text: str, name: str) -> str | None:
    """Return the text of a member of a JSON object as it was written; None if there is none."""
    found: str | None = None
    with suppress(JSONDecodeError, RecursionError, IndexError):
        at = _after_space(text, 0)
        if text[at] != "{":
            return None
        at = _after_space(text, at + 1)
        while text[at] != "}":
            key, at = _value(text, at)
            at = _after_space(text, _after_space(text, at) + 1)
            _, end = _value(text, at)
            if key == name:
                found = text[at:end]
            at = _after_space(text, end)
            if text[at] == ",":
                at = _after_space(text, at + 1)
    return found


def _value(text: str, at: int) -> tuple[Any, int]:
    return _decoder.raw_decode(text, at)


def _after_space(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at
