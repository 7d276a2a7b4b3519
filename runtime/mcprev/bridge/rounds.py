"""A call of a session at a stateless server, until its result asks for nothing more (MRTR-5, MRTR-11, TASKX-3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from mcprev.bridge.introduction import ClientIntroduction
from mcprev.bridge.tasks import follow_to_end
from mcprev.bridge.visit import Visit
from mcprev.client.tasks import CALL
from mcprev.conversion import PayloadKind
from mcprev.conversion.rules import JsonObject
from mcprev.core.input_requests import check_askable, unmet
from mcprev.errors import ConversionError, InternalError, InvalidParams, Json, McpError, RpcError
from mcprev.protocol import mrtr
from mcprev.protocol.connection_state import IncomingRequest

AskSession: TypeAlias = Callable[[str, Json, IncomingRequest | None], Awaitable[dict[str, Json]]]
"""Sends the client of a session a request about one of its own, and returns the result."""


class Rounds:
    """One call of a session, and the questions of its results, which become requests in the session."""

    def __init__(
        self,
        client: ClientIntroduction,
        visit: Visit,
        ask: AskSession,
    ) -> None:
        self._client = client
        self._visit = visit
        self._ask = ask
        self.asked: bool = False
        """Whether the client was asked."""

    async def until_complete(self, params: dict[str, Json] | None, stamp: JsonObject) -> dict[str, Json]:
        """Call the server, with the answers of the client as often as it asks for some; return the last result."""
        visit, upstream, relay = self._visit, self._visit.upstream, self._visit.exchange.relay
        total = relay.bounds.call
        for _ in range(mrtr.MAX_ROUNDS + 1):
            result = await visit.call(params, total=total)
            result = await follow_to_end(upstream, result, self._answer, stamp, total, relay.start)
            if not mrtr.is_input_required(result):
                return result
            found = await self._answers(mrtr.requests_of(result))
            if isinstance(found, str):
                return self._unmet(found)
            params = mrtr.retry(params or {}, result, found)
        raise InternalError(f"the server asked for input more than {mrtr.MAX_ROUNDS} times")

    async def _answer(self, key: str, request: JsonObject) -> JsonObject:
        """Return the answer to one question of a task. Raises `McpError`."""
        found = await self._answers({key: request})
        if isinstance(found, str):
            raise InvalidParams(found)
        return found[key]

    async def _answers(self, asked: Mapping[str, JsonObject]) -> dict[str, JsonObject] | str:
        """Return the client's answers to questions, or why one cannot be asked. Raises `McpError`."""
        pair, exchange = self._visit.pair, self._visit.exchange
        capabilities = self._client.capabilities_at(self._visit.upstream.revision)
        questions: dict[str, tuple[str, Json]] = {}
        for key, request in asked.items():
            method = str(request.get("method"))
            if check_askable(request, capabilities, pair.client) is not None or not pair.has(method):
                return unmet(request, pair.server)
            try:
                questions[key] = method, pair.to_client(request.get("params"), method, PayloadKind.PARAMS)
            except ConversionError as error:
                return f"{unmet(request, pair.server)} ({error})"
        self.asked = True
        exchange.has_asked()
        async with asyncio.TaskGroup() as group:
            tasks = {
                key: group.create_task(_outcome(self._ask(method, params, exchange.request)))
                for key, (method, params) in questions.items()
            }
        answers: dict[str, JsonObject] = {}
        for key, task in tasks.items():
            outcome = task.result()
            if isinstance(outcome, RpcError):
                raise RpcError(outcome.message, code=outcome.code, data=outcome.data)
            if isinstance(outcome, McpError):
                raise outcome
            answers[key] = pair.to_server(outcome, questions[key][0], PayloadKind.RESULT)
        return answers

    def _unmet(self, text: str) -> dict[str, Json]:
        """Return the result of a tool that asks what the client cannot be asked. Raises `InvalidParams` for other methods."""
        if self._visit.exchange.incoming.method != CALL:
            raise InvalidParams(text)
        return {  # makes CallToolResult
            "resultType": "complete",
            "content": [{"type": "text", "text": text}],
            "isError": True,
        }


async def _outcome(question: Awaitable[dict[str, Json]]) -> dict[str, Json] | McpError:
    """Return the answer to a question, or its error, so that others that are asked at the same time go on."""
    try:
        return await question
    except McpError as error:
        return error
