"""Tasks of a server that a bridge follows for clients that do not see them (TASK-1, TASK-4, TASK-8, TASKX-1..4).

A tool of a server with tasks in the protocol may have to be called as a task, and a server with the extension may answer
any call with one. The bridge waits for the end, and asks the client what the server asks meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from mcprev.bridge.introduction import ServerIntroduction
from mcprev.bridge.pair import Pair
from mcprev.bridge.upstream import Caller, Upstream
from mcprev.client.tasks import CANCEL_TIMEOUT, FIRST, LEAST, MOST
from mcprev.conversion.rules import JsonObject, as_list, as_object, without
from mcprev.errors import InternalError, Json, McpError, RequestTimeout, RpcError
from mcprev.protocol import tasks
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.durations import seconds_of
from mcprev.protocol.tasks import Status, Support
from mcprev.revisions import Revision, TaskSupport
from mcprev.wire.json_values import is_json_object
from mcprev.wire.meta_keys import CLIENT_CAPABILITIES, RELATED

Ask: TypeAlias = Callable[[str, JsonObject], Awaitable[JsonObject]]
"""Asks the client one input request under a key; request and answer are of the server's revision."""
Note: TypeAlias = Callable[[str], Awaitable[None]]
"""Takes the status message of a task."""
Start: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
"""Runs a coroutine in the background."""


def as_task(params: JsonObject | None) -> JsonObject:
    """Return the params of a call that asks for a task, where tasks are part of the protocol."""
    return {**(params or {}), tasks.TASK: {}}


def declared(stamp: JsonObject, server: ServerIntroduction) -> JsonObject:
    """Return the `_meta` of a request of a session, with the capability to be answered with a task."""
    if server.revision.tasks is not TaskSupport.EXTENSION or not server.offers_tasks:
        return stamp
    capabilities = as_object(stamp.get(CLIENT_CAPABILITIES))
    extensions: JsonObject = {**as_object(capabilities.get("extensions")), tasks.EXTENSION: {}}
    return {**stamp, CLIENT_CAPABILITIES: {**capabilities, "extensions": extensions}}


def marked(result: JsonObject, pair: Pair, server: ServerIntroduction) -> JsonObject:
    """Return a list of tools for a client that asks for tasks: any call may be one, where the server decides."""
    tools = as_list(result.get("tools"))
    if (
        pair.same
        or not pair.shows_tasks
        or pair.client.tasks is not TaskSupport.CORE
        or tools is None
        or not server.offers_tasks
    ):
        return result
    support = {"taskSupport": str(Support.OPTIONAL)}
    listed = [
        {**as_object(tool), "execution": {**as_object(as_object(tool).get("execution")), **support}}
        for tool in tools
    ]
    return {**result, "tools": listed}


async def follow_to_end(
    upstream: Upstream,
    result: JsonObject,
    ask: Ask | None,
    meta: JsonObject | None,
    total: float,
    start: Start,
    *,
    note: Note | None = None,
    caller: Caller | None = None,
) -> JsonObject:
    """Return the result of a call that was answered with a task, when it ends; a result that is none at once.

    `meta` is that of stateless requests. The task is cancelled with the call. Raises `McpError`.
    """
    revision = upstream.revision
    if not tasks.is_task(result, revision):
        return result
    state = task_of(result, revision)
    params: JsonObject = {"taskId": state["taskId"]} | ({} if meta is None else {"_meta": meta})
    try:
        async with upstream.connection.pauses.bound(total):
            if revision.tasks is TaskSupport.CORE:
                found = await upstream.call(tasks.RESULT, params, total=total, caller=caller)
                return unrelated(found)
            return await _Polling(upstream, params, ask, total, note).result(state)
    except TimeoutError:
        start(cancel_task(upstream, params))
        raise InternalError(f"the task of the server has not ended within {total:g} s") from None
    except (asyncio.CancelledError, RequestTimeout, NotAsked):
        start(cancel_task(upstream, params))
        raise


def task_of(result: JsonObject, revision: Revision) -> JsonObject:
    """Return the task that a call was answered with. Raises `InternalError` if it has no id."""
    state = as_object(result.get("task")) if revision.tasks is TaskSupport.CORE else result
    if not isinstance(state.get("taskId"), str):
        raise InternalError("the server responded with a task that has no id")
    return state


