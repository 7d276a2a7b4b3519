"""The inbox of a worker: what is no message there is left out, and those after it are served."""

from __future__ import annotations

import asyncio
import json

import pytest

from helpers.running import run
from mcprev.core.store import LogItem
from mcprev.errors import Json
from mcprev.sharing.worker import INBOX, Worker
from mcprev.stores.memory import MemoryStore


@pytest.mark.parametrize(
    "value", [b"5", b"[]", b"null", b"{", b"\xff", b"[" * 100_000, b'{"answers": []}', b'{"answers": "1"}']
)
def test_what_is_no_message_does_not_end_the_reading_of_an_inbox(value: bytes) -> None:
    async def main() -> None:
        served = asyncio.Event()

        async def handle(message: dict[str, Json]) -> Json:
            if message == {"last": True}:
                served.set()
            return None

        store = MemoryStore()
        worker = Worker(store, handle, lambda _: None)
        number = await worker.start()
        items = [LogItem(value), LogItem(json.dumps({"last": True}).encode())]
        await store.append(f"inbox/{number}", items, bounds=INBOX)
        async with asyncio.timeout(10):
            await served.wait()
        await worker.aclose()
        await worker.aclose()

    run(main())
