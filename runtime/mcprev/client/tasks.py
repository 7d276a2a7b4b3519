"""Tasks on a server: those that a client starts, and those that it follows because a call was answered with one.

TASK-3, TASK-4, TASK-8, TASKX-4. Where tasks are part of the protocol the client asks for one; where they are an
extension the server decides, and may answer any call of a client that has declared the extension with a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from mcprev.client.calls import result_reader, until
from mcprev.conversion import PayloadKind, converter
from mcprev.core.method_binding import read_result
from mcprev.errors import (
    InputDeclined,
    Json,
    McpError,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
    TaskCancelled,
)
from mcprev.protocol import tasks
from mcprev.protocol.durations import seconds_of
from mcprev.protocol.tasks import Status
from mcprev.revisions import LATEST, TaskSupport
from mcprev.wire.json_values import is_json_object

if TYPE_CHECKING:
    from mcprev.client.options import Options
    from mcprev.client.session import ClientSession
    from mcprev.client.tool_result import ToolResult

CALL: Final = "tools/call"
LEAST: Final = 0.02
MOST: Final = 60.0
"""The least and the most seconds between two polls, whatever a server asks for."""
FIRST: Final = 0.05
"""Seconds before the first poll; each further wait is twice as long, up to what the server asks for."""
CANCEL_TIMEOUT: Final = 2.0
"""Seconds that a server gets to respond to the cancellation of its task."""


class ClientTask:
    """A task on the server, as `Client.start_tool` and `Client.task` return it: its status, its result, its cancellation."""

    def __init__(
        self,
        session: ClientSession,
        state: Mapping[str, Json],
        result: dict[str, Json] | None = None,
        options: Options | None = None,
    ) -> None:
        self._session = session
        self._options: Options = {"retry": True, **(options or {})}
        self._state = dict(state)
        self._result = result
        self._answered: set[str] = set()

    @property
    def id(self) -> str:
        """The id of the task, for `Client.task`; empty if the server responded with a result instead of a task."""
        return str(self._state.get("taskId", ""))

    @property
    def status(self) -> Status:
        """The status when it was last fetched: `working`, `input_required`, `completed`, `failed` or `cancelled`."""
        return Status.COMPLETED if self._result is not None else Status(self._state["status"])

    @property
    def message(self) -> str | None:
        """The status message, for the user, when the status was last fetched; None if the server set none."""
        return self._state.get("statusMessage")

    @property
    def input_requests(self) -> Mapping[str, Mapping[str, Json]]:
        """The requests that the task waits for, by key, when the status was last fetched: `method` and `params` as JSON.

        `result` answers them. Empty where tasks are part of the protocol, at 2025-11-25: there, the server sends them to
        who waits for the result.
        """
        return self._state.get("inputRequests") or {}

    async def refresh(self) -> Status:
        """Fetch the status and return it; `input_required` if the task waits for an answer, which `result` gives.

        Raises the errors of `Client.call_tool`, but never asks the user.
        """
        if self._result is None:
            found = await self._session.raw(tasks.GET, {"taskId": self.id}, **self._options)
            self._state = dict(_check(found))
        return self.status

    async def cancel(self) -> None:
        """Cancel the task; does nothing if it has ended."""
        if self.status not in tasks.FINAL:
            with suppress(RpcError):
                await self._session.raw(tasks.CANCEL, {"taskId": self.id}, timeout=CANCEL_TIMEOUT, retry=True)
            await self.refresh()

    async def result(self, timeout: float | None = None) -> ToolResult:
        """Wait until the task ends, answer its input requests, and return its result.

        `timeout` is the maximum time to wait in seconds; None: no maximum. The task continues if the wait ends early;
        `cancel` ends it. Raises `RpcError` if the task failed, `TaskCancelled` if it was cancelled, `RequestTimeout`,
        and the errors of `Client.call_tool`.
        """
        end = None if timeout is None else self._session.clock.now() + timeout
        found: Any = read_result(result_reader(CALL), await self.result_until(end))
        result: ToolResult = found
        return result

    async def wire_result(self, end: float | None) -> dict[str, Json]:
        """Wait until the task ends, and return its result as JSON of the latest revision; `result` returns it as a model.

        `end` is the time of the event loop (`loop.time() + seconds`) at which the wait ends with `RequestTimeout`; None: no end.
        """
        clock, now = self._session.clock, asyncio.get_running_loop().time()
        return await self.result_until(None if end is None else clock.now() + end - now)

    async def result_until(self, end: float | None) -> dict[str, Json]:
        """Wait as `wire_result` does, at most until the time `end` of the session's clock, which a login does not count for."""
        if self._result is None:
            async with until(end, f"the task '{self.id}' has not ended", self._session.clock):
                self._result = await self._follow()
        return self._result

    async def _follow(self) -> dict[str, Json]:
        if self._session.revision.tasks is TaskSupport.CORE:
            return await self._await_result()
        wait = FIRST
        while self.status not in tasks.FINAL:
            await asyncio.sleep(min(wait, self.poll_interval))
            await self.refresh()
            await self._answer()
            wait *= 2
        if self.status is Status.CANCELLED:
            raise TaskCancelled(f"the task '{self.id}' was cancelled")
        error, result = self._state.get("error"), self._state.get("result")
        if is_json_object(error):
            raise RpcError.from_wire(error)
        if not is_json_object(result):
            raise RemoteProtocolError("a task that has ended has neither result nor error", raw=self._state)
        return result

    async def _await_result(self) -> dict[str, Json]:
        """Return the answer to `tasks/result`, which comes when the task ends; the server may ask meanwhile."""  # TASK-4
        revision, whole = self._session.revision, {"taskId": self.id}
        waiting = asyncio.create_task(
            self._session.raw(tasks.RESULT, whole, timeout=None, total_timeout=None, retry=True)
        )
        watching = asyncio.create_task(self._watch(self._session.idle_timeout(self._options)))
        try:
            await asyncio.wait({waiting, watching}, return_when=asyncio.FIRST_COMPLETED)
            found = await (waiting if waiting.done() else watching)
        except RpcError:
            if await self.refresh() is Status.CANCELLED:
                raise TaskCancelled(f"the task '{self.id}' was cancelled") from None
            raise
        finally:
            for each in (waiting, watching):
                each.cancel()
            await asyncio.gather(waiting, watching, return_exceptions=True)
        up = converter(CALL, PayloadKind.RESULT, from_=revision, to=LATEST)
        result: dict[str, Json] = up(found, validate=False)
        return result

    async def _watch(self, seconds: float | None) -> dict[str, Json]:
        """Ask for the status now and then, while the result may come late.

        Raises `RequestTimeout` if the server does not respond to that within the timeout of a call, or does not send the
        result within it after the end of the task. None: it may be silent.
        """  # LIFE-18
        clock = self._session.clock
        while seconds is None or self.status not in tasks.FINAL:
            await clock.sleep(None if seconds is None else max(seconds / 2, LEAST))
            try:
                await self.refresh()
            except RequestTimeout:
                raise
            except McpError:  # it responds, or what waits for the result learns what is wrong
                continue
        await clock.sleep(seconds)
        text = (
            f"no response to '{tasks.RESULT}' within {seconds:.3g} s after the end of the task (idle timeout)"
        )
        raise RequestTimeout(text, elapsed=seconds, kind="idle")

    async def _answer(self) -> None:
        """Answer each input request once, however often it is reported."""  # TASKX-4
        new = {key: request for key, request in self.input_requests.items() if key not in self._answered}
        if not new:
            return
        self._answered.update(new)
        try:
            answers = {key: await self._session.answer_input(request) for key, request in new.items()}
            update: dict[str, Json] = {"taskId": self.id, "inputResponses": answers}
            await self._session.raw(tasks.UPDATE, update, **self._options)
        except BaseException:
            self._answered.difference_update(new)
            raise

    @property
    def poll_interval(self) -> float:
        """The seconds that the server asks clients to wait between two calls of `refresh`, within limits; servers say milliseconds."""  # TASK-8
        every: Json = self._state.get("pollInterval", self._state.get("pollIntervalMs"))
        found = seconds_of(every, least=LEAST, most=MOST)
        return tasks.DEFAULT_POLL / 1000 if found is None else found


