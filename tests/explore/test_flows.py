"""The sequences that the site draws: what was recorded is what is sent today, and what follows from the schema fits it."""

from __future__ import annotations

import asyncio
import json
from typing import Final

import pytest

from explore.sessions import PATH, recorded, text
from helpers.support import REVISIONS
from mcprev.revisions import ALL, Revision
from mcprev_codegen.facts import load_revision
from mcprev_codegen.inputs import schema_folder
from mcprev_explore.drawings import sequence
from mcprev_explore.flows import FlowStep, flow
from mcprev_explore.recorded import recorded_flow, sessions

CALL: Final = "tools/call"
FREE: Final = {"server/discover", "notifications/progress", "notifications/message"}
"""Messages that a client or server may send as it likes."""
RECORDED: Final = [row for row in ALL if row.name in sessions()]
NOT_RECORDED: Final = {"tasks/list", "notifications/elicitation/complete"}
"""Nothing of mcprev sends these by itself."""


def told(steps: tuple[FlowStep, ...]) -> list[tuple[str, str]]:
    """Who sends which method, or `result`, but for the opening, until something else may happen."""
    found: list[tuple[str, str]] = []
    for step in steps:
        if step.kind == "part":
            break
        if step.sender is not None and step.method not in FREE and not step.faint:
            found.append((str(step.sender), "result" if step.kind == "result" else step.text))
    return found


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: row.name)
def test_what_was_recorded_is_what_is_sent_today(row: Revision) -> None:
    kept = json.loads(PATH.read_text(encoding="utf-8"))[row.name]
    assert asyncio.run(recorded(row)) == kept, "run `make sequences`"


def test_the_file_has_a_message_a_line() -> None:
    kept = PATH.read_text(encoding="utf-8")
    assert text(json.loads(kept)) == kept


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: row.name)
def test_every_method_was_recorded_and_begins_with_the_opening(row: Revision) -> None:
    revision = load_revision(schema_folder(), row.name)
    for name, method in revision.methods.items():
        steps = recorded_flow(revision, method)
        assert (steps is None) == (name in NOT_RECORDED), name
        if steps is not None:
            opening = next(step.text for step in steps if step.sender is not None)
            assert opening == ("initialize" if row.handshake else "server/discover"), name
            assert {str(step.sender) for step in steps if step.method == name and not step.faint} >= {
                str(side) for side in method.senders
            }, name


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: row.name)
def test_what_follows_from_the_schema_is_what_was_recorded(row: Revision) -> None:
    revision = load_revision(schema_folder(), row.name)
    for name in (CALL, "tools/list", "resources/read", "prompts/get", "completion/complete", "initialize"):
        if name in revision.methods:
            seen = recorded_flow(revision, revision.methods[name])
            assert seen is not None
            assert told(seen) == told(flow(revision, revision.methods[name])), name


@pytest.mark.parametrize("row", [row for row in RECORDED if row.elicitation_modes], ids=lambda row: row.name)
def test_a_call_that_asks_is_part_of_the_sequence_of_a_call(row: Revision) -> None:
    revision = load_revision(schema_folder(), row.name)
    steps = recorded_flow(revision, revision.methods[CALL])
    assert steps is not None
    words = [step.text for step in steps]
    asking = words[words.index("or the server asks first") + 1 :]
    assert asking[0] == CALL
    assert asking[1] == ("InputRequiredResult" if row.input_in_results else "elicitation/create")


@pytest.mark.parametrize("name", REVISIONS)
def test_every_method_has_a_sequence_whose_last_message_fits_it(name: str) -> None:
    revision = load_revision(schema_folder(), name)
    for method in revision.methods.values():
        for steps in (flow(revision, method), recorded_flow(revision, method) or ()):
            drawing = str(sequence(steps, method.method))
            assert drawing.count('<g class="arrow') == sum(step.sender is not None for step in steps)
            assert all(step.words for step in steps)
        own = [s for s in flow(revision, method) if s.method == method.method and s.sender is not None]
        assert own, method.method
        assert {str(s.sender) for s in own} == {str(side) for side in method.senders}
