# ruff: noqa: ANN401, D102
"""Stand-in until `connect(tap=)` is there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from mcprev.wire.jsonrpc import Batch, Malformed, encode


class TappedTarget:
    """A target whose messages are seen."""

    def __init__(self, target: Any, see: Callable[[str, str, bytes], None]) -> None:
        self._target, self._see, self._count = target, see, 0
        self.restarts = None
        del self.restarts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    async def open(self, protocol: Any, handler: Any, *more: Any, **options: Any) -> Any:
        self._count += 1
        conn = str(self._count)
        receive = protocol.receive

        def received(message: Any, now: float) -> None:
            for one in message.messages if isinstance(message, Batch) else (message,):
                data = (
                    json.dumps(one.excerpt).encode()
                    if isinstance(one, Malformed)
                    else encode(one, null_id_in_errors=True)
                )
                self._see("in", conn, data)
            receive(message, now)

        protocol.receive = received

        def sent(data: bytes) -> None:
            self._see("out", conn, data)

        protocol.on_send = sent
        return await self._target.open(protocol, handler, *more, **options)

    async def close(self) -> None:
        await self._target.close()
