"""What is sent at a revision in the place of a method that it does not send."""

from __future__ import annotations

import json
from typing import Any

import pytest

import mcprev
from helpers.named import ROW_A, ROW_E
from helpers.running import run
from mcprev.analysis import counterparts
from mcprev.protocol import tasks
from mcprev.revisions import ALL, DEFAULT, Revision
from mcprev.wire.headers import request_headers
from mcprev_types import Transport

each_row = pytest.mark.parametrize("row", ALL, ids=lambda row: row.name)
METHODS = sorted(
    {method for row in ALL for method in (*row.methods, *tasks.METHODS[row.tasks])}
    | {tasks.TASK_NOTIFICATION}
)


def sends(row: Revision, method: str) -> bool:
    """Whether a message with a method of its own goes over the wire at a revision."""
    spec = row.methods.get(method)
    extension = {tasks.TASK_NOTIFICATION} if tasks.UPDATE in tasks.METHODS[row.tasks] else set[str]()
    return (spec is not None and spec.transport is not Transport.EMBEDDED) or method in (
        tasks.METHODS[row.tasks] | extension
    )


@each_row
@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_sent_or_has_a_reason(method: str, row: Revision) -> None:
    found = mcprev.counterpart(method, row.name)
    if sends(row, method):
        assert found == mcprev.Counterpart(method, "")
        assert found.sentence == ""
    else:
        assert found.sentence.endswith(found.text)
        assert found.text.endswith(".")
        assert found.sentence.startswith(f"`{found.sent_as}` is sent" if found.sent_as else "Not sent. ")
        assert found.sent_as != method
        assert found.sent_as is None or sends(row, found.sent_as)


def test_no_method_has_nothing_in_its_place() -> None:
    lacking = {
        method
        for method in METHODS
        for row in ALL
        if "nothing in its place" in mcprev.counterpart(method, row).text
    }
    assert not lacking


def test_every_row_counts_somewhere_and_no_two_for_the_same() -> None:
    used: set[int] = set()
    for row in ALL:
        for method in METHODS:
            counting = [
                number
                for number, (methods, field, value, _, _) in enumerate(counterparts.ROWS)
                if method in methods and getattr(row, field) == value and not sends(row, method)
            ]
            assert len(counting) <= 1, (method, row.name)
            used.update(counting)
    assert used == set(range(len(counterparts.ROWS)))


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_the_runtime_sends_what_the_table_says(row: Revision) -> None:
    """A client connects, sets the level of logs and subscribes to a resource: seen on the wire."""
    app = mcprev.App("a", "1")

    @app.resource("note://x")
    def note() -> str:
        return "x"

    @app.tool
    async def log(ctx: mcprev.Context) -> str:
        await ctx.log("info", "x")
        return "y"

    events: list[mcprev.WireEvent] = []

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name, tap=events.append) as client:
            await client.set_log_level("debug")
            await client.call_tool("log")
            async with client.listen(uris=["note://x"]):
                pass

    run(main(), has_both_ends=True)
    sent: list[dict[str, Any]] = [
        json.loads(event.data)
        for event in events
        if event.kind == "message" and event.direction == "client_to_server"
    ]
    methods = {message.get("method") for message in sent}
    for method in ("initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe"):
        found = mcprev.counterpart(method, row)
        assert (method in methods) == (found.sent_as == method), method
        if found.sent_as is not None:
            assert found.sent_as in methods, (method, methods)


@each_row
def test_headers_of_a_message_with_how_http_carries_it(row: Revision) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "x"}}
    for given in (message, json.dumps(message).encode()):
        headers, text = mcprev.http_headers(given, row.name)
        assert headers == request_headers(row, "prompts/get", {"name": "x"})
        assert text.endswith(".")
    assert mcprev.judge_headers(headers, json.dumps(message).encode(), row) == []
    assert mcprev.http_headers(message, ROW_A)[1] != mcprev.http_headers(message, ROW_E)[1]


def test_unknown_revisions_and_methods() -> None:
    with pytest.raises(ValueError, match="1999"):
        mcprev.counterpart("ping", "1999")
    found = mcprev.counterpart("nothing/of\x1bthis", ROW_E)
    assert found.sent_as is None
    assert "\x1b" not in found.text
