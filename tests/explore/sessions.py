"""Records the sessions that the sequences of `mcprev explore` are drawn from: `make sequences`.

A client and a server of mcprev do everything once at each revision, over memory. What they sent, in order, is kept in
`codegen/mcprev_explore/sessions.json`; only what differs from run to run, such as ids of tasks and times, is replaced.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from pydantic import BaseModel

import mcprev
from helpers.support import ROOT
from mcprev.revisions import ALL, Revision
from mcprev_types.latest import models

PATH: Final = ROOT / "codegen" / "mcprev_explore" / "sessions.json"
FIXED: Final = {
    "taskId": "task-1", "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "requestState": "sealed",
}  # fmt: skip
"""What has another value in each run, and what is kept instead."""
FRUIT: Final = "fruit://apple"
Json = dict[str, Any]
Part = Callable[["Session"], Awaitable[None]]


class Day(BaseModel):
    """What the server asks the user for."""

    day: str


def shop(go_on: asyncio.Event, waiting: asyncio.Event) -> mcprev.App:
    """A server that has something of everything."""
    app = mcprev.App("shop", "1.0")

    @app.tool
    async def price(fruit: str, ctx: mcprev.Context) -> str:
        await ctx.progress(1, 2)
        return f"{fruit}: 2"

    @app.tool
    async def note(ctx: mcprev.Context) -> str:
        await ctx.log("info", "noted")
        return "noted"

    @app.tool
    async def order(ctx: mcprev.Context) -> str:
        await ctx.elicit("Which day?", Day)
        return "ordered"

    @app.tool
    async def praise(ctx: mcprev.Context) -> str:
        return (await ctx.sample("Praise apples.", max_tokens=10)).text or ""

    @app.tool
    async def where(ctx: mcprev.Context) -> str:
        return str(len((await ctx.ask("roots", models.ListRootsRequest())).roots))

    @app.tool
    async def wait() -> str:
        waiting.set()
        await asyncio.Event().wait()
        return "never"

    @app.tool(task="optional")
    async def bake(ctx: mcprev.Context) -> str:
        await ctx.detach()
        await go_on.wait()
        return "baked"

    @app.resource(FRUIT)
    def apple() -> str:
        return "an apple"

    @app.resource("fruit://{name}")
    def fruit(name: str) -> str:
        return name

    @app.prompt
    def recipe(fruit: str) -> str:
        return f"a cake of {fruit}"

    @app.completion("recipe", "fruit")
    def fruits(value: str) -> list[str]:
        return [each for each in ("apple", "pear") if each.startswith(value)]

    return app


class Session:
    """One session."""

    def __init__(
        self, client: mcprev.Client, app: mcprev.App, go_on: asyncio.Event, waiting: asyncio.Event
    ) -> None:
        self.client, self.app, self.go_on, self.waiting = client, app, go_on, waiting

    async def call(self, name: str) -> None:
        await self.client.call_tool(name, {})


# -- what is done ------------------------------------------------------------------------------------------------


async def lists(session: Session) -> None:
    client = session.client
    for found in (client.tools(), client.resources(), client.resource_templates(), client.prompts()):
        assert [item async for item in found]


async def call(session: Session) -> None:
    await session.client.call_tool("price", {"fruit": "apple"}, progress=lambda _done, _total, _message: None)


async def asking(session: Session) -> None:
    await session.call("order")


async def sampling(session: Session) -> None:
    await session.call("praise")


async def roots(session: Session) -> None:
    await session.call("where")


async def reading(session: Session) -> None:
    await session.client.read_resource(FRUIT)


async def prompt(session: Session) -> None:
    await session.client.get_prompt("recipe", {"fruit": "apple"})


async def completion(session: Session) -> None:
    await session.client.complete(models.PromptReference(name="recipe"), "fruit", "a")


async def ping(session: Session) -> None:
    await session.client.ping()


async def logging(session: Session) -> None:
    await session.client.set_log_level("info")
    await session.call("note")


async def following(session: Session) -> None:
    async with session.client.listen(tools=True, prompts=True, resources=True, uris=[FRUIT]) as changes:
        for what in ("tools", "prompts", "resources"):
            session.app.server.changed(what)
            await anext(changes)
        session.app.server.changed("resource", FRUIT)
        await anext(changes)


async def changed_roots(session: Session) -> None:
    session.client.roots_changed()


async def cancelling(session: Session) -> None:
    calling = asyncio.ensure_future(session.call("wait"))
    await session.waiting.wait()
    calling.cancel()
    with suppress(asyncio.CancelledError):
        await calling


async def task(session: Session) -> None:
    started = await session.client.start_tool("bake")
    await started.refresh()
    session.go_on.set()
    await started.result()


async def cancelled_task(session: Session) -> None:
    session.go_on.clear()
    await (await session.client.start_tool("bake")).cancel()


PARTS: Final[dict[Part, str]] = {
    lists: "tools/list", call: "tools/call", asking: "elicitation/create", sampling: "sampling/createMessage",
    roots: "roots/list", reading: "resources/read", prompt: "prompts/get", completion: "completion/complete",
    ping: "ping", logging: "notifications/message", following: "notifications/resources/updated",
    changed_roots: "notifications/roots/list_changed", task: "tasks/get", cancelled_task: "tasks/cancel",
    cancelling: "notifications/cancelled",
}  # fmt: skip
"""What is done, and a method without which a revision does not have it."""


# -- recording ---------------------------------------------------------------------------------------------------


async def recorded(row: Revision) -> Json:
    """What was sent at a revision in each part of a session, without those that the revision does not have."""
    go_on, waiting = asyncio.Event(), asyncio.Event()
    app, events = shop(go_on, waiting), list[mcprev.WireEvent]()
    found: dict[str, list[Json]] = {}

    async def elicitation(_params: object) -> Json:
        return {"day": "Monday"}

    async def sampled(_params: object) -> models.CreateMessageResult:
        return models.CreateMessageResult(
            role="assistant", model="m", content=models.TextContent(text="Crisp."), stop_reason="endTurn"
        )

    async with mcprev.connect(
        app,
        revisions=[row.name],
        tap=events.append,
        sampling=sampled,
        elicitation=elicitation,
        roots=["/srv/shop"],
        name="cook",
        version="1.0",
    ) as client:
        found["opening"] = messages(events)
        session = Session(client, app, go_on, waiting)
        for part, needed in PARTS.items():
            if needed not in row.methods:
                continue
            start = len(events)
            async with asyncio.timeout(10):
                await part(session)
                sent = len(events)
                await client.ping()  # what was sent without an answer is there by then
            found[part.__name__] = messages(_without_ping(events, start, sent))
    first = found["lists"]
    if first[0]["message"].get("method") == "notifications/initialized":
        found["opening"].append(first.pop(0))
    return found


def _without_ping(events: list[mcprev.WireEvent], start: int, sent: int) -> list[mcprev.WireEvent]:
    """The events of a part, without the request and the response that are the last of it."""
    late = [json.loads(event.data) for event in events[sent:]]
    ping = next(one["id"] for one in late if "id" in one and "method" in one)
    kept = [event for event, one in zip(events[sent:], late, strict=True) if one.get("id") != ping]
    return [*events[start:sent], *kept]


def messages(events: list[mcprev.WireEvent]) -> list[Json]:
    """Who sent what, without what differs from run to run."""
    return [
        {"from": event.direction.partition("_")[0], "message": _fixed(json.loads(event.data))}
        for event in events
        if event.kind == "message"
    ]


def _fixed(value: Any) -> Any:
    if isinstance(value, dict):
        members = cast("Json", value)
        return {name: FIXED[name] if name in FIXED else _fixed(each) for name, each in members.items()}
    if isinstance(value, list):
        return [_fixed(each) for each in cast("tuple[Any, ...]", value)]
    return value


async def sessions() -> dict[str, Json]:
    """The sessions of all revisions."""
    return {row.name: await recorded(row) for row in ALL}


def text(found: Json) -> str:
    """The file: a message a line, so that a change of one is a change of a line."""
    lines = [
        f" {json.dumps(name)}: {{\n"
        + ",\n".join(
            f"  {json.dumps(part)}: [\n"
            + ",\n".join(f"   {json.dumps(one, ensure_ascii=False)}" for one in sent)
            + "\n  ]"
            for part, sent in parts.items()
        )
        + "\n }"
        for name, parts in found.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    Path(PATH).write_text(text(asyncio.run(sessions())), encoding="utf-8")
