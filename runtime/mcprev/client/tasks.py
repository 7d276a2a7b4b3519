"""Tasks as a client sees them: started on purpose, or followed to their end without the caller's noticing.

TASK-3, TASK-4, TASK-8, TASKX-4. Where tasks are part of the protocol the client asks for one; where they are an
extension the server decides, and whoever has declared the extension may be answered with a task at any call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from mcprev.client.request_handler import answer_input
from mcprev.convert import PayloadKind, converter
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
from mcprev.protocol.tasks import Status
from mcprev.revisions import LATEST, TaskSupport

if TYPE_CHECKING:
    from mcprev.client.client import Client
    from mcprev_types.latest import models

CALL: Final = "tools/call"
LEAST: Final = 0.02
MOST: Final = 60.0
"""The least and the most seconds between two looks, whatever a server asks for."""
GIVE_UP: Final = 2.0
"""Seconds that a server gets to hear that its task is no longer wanted."""


class ClientTask:
    """A task on the server: what it is at, its result, and a way to give it up."""

    def __init__(
        self, client: Client, told: Mapping[str, Json], result: dict[str, Json] | None = None
    ) -> None:
        self._client = client
        self._told = dict(told)
        self._result = result
        self._answered: set[str] = set()

    @property
    def id(self) -> str:
        """Its name on the server."""
        return str(self._told.get("taskId"))

    @property
    def status(self) -> Status:
        """What it was at when it was last looked at."""
        return Status.COMPLETED if self._result is not None else Status(self._told["status"])

    @property
    def message(self) -> str | None:
        """What the server says of it, for people."""
        return self._told.get("statusMessage")

    async def refresh(self) -> Status:
        """Look at it, and answer what it asks. Raises what a call raises."""
        if self._result is None:
            self._told = await self._client.raw(tasks.GET, {"taskId": self.id}, retry=True)
            _check(self._told)
            await self._answer()
        return self.status

    async def cancel(self) -> None:
        """Give it up; one that has ended stays as it is."""
        if self.status not in tasks.FINAL:
            with suppress(RpcError):
                await self._client.raw(tasks.CANCEL, {"taskId": self.id}, timeout=GIVE_UP, retry=True)
            await self.refresh()

    async def result(self, timeout: float | None = None) -> models.CallToolResult:  # noqa: ASYNC109
        """Wait for its end, for as many seconds at most.

        Raises `RpcError` for the error it came to, `TaskCancelled`, `RequestTimeout`, and what a call raises. It
        goes on when the waiting ends early: `cancel` gives it up.
        """
        wire = await self.wire_result(timeout)
        return cast("models.CallToolResult", LATEST.models.CallToolResult.from_wire(wire))

    async def wire_result(self, timeout: float | None) -> dict[str, Json]:  # noqa: ASYNC109
        """The same as JSON, in the words of the latest revision."""
        if self._result is None:
            bound = asyncio.timeout(timeout)
            try:
                async with bound:
                    self._result = await self._follow()
            except TimeoutError:
                if not bound.expired():
                    raise  # the handler's own
                text = f"the task '{self.id}' has not ended within {timeout:.3g} s"
                raise RequestTimeout(text, elapsed=timeout or 0.0, kind="total") from None
        return self._result

    async def _follow(self) -> dict[str, Json]:
        if self._client.spoken.tasks is TaskSupport.CORE:
            return await self._awaited()
        while self.status not in tasks.FINAL:
            await asyncio.sleep(self._pause())
            await self.refresh()
        if self.status is Status.CANCELLED:
            raise TaskCancelled(f"the task '{self.id}' was cancelled")
        error, result = self._told.get("error"), self._told.get("result")
        if isinstance(error, dict):
            raise RpcError.from_wire(cast("dict[str, Json]", error))
        if not isinstance(result, dict):
            raise RemoteProtocolError("a task that has ended has neither result nor error", raw=self._told)
        return cast("dict[str, Json]", result)

    async def _awaited(self) -> dict[str, Json]:
        """The answer to `tasks/result`, which comes with the end; meanwhile the server may ask (TASK-4)."""
        revision, whole = self._client.spoken, {"taskId": self.id}
        try:
            found = await self._client.raw(tasks.RESULT, whole, timeout=None, total_timeout=None, retry=True)
        except RpcError:
            if await self.refresh() is Status.CANCELLED:
                raise TaskCancelled(f"the task '{self.id}' was cancelled") from None
            raise
        up = converter(CALL, PayloadKind.RESULT, from_=revision, to=LATEST)
        return cast("dict[str, Json]", up(found, validate=False))

    async def _answer(self) -> None:
        """Answer each question once, however often it is seen (TASKX-4)."""
        asked: Mapping[str, Mapping[str, Json]] = self._told.get("inputRequests") or {}
        new = {key: request for key, request in asked.items() if key not in self._answered}
        if not new:
            return
        self._answered.update(new)
        try:
            answers = {key: await answer_input(self._client, request) for key, request in new.items()}
            update: dict[str, Json] = {"taskId": self.id, "inputResponses": answers}
            await self._client.raw(tasks.UPDATE, update, retry=True)
        except BaseException:
            self._answered.difference_update(new)
            raise

    def _pause(self) -> float:
        """Seconds to wait before the next look (TASK-8)."""
        every = self._told.get("pollInterval", self._told.get("pollIntervalMs"))
        if isinstance(every, bool) or not isinstance(every, int | float):
            every = tasks.POLL
        return min(max(every / 1000, LEAST), MOST)


def started(client: Client, result: dict[str, Json]) -> ClientTask:
    """What a call was answered with, as a task; a plain result is one that has ended.

    Raises `RemoteProtocolError` for a task that is none.
    """
    if not tasks.is_task(result, client.spoken):
        return ClientTask(client, {}, result)
    told: Mapping[str, Json] = result["task"] if client.spoken.tasks is TaskSupport.CORE else result
    return ClientTask(client, _check(told))


async def followed(client: Client, result: dict[str, Json], end: float | None) -> dict[str, Json]:
    """The result of a call that was answered with a task, by the time `end`; it is given up with the call."""
    task = started(client, result)
    seconds = None if end is None else max(end - client.connection.now(), 0.0)
    try:
        return await task.wire_result(seconds)
    except (asyncio.CancelledError, RequestTimeout, InputDeclined):
        # Nobody else knows of it.
        giving_up = client.start(_give_up(client, task.id))
        with suppress(TimeoutError):
            async with asyncio.timeout(GIVE_UP):
                await asyncio.shield(giving_up)
        raise


async def _give_up(client: Client, task_id: str) -> None:
    with suppress(McpError):
        await client.raw(tasks.CANCEL, {"taskId": task_id}, timeout=GIVE_UP)


def _check(told: Mapping[str, Json]) -> Mapping[str, Json]:
    """Raise `RemoteProtocolError` for members that describe no task."""
    known = told.get("status") in set(Status) and isinstance(told.get("taskId"), str)
    if not known:
        raise RemoteProtocolError("the server's task has no name or no status", raw=dict(told))
    return told
