"""The sequences that the site draws are what goes over the wire, for a call at each revision and for a question in it."""

from __future__ import annotations

import asyncio
import json
from typing import Final

import pytest

import mcprev
from mcprev.revisions import ALL, Revision
from mcprev_codegen.facts import load_revision
from mcprev_codegen.inputs import schema_folder
from mcprev_explore.drawings import sequence
from mcprev_explore.flows import FlowStep, flow
from support import REVISIONS

CALL: Final = "tools/call"
FREE: Final = {"server/discover", "notifications/progress", "notifications/message"}
"""Messages that a client or server may send as it likes."""


async def recorded(row: Revision, *, asking: bool) -> list[tuple[str, str]]:
    """Who sent which method, or `result`, during a call of a tool that asks the user or not."""
    app = mcprev.App("weather", "1.0")

    @app.tool
    async def forecast(ctx: mcprev.Context, city: str) -> str:
        if asking:
            await ctx.elicit("Which day?", str)
        return f"{city}: sunny"

    async def elicitation(_params: object) -> dict[str, str]:
        return {"value": "Monday"}

    events: list[mcprev.WireEvent] = []
    async with mcprev.connect(
        app, revisions=[row.name], tap=events.append, elicitation=elicitation
    ) as client:
        await client.call_tool("forecast", {"city": "Rome"})
    found: list[tuple[str, str]] = []
    free: set[object] = set()
    for event in events:
        if event.kind == "message":
            message = json.loads(event.data)
            method = message.get("method", "result")
            if method in FREE:
                free.add(message.get("id", "none"))
            elif method != "result" or message["id"] not in free:
                found.append(("client" if event.direction == "client_to_server" else "server", method))
    return found


def told(steps: tuple[FlowStep, ...]) -> list[tuple[str, str]]:
    """The same of the steps of a sequence."""
    return [
        (str(step.sender), "result" if step.kind == "result" else step.method)
        for step in steps
        if step.sender is not None and step.method not in FREE
    ]


def until_alternatives(steps: tuple[FlowStep, ...]) -> tuple[FlowStep, ...]:
    ends = [n for n, step in enumerate(steps) if step.kind == "part"]
    return steps[: ends[0]] if ends else steps


@pytest.mark.parametrize("row", ALL, ids=lambda row: row.name)
def test_a_call_is_drawn_as_it_goes_over_the_wire(row: Revision) -> None:
    revision = load_revision(schema_folder(), row.name)
    steps = until_alternatives(flow(revision, revision.methods[CALL]))
    wire = asyncio.run(recorded(row, asking=False))
    assert wire[: len(told(steps))] == told(steps)


@pytest.mark.parametrize("row", [row for row in ALL if row.elicitation_modes], ids=lambda row: row.name)
def test_a_question_is_drawn_as_it_goes_over_the_wire(row: Revision) -> None:
    revision = load_revision(schema_folder(), row.name)
    wire = asyncio.run(recorded(row, asking=True))
    question = told(until_alternatives(flow(revision, revision.methods["elicitation/create"])))
    if row.input_in_results:
        assert wire == question
    else:
        start = wire.index(("server", "elicitation/create"))
        assert wire[start : start + 2] == question[-2:]


@pytest.mark.parametrize("name", REVISIONS)
def test_every_method_has_a_sequence_whose_last_message_fits_it(name: str) -> None:
    revision = load_revision(schema_folder(), name)
    for method in revision.methods.values():
        steps = flow(revision, method)
        own = [s for s in steps if s.method == method.method and s.sender is not None]
        assert own, method.method
        assert {str(s.sender) for s in own} == {str(side) for side in method.senders}
        drawing = str(sequence(steps, method.method))
        assert drawing.count('<g class="arrow') == sum(step.sender is not None for step in steps)
        assert all(step.words for step in steps)
