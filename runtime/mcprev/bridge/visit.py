"""A request of a client at a connection to a server, with the revisions between which its messages are converted."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from mcprev.bridge.pair import Pair, Rule
from mcprev.bridge.progress import progress_to
from mcprev.bridge.relay import Exchange
from mcprev.bridge.upstream import Upstream, logger
from mcprev.conversion import PayloadKind
from mcprev.conversion.rules import JsonObject, as_list, as_object
from mcprev.errors import (
    INTERNAL_ERROR,
    URL_ELICITATION_REQUIRED,
    ConversionError,
    InternalError,
    Json,
    McpError,
    RpcError,
    one_line,
)
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.mrtr import input_required
from mcprev.wire.meta_keys import SERVER_INFO

_ANSWERERS: Final = ("elicitation", "sampling", "roots")
_ALTERNATE: Final = "InputRequiredResult"


def may_be_asked(incoming: IncomingRequest) -> bool:
    """Return whether a request may be answered with a result that asks its client."""
    spec = incoming.revision.methods.get(incoming.method)
    asks = spec is not None and _ALTERNATE in spec.alternate_results
    return asks and any(name in incoming.capabilities for name in _ANSWERERS)


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of a client at one connection to a server. At another connection it is another visit."""

    exchange: Exchange
    upstream: Upstream
    pair: Pair

    async def call(self, params: dict[str, Json] | None, *, total: float | None) -> dict[str, Json]:
        """Call the server on behalf of the request; return its result as it is. Raises `McpError`."""
        exchange = self.exchange
        incoming = exchange.incoming
        progress = incoming.token is not None
        listener = progress_to(lambda: exchange, self.pair) if progress else None
        return await self.upstream.call(
            incoming.method, params, total=total, listener=listener, progress=progress, caller=exchange
        )

    def answer(self, result: dict[str, Json]) -> None:
        """Answer a request of a stateless client with the result of a server with sessions. Raises `ConversionError`."""
        found = self.pair.to_client(result, self.exchange.incoming.method, PayloadKind.RESULT)
        self.exchange.answer(self.completed(found))

    def completed(self, result: JsonObject) -> JsonObject:
        """Return a result with the name of the server, which every stateless result has."""  # MOD-7
        info = {SERVER_INFO: self.upstream.introduction.info_for(self.pair, self.exchange.relay.own)}
        return {**result, "_meta": {**info, **as_object(result.get("_meta"))}}

    def finish(self, task: asyncio.Task[dict[str, Json]]) -> None:
        """Answer a request of a stateless client with the outcome of its call."""
        try:
            if task.cancelled():
                raise InternalError("the call was cancelled")
            self.answer(task.result())
        except (McpError, ConversionError) as error:
            self.fail(error)

    def fail(self, error: McpError | ConversionError) -> None:
        """Answer a stateless client with an error; one that asks for a visit of a URL becomes a result that asks for it."""
        found = self._urls(error) if isinstance(error, RpcError) else None
        if found is None:
            self.exchange.fail(error, self.pair)
        else:
            self.exchange.answer(self.completed(found))

    def _urls(self, error: RpcError) -> JsonObject | None:
        """Return the result that asks for what an error says that a user has to do first, if the client can be asked."""
        raw, incoming = error.raw, self.exchange.incoming
        asked = as_list(as_object(None if raw is None else raw.get("data")).get("elicitations")) or []
        modes = as_object(incoming.capabilities.get("elicitation"))
        if error.code != URL_ELICITATION_REQUIRED or raw is None:
            return None
        if not asked or "url" not in modes or not may_be_asked(incoming):
            text = " ".join([error.message, *(str(as_object(item).get("url")) for item in asked)])
            error.raw = {"code": INTERNAL_ERROR, "message": f"{text} ({Rule.URL_ERROR})"}
            return None
        method, questions = "elicitation/create", dict[str, JsonObject]()
        for number, item in enumerate(asked, 1):
            try:
                params = self.pair.to_client(item, method, PayloadKind.PARAMS)
            except ConversionError as wrong:
                logger.warning("an elicitation of the server cannot be converted: %s", one_line(wrong))
                return None
            questions[f"visit-{number}"] = {"method": method, "params": params}
        return input_required(questions, None)
