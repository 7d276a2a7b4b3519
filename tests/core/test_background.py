"""Work in the background: what is said of its end, and how it is ended."""

from __future__ import annotations

import asyncio
import logging

import pytest

from helpers.running import run
from mcprev.core.background import Background
from mcprev.errors import McpError, StoreError

LOGGER = logging.getLogger("mcprev.test")


async def fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "said", "traceback"),
    [
        (asyncio.CancelledError(), [], False),
        (McpError("no\nway"), [("WARNING", "looking: no way")], False),
        (StoreError("it is away"), [("WARNING", "looking: it is away")], False),
        (ValueError("a mistake"), [("ERROR", "looking failed")], True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_said_of_a_task_that_nobody_waits_for(
    error: BaseException, said: list[tuple[str, str]], traceback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        background = Background(LOGGER, "looking")
        background.start(fail(error))
        assert len(background) == 1
        await background.finish()
        await asyncio.sleep(0)
        assert len(background) == 0

    run(main())
    records = [record for record in caplog.records if record.name == LOGGER.name]
    assert [(record.levelname, " ".join(record.getMessage().split())) for record in records] == said
    assert all((record.exc_info is not None) is traceback for record in records)


def test_what_runs_has_time_to_finish_and_is_cancelled_then() -> None:
    async def main() -> None:
        background = Background(LOGGER, "looking")
        gate = asyncio.Event()
        short, long = background.start(gate.wait(), name="short"), background.start(asyncio.Event().wait())
        assert set(background) == {short, long}
        gate.set()
        await background.finish(1)
        assert (short.done(), long.done()) == (True, False)
        await background.aclose(1)
        assert long.cancelled()
        await background.aclose()

    run(main())
