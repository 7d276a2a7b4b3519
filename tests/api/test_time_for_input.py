"""The bound of a whole call holds while its caller's own handler answers what the server asks (TIME-1, MRTR-5)."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

import mcprev
from api.scripted import client as callbacks, form, server, text
from api.wire import Message, serving
from helpers.requirements import E, req
from helpers.running import pass_time, run
from mcprev.errors import RequestTimeout
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m

SHORT: Final = 0.5
BOUND: Final = 20.0
"""What a call may take that nobody lets end before."""
ASKING: Final = [row for row in DEFAULT if "form" in row.elicitation_modes]
MODERN: Final = next(row for row in DEFAULT if row.input_in_results)


class Slow:
    """A person who answers once, then lets time pass and never answers, and says when nobody waits any more."""

    def __init__(self) -> None:
        self.asked = 0
        self.left = asyncio.Event()

    async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
        self.asked += 1
        if self.asked == 1:
            return m.ElicitResult(action="decline")
        pass_time(BOUND)
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        raise AssertionError


async def asks(ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
    return text((await ctx.ask("who", form())).action)


@req("TIME-1", "LIFE-18", "MRTR-12")
@pytest.mark.parametrize("row", ASKING, ids=lambda row: row.name)
def test_a_call_ends_in_time_although_its_own_handler_does_not_answer(row: Revision) -> None:
    async def main() -> None:
        person = Slow()
        target = mcprev.memory(server(call_tool=asks))
        async with mcprev.connect(target, handler=callbacks(elicit=person.elicit), mode=row.name) as ours:
            await ours.call_tool("x")  # whatever is done once takes its time now
            with pytest.raises(RequestTimeout) as caught:
                await ours.call_tool("x", total_timeout=BOUND, timeout=None)
            assert caught.value.kind == "total"
            assert person.asked == 2
            if row is MODERN:
                assert BOUND <= caught.value.elapsed < 2 * BOUND
                assert person.left.is_set()
            await ours.ping()

    run(main(), limit=5 * BOUND)


@req("TIME-1", "MRTR-6", at=E)
def test_asking_again_has_the_bound_of_the_call_too() -> None:
    def again(_: Message) -> Message:
        return {"resultType": "input_required", "requestState": "s"}

    async def main() -> None:
        async with serving(MODERN, {"tools/call": again}) as (client, _):
            with pytest.raises(RequestTimeout):
                await client.call_tool("x", total_timeout=SHORT)

    run(main())


@req("TIME-1", "MRTR-5", at=E)
def test_what_the_handler_itself_gives_up_stays_its_own() -> None:
    async def gives_up(ctx: mcprev.ClientContext, params: Any) -> m.ElicitResult:
        raise TimeoutError("mine")

    async def main() -> None:
        target = mcprev.memory(server(call_tool=asks))
        async with mcprev.connect(target, handler=callbacks(elicit=gives_up), mode=MODERN.name) as client:
            with pytest.raises(TimeoutError, match="mine"):
                await client.call_tool("x", total_timeout=20)

    run(main())
