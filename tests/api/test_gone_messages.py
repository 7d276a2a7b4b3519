"""A revision without a message that the runtime sends by itself: it is not sent, and what would send it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

import mcprev
from helpers.requirements import D, E
from helpers.running import run
from mcprev.protocol.connection_state import Responder
from mcprev.revisions import Revision
from mcprev_types import MethodSpec

GONE: Final = (
    "notifications/message",
    "notifications/progress",
    "notifications/tools/list_changed",
)
METHODS: Final[Any] = Revision.methods


@pytest.mark.parametrize("revision", [D, E])
def test_what_a_revision_no_longer_has_is_not_sent(revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def left(row: Revision) -> Mapping[str, MethodSpec]:
        return {name: spec for name, spec in METHODS.__get__(row).items() if name not in GONE}

    app = mcprev.App("a", "1")
    sent: list[str] = []
    send = Responder.send_notification

    def sending(engine: Responder, method: str, params: Any, channel: Any = None) -> None:
        sent.append(method)
        send(engine, method, params, channel)

    @app.tool
    async def works(ctx: mcprev.Context) -> str:
        await ctx.log("error", "nobody reads this")
        await ctx.progress(1, 2)
        ctx.changed("tools")
        return "done"

    async def call() -> str:
        def ignore(*_: object) -> None:
            pass

        async with mcprev.connect(app, mode=revision, logging=ignore, on_change=ignore) as client:
            await client.set_log_level("debug")
            return (await client.call_tool("works", progress=ignore)).text

    with monkeypatch.context() as patch:
        patch.setattr(Responder, "send_notification", sending)
        assert run(call()) == "done"
        assert {*sent} >= {*GONE}
        patch.setattr(Revision, "methods", property(left))
        sent.clear()
        assert run(call()) == "done"
    assert {*sent}.isdisjoint(GONE)
