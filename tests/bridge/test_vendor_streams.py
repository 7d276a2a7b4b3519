"""Streams that are not those of `subscriptions/listen`: their notifications and results reach the client under its own ids (X-4).

Extensions open them with methods of their own, such as `events/stream`: each notification names the request, as in a listen stream.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import pytest

from api.wire import HANDSHAKE, SUBSCRIPTION_ID, Message
from bridge.hands import VENDOR, Downstream, Servers, Upstream, bridge_to, bridged
from helpers.http_in_process import InProcess
from helpers.requirements import req
from helpers.running import run, until
from mcprev.revisions import ALL, Revision

STREAM: Final = f"{VENDOR}stream"
EVENT: Final = f"{VENDOR}event"
STATELESS: Final = [row for row in ALL if row.listens]
each_stateless = pytest.mark.parametrize("row", STATELESS, ids=lambda row: row.name)


class Streaming(Upstream):
    """A server that says nothing to the requests of streams until the test wants it to."""

    def __init__(self, row: Revision) -> None:
        super().__init__(row, {}, {"tools/list": {"tools": []}})
        self.streams: dict[str, Any] = {}
        """The id of the request of each stream, by the name in its params."""
        self.opened = asyncio.Event()

    def _take(self, message: Message) -> None:
        if message.get("method") != STREAM:
            super()._take(message)
            return
        self.streams[message["params"]["name"]] = message["id"]
        if len(self.streams) == 2:
            self.opened.set()

    def event(self, name: str, value: Any, **more: Any) -> None:
        meta = {SUBSCRIPTION_ID: self.streams[name], **more}
        self.tell(EVENT, {"value": value, "_meta": meta})

    def end(self, name: str) -> None:
        meta = {SUBSCRIPTION_ID: self.streams[name]}
        result = {"resultType": "complete", "last": name, "_meta": meta}
        self.send({"jsonrpc": "2.0", "id": self.streams[name], "result": result})


@asynccontextmanager
async def two_streams(
    row: Revision,
) -> AsyncGenerator[tuple[Downstream, Streaming, list[asyncio.Task[Any]]], None]:
    servers, client = Servers(lambda: Streaming(row)), Downstream(row)
    async with bridged(bridge_to(servers, row, revisions=[row.name]), client):
        await client.ask("tools/list")
        asks = [
            asyncio.ensure_future(client.ask(STREAM, {"name": name}, id_=f"down-{name}"))
            for name in ("a", "b")
        ]
        up = servers.made[-1]
        assert isinstance(up, Streaming)
        await up.opened.wait()
        yield client, up, asks


@req("SEAM-10", "SUB-5")
@each_stateless
def test_each_stream_gets_what_names_it(row: Revision) -> None:
    async def main() -> None:
        async with two_streams(row) as (client, up, asks):
            for number in range(3):
                up.event("a", number, **{"com.example/x": 1})
                up.event("b", -number)
            up.end("b")
            up.end("a")
            results = [(await ask).result for ask in asks]
            assert [result["_meta"][SUBSCRIPTION_ID] for result in results] == ["down-a", "down-b"]
            assert [result["last"] for result in results] == ["a", "b"]
            heard = [message["params"] for message in client.got if message.get("method") == EVENT]
            for name, sign in (("a", 1), ("b", -1)):
                own = [each for each in heard if each["_meta"][SUBSCRIPTION_ID] == f"down-{name}"]
                assert [each["value"] for each in own] == [0, sign, 2 * sign]
            assert heard[0]["_meta"]["com.example/x"] == 1

    run(main())


@req("SEAM-10", "SUB-5")
@each_stateless
def test_what_names_no_request_keeps_its_name(row: Revision) -> None:
    """An extension may count its streams in another way; only listen streams are named by requests alone."""

    async def main() -> None:
        async with two_streams(row) as (client, up, asks):
            up.end("b")
            await asks[1]
            up.streams["theirs"] = "stream-7"
            up.event("theirs", 1)
            up.tell(
                "notifications/tools/list_changed", {"_meta": {SUBSCRIPTION_ID: "an ended listen stream"}}
            )
            up.end("a")
            await asks[0]
            (event,) = [message["params"] for message in client.got if message.get("method") == EVENT]
            assert event == {"value": 1, "_meta": {SUBSCRIPTION_ID: "stream-7"}}
            assert not [m for m in client.got if m.get("method") == "notifications/tools/list_changed"]

    run(main())


@req("SEAM-10", "SUB-2", at=STATELESS[0].name)
@each_stateless
def test_a_listen_stream_beside_it_gets_its_own(row: Revision) -> None:
    async def main() -> None:
        async with two_streams(row) as (client, up, asks):
            listening = asyncio.ensure_future(
                client.ask(
                    "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id_="down-l"
                )
            )
            await client.heard("notifications/subscriptions/acknowledged")
            ((id_, _filter),) = up.listens
            up.tell("notifications/tools/list_changed", {"_meta": {SUBSCRIPTION_ID: id_}})
            up.event("a", 1)
            event = await client.heard(EVENT)
            assert event["_meta"] == {SUBSCRIPTION_ID: "down-a"}
            changed = [
                m["params"] for m in client.got if m.get("method") == "notifications/tools/list_changed"
            ]
            assert changed == [{"_meta": {SUBSCRIPTION_ID: "down-l"}}]
            for ask in (listening, *asks):
                ask.cancel()

    run(main())


@req("SEAM-10", everywhere=True)
@pytest.mark.parametrize("row", HANDSHAKE, ids=lambda row: row.name)
def test_in_a_session_the_member_means_nothing_and_passes(row: Revision) -> None:
    async def main() -> None:
        servers, client = Servers(lambda: Upstream(row, {})), Downstream(row)
        async with bridged(bridge_to(servers, row), client):
            told = {"value": 1, "_meta": {SUBSCRIPTION_ID: "theirs"}}
            servers.made[0].tell(EVENT, told)
            assert await client.heard(EVENT) == told

    run(main())


@req("SEAM-10", "SUB-5", at=STATELESS[0].name)
@each_stateless
def test_over_http_they_come_on_the_stream_of_their_request(row: Revision) -> None:
    async def main() -> None:
        servers, client = Servers(lambda: Streaming(row)), Downstream(row)
        bridge = bridge_to(servers, row, revisions=[row.name])
        async with bridge.running():
            app = bridge.asgi()
            connector = InProcess(app)
            async with aiohttp.ClientSession(connector=connector) as session:

                async def lines(name: str) -> list[Message]:
                    body = {"jsonrpc": "2.0", "id": f"down-{name}", "method": STREAM}
                    params = {"name": name, "_meta": client.stamp}
                    headers = {
                        "accept": "application/json, text/event-stream",
                        "mcp-protocol-version": row.version,
                        "mcp-method": STREAM,
                    }
                    url = connector.origin + "/mcp"
                    async with session.post(
                        url, json={**body, "params": params}, headers=headers
                    ) as response:
                        assert response.status == 200, await response.text()
                        data = [line[6:] async for line in response.content if line.startswith(b"data: ")]
                    return [json.loads(each) for each in data if each.strip()]

                asks = [asyncio.ensure_future(lines(name)) for name in ("a", "b")]
                ups: dict[str, Streaming] = {}

                def opened() -> bool:
                    found = [up for up in servers.made if isinstance(up, Streaming)]
                    ups.update({name: up for up in found for name in up.streams})
                    return len(ups) == 2

                await until(opened)
                for name in "aab":
                    ups[name].event(name, name)
                for name in "ba":
                    ups[name].end(name)
                for name, ask, many in (("a", asks[0], 2), ("b", asks[1], 1)):
                    *events, last = await ask
                    assert [each["params"]["value"] for each in events] == [name] * many
                    ids = {each["params"]["_meta"][SUBSCRIPTION_ID] for each in events}
                    assert ids | {last["result"]["_meta"][SUBSCRIPTION_ID]} == {f"down-{name}"}
            await app.aclose()

    run(main())