def task_in(result: dict[str, Json], session: ClientSession, options: Options | None = None) -> ClientTask:
    """Return the task that a call was answered with; for a plain result, a task that is completed.

    `options` are those of its requests. Raises `RemoteProtocolError` for an invalid task.
    """
    if not tasks.is_task(result, session.revision):
        return ClientTask(session, {}, result)
    state: Mapping[str, Json] = result["task"] if session.revision.tasks is TaskSupport.CORE else result
    return ClientTask(session, _check(state), options=options)


async def follow_task(
    session: ClientSession, result: dict[str, Json], options: Options, end: float | None
) -> dict[str, Json]:
    """Return the result of a call that was answered with a task, by the time `end`; cancel the task with the call.

    Each request about the task has the timeout of the call.
    """
    task = task_in(result, session, {"timeout": options["timeout"]} if "timeout" in options else None)
    try:
        return await task.result_until(end)
    except (asyncio.CancelledError, RequestTimeout, InputDeclined):
        # The caller does not know the task, so nobody else can cancel it.
        cancelling = session.start(_cancel(session, task.id))
        with suppress(TimeoutError):
            async with asyncio.timeout(CANCEL_TIMEOUT):
                await asyncio.shield(cancelling)
        raise


async def _cancel(session: ClientSession, task_id: str) -> None:
    with suppress(McpError):
        await session.raw(tasks.CANCEL, {"taskId": task_id}, timeout=CANCEL_TIMEOUT)


def _check(state: Mapping[str, Json]) -> Mapping[str, Json]:
    """Raise `RemoteProtocolError` for members that describe no task."""
    asked: Json = state.get("inputRequests") or {}
    asks = asked.__class__ is dict and all(each.__class__ is dict for each in asked.values())
    if not asks or state.get("status") not in list(Status) or not isinstance(state.get("taskId"), str):
        raise RemoteProtocolError("the server's task has no valid id, status or requests", raw=dict(state))
    return state
