"""Calls that are posted when they are made and answered when their answers come, without tasks of their own (HTTP-5, CANC-7).

That is how most calls go over a connection that is open: the bytes are written at once, and JSON that is all there is
handed on at once. Whatever else may become of a call, such as a stream, a redirect or an error, is left to a task,
which begins with what has come so far.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from mcprev.protocol.correlate import Call
from mcprev.transports.http_posting import PostingConnection
from mcprev.wire.headers import Pairs

if TYPE_CHECKING:
    from mcprev.transports.http_answers import Answer

INITIALIZE: Final = "initialize"
"""What is answered with more than a body."""


class PromptConnection(PostingConnection):
    """Posts calls at once where it can."""

    at_once = True

    def _headers_of(self, call: Call) -> Pairs | None:
        """The headers of a call; None where something has to be asked first. Raises `LocalProtocolError`."""
        raise NotImplementedError

    def _answered(self, call: Call, answer: Answer, body: bytes) -> None:
        """A body is all there is to answer a call. Raises `McpError` where it does not."""
        raise NotImplementedError

    @override
    def _send_now(self, call: Call, message: bytes) -> bool:
        if self._gate is not None:
            return False
        try:
            headers = self._headers_of(call)
            if headers is None:
                return False
            lane = self.requests.ask(message, headers, partial(self._heard, call, message))
        except Exception:  # noqa: BLE001 - a task comes to it again, and tells whoever waits
            return False
        if lane is None:
            return False
        self._exchanges[call] = lane
        return True

    def _heard(self, call: Call, message: bytes) -> None:
        """There is an answer to a call, or there will be none."""
        lane = self._exchanges[call]
        assert not isinstance(lane, asyncio.Task)
        answer = lane.answer
        body = None
        if answer is not None and answer.gathers and call.method != INITIALIZE:
            body = answer.whole(self.requests.max_message)
        if answer is None or not body:
            task = self._exchanges[call] = self._loop.create_task(self._run_exchange(call, message, lane))
            # One that is cancelled before its first step lets nothing go.
            task.add_done_callback(partial(self._left, call, answer))
            return
        answer.release()
        try:
            self._answered(call, answer, body)
        except Exception as error:  # noqa: BLE001 - whoever waits for the call is told
            self._failed(call, error)
        finally:
            self._over(call)

    def _left(self, call: Call, answer: Answer | None, _task: asyncio.Task[None]) -> None:
        if answer is not None:
            answer.close()
        self._over(call)