def unrelated(result: JsonObject) -> JsonObject:
    """Return a result without the id of the server's task, which its client has never heard."""
    meta = without(as_object(result.get("_meta")), RELATED)
    return {**without(result, "_meta"), **({"_meta": meta} if meta else {})}


async def cancel_task(upstream: Upstream, params: JsonObject) -> None:
    """Cancel a task of the server, whatever it answers."""
    with suppress(McpError):
        await upstream.call(tasks.CANCEL, params, total=CANCEL_TIMEOUT)


async def cancel_call(
    upstream: Upstream, call: asyncio.Future[JsonObject], meta: JsonObject | None, seconds: float
) -> None:
    """Cancel a call, or the task that it was answered with; one that is answered within some seconds is not lost."""
    await asyncio.wait({call}, timeout=seconds)
    if not call.done():
        call.cancel()
    elif (
        not call.cancelled() and call.exception() is None and tasks.is_task(call.result(), upstream.revision)
    ):
        with suppress(InternalError):
            params: JsonObject = {"taskId": task_of(call.result(), upstream.revision)["taskId"]}
            await cancel_task(upstream, params | ({} if meta is None else {"_meta": meta}))


class NotAsked(InternalError):
    """A question of a task has no answer."""


class _Polling:
    """Follows one task of a server of the extension."""

    def __init__(
        self, upstream: Upstream, params: JsonObject, ask: Ask | None, total: float, note: Note | None
    ) -> None:
        self._upstream = upstream
        self._params = params
        self._ask = ask
        self._total = total
        self._note = note
        self._asking: dict[str, asyncio.Future[JsonObject]] = {}
        self._sent: set[str] = set()
        """The keys whose answers were sent."""
        self._message: object = None

    async def result(self, state: JsonObject) -> JsonObject:
        """Return the result of the task. Raises `McpError`."""
        wait = FIRST
        try:
            while state.get("status") not in tasks.FINAL:
                await self._look(state)
                waits = set(self._asking.values()) - {task for task in self._asking.values() if task.done()}
                seconds = min(wait, _interval(state))
                if waits:
                    await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.sleep(seconds)
                await self._answer()
                wait = min(2 * wait, MOST)
                state = await self._upstream.call(tasks.GET, self._params, total=self._total)
        finally:
            for asking in self._asking.values():
                asking.cancel()
        error, result = state.get("error"), state.get("result")
        if state["status"] == Status.CANCELLED:
            raise InternalError("the server has cancelled the task")
        if is_json_object(error):
            raise RpcError.from_wire(error)
        if not is_json_object(result):
            raise InternalError("the task of the server has ended with neither result nor error")
        return result

    async def _look(self, state: JsonObject) -> None:
        """Ask what is asked for the first time, and pass on a new status message."""  # TASKX-3
        message = state.get("statusMessage")
        if self._note is not None and isinstance(message, str) and message != self._message:
            self._message = message
            await self._note(message)
        for key, request in as_object(state.get("inputRequests")).items():
            if key not in self._asking:
                if self._ask is None:
                    raise NotAsked("the task requests input, which its client does not support")
                asked = asyncio.ensure_future(self._ask(key, as_object(request)))
                asked.add_done_callback(_retrieved)
                self._asking[key] = asked

    async def _answer(self) -> None:
        """Send the answers that have come since. Raises the error of a question, and `McpError`."""
        answers: JsonObject = {}
        for key, asked in self._asking.items():
            if asked.done() and key not in self._sent:
                self._sent.add(key)
                try:
                    answers[key] = asked.result()
                except McpError as error:
                    raise NotAsked(str(error)) from error
        if answers:
            update = {**self._params, "inputResponses": answers}
            await self._upstream.call(tasks.UPDATE, update, total=self._total)


def _retrieved(asked: asyncio.Future[JsonObject]) -> None:
    if not asked.cancelled():
        asked.exception()


def _interval(state: Mapping[str, Json]) -> float:
    """Return the seconds to wait before the next look at a task."""
    found = seconds_of(state.get("pollIntervalMs"), least=LEAST, most=MOST)
    return tasks.DEFAULT_POLL / 1000 if found is None else found


def related_task(asked: IncomingRequest) -> object:
    """Return the id of the task that a question of a server belongs to, or None."""
    meta = as_object((asked.params or {}).get("_meta"))
    return as_object(meta.get(RELATED)).get("taskId")
