"""Answers of other workers, which are awaited as long as they are worked on (SEC-6, TIME-1).

A message may be lost: its worker can end, the store can be away, and an inbox can be full. Whoever waits asks now and then
whether the other worker is still at it.
"""

from __future__ import annotations

import asyncio
from typing import Final

from mcprev.conversion.rules import JsonObject
from mcprev.errors import WORKER_LOST, InvalidParams, Json, StoreError
from mcprev.sharing.worker import Worker

GONE: Final = "the call that this request continues has ended; send the request again without it"
MAY_HAVE_RUN: Final[JsonObject] = {"mayHaveRun": True}
"""The data of the error of a request that continues a call which has ended."""
SERVES: Final = "serves"
"""The kind of a message that asks whether a worker is still at something."""
LOOK: Final = 1.0
"""Seconds between two looks whether a worker is alive."""
ASK: Final = 5.0
"""Seconds between two questions whether it is still at it; it is not if it says so twice."""
LATE: Final = 5.0
"""Seconds for which the answer of another worker is awaited beyond the time that it has itself."""
AWAY: Final = 10.0
"""Seconds for which the store may be away while an answer is awaited."""


class Gone(InvalidParams):
    """The worker that a request is for has ended, or does not know what it is about."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__(GONE, data={"reason": WORKER_LOST, **MAY_HAVE_RUN})
        self.sent = sent
        """Whether that worker may have served it."""


async def answer_of(worker: Worker, to: int, message: JsonObject, about: str, wait: float) -> Json:
    """Return what another worker answers to a message, which it serves under a key.

    Raises `Gone` if it has ended, is no longer at it, or does not answer in time, and `StoreError`.
    """
    clock = asyncio.get_running_loop().time
    began = known = asked = clock()
    denied = 0
    asking = asyncio.ensure_future(worker.ask([to], message, wait=wait))
    try:
        while not asking.done():
            await asyncio.wait({asking}, timeout=LOOK)
            try:
                gone = not asking.done() and not await worker.is_alive(to)
                if not gone and not asking.done() and clock() - asked >= ASK:
                    asked = clock()
                    denied = denied + 1 if await _denies(worker, to, about) else 0
            except StoreError:
                if clock() - known > AWAY:
                    raise
                continue
            known = clock()
            if (gone or denied > 1) and not asking.done():
                raise Gone(sent=True)
        answers = asking.result()
    finally:
        asking.cancel()
    if to not in answers:
        raise Gone(sent=clock() - began >= wait)  # else it has closed its inbox
    return answers[to]


async def _denies(worker: Worker, to: int, about: str) -> bool:
    """Return whether another worker says that it does nothing under a key."""
    answers = await worker.ask([to], {"kind": SERVES, "about": about}, wait=LOOK)
    return answers.get(to) is False
