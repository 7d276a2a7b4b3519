"""Several servers behind one bridge: each request reaches the one that it is about, and all of it comes back."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from api.test_principals import sent_by
from api.wire import LOG_LEVEL, Error, Message
from bridge.hands import Downstream, Upstream, bridged, question, said, text
from bridge.joining import (
    MODERN,
    SESSION,
    TOOLS,
    all_tools,
    asked,
    each_cell,
    each_client,
    ends,
    joined,
    last,
    name_of,
    resources,
    tools,
)
from helpers.http_in_process import InProcess
from helpers.running import run, until
from mcprev.bridge.several.options import BridgedServer
from mcprev.protocol.request_state import RequestStateSealer
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.revisions import DEFAULT, Revision

NAMES: Final = ("files", "bank")
each_pair = pytest.mark.parametrize(
    ("row", "there"), [(row, there) for row in DEFAULT for there in DEFAULT], ids=lambda row: row.name
)


@each_pair
def test_tools_are_listed_with_prefixes_and_called_without(row: Revision, there: Revision) -> None:
    client, servers = Downstream(row), ends(there, *NAMES)

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            listed = (await client.ask("tools/list")).result
            assert all_tools(listed) == [
                f"{name}__{tool}" for name in NAMES for tool in ("who", "asks", "reports")
            ]
            for name in NAMES:
                arguments = {"uri": "files+x:y", "name": "bank__who"}
                assert said(await client.call(f"{name}__who", arguments)) == [name, "who", arguments]
            for name in NAMES:
                assert len(asked(servers, name, "tools/call")) == 1
                servers[name].check()

    run(main())


async def links(up: Upstream, request: Message) -> Message:
    """All the places of a result that lead somewhere, and those that do not."""
    name = name_of(up)
    found: list[Message] = [
        {"type": "text", "text": f"see {name}:x"},
        {"type": "resource", "resource": {"uri": f"{name}:one", "text": f"{name}:one"}},
        {"type": "resource", "resource": {"uri": "bank+bank:one", "text": ""}},
    ]
    if "ResourceLink" in dir(up.revision.models):
        found.append({"type": "resource_link", "uri": f"{name}:two", "name": f"{name}:two"})
    return {"content": found}


@each_pair
def test_links_lead_to_the_server_that_gave_them(row: Revision, there: Revision) -> None:
    def read(request: Message) -> Message:
        uri = request["params"]["uri"]
        return {"contents": [{"uri": uri, "text": uri}]}

    replies = {"resources/read": read}
    client = Downstream(row)
    servers = ends(there, *NAMES, works={"links": links}, files=replies, bank=replies)

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            content = (await client.call("files__links"))["content"]
            assert content[0] == {"type": "text", "text": "see files:x"}
            assert content[1]["resource"] == {"uri": "files+files:one", "text": "files:one"}
            # A server that writes the prefix of another one has a resource of that name, and no access to the other.
            assert content[2]["resource"]["uri"] == "files+bank+bank:one"
            uris = [block["resource"]["uri"] for block in content if block["type"] == "resource"]
            if len(content) == 4 and content[3]["type"] == "resource_link":
                assert content[3]["name"] == "files:two"
                uris.append(content[3]["uri"])
            for uri in uris:
                (found,) = (await client.ask("resources/read", {"uri": uri})).result["contents"]
                assert found["uri"] == uri
                assert f"files+{found['text']}" == uri
            assert not asked(servers, "bank", "resources/read")

    run(main())


@each_cell
def test_resources_templates_prompts_and_completion(row: Revision, there: Revision) -> None:
    def complete(request: Message) -> Message:
        ref = request["params"]["ref"]
        return {"completion": {"values": [ref.get("uri") or ref["name"]]}}

    def get(request: Message) -> Message:
        content = {"type": "text", "text": request["params"]["name"]}
        return {"messages": [{"role": "user", "content": content}]}

    replies: Any = {
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "db://{id}", "name": "row"}]},
        "prompts/list": {"prompts": [{"name": "greet"}]},
        "prompts/get": get,
        "completion/complete": complete,
    }
    client, servers = Downstream(row), ends(there, *NAMES, files=replies, bank=replies)

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            found = (await client.ask("resources/list")).result["resources"]
            assert [each["uri"] for each in found] == [
                "files+files:one", "files+all:one", "bank+bank:one", "bank+all:one",
            ]  # fmt: skip
            found = (await client.ask("resources/templates/list")).result["resourceTemplates"]
            assert [each["uriTemplate"] for each in found] == ["files+db://{id}", "bank+db://{id}"]
            found = (await client.ask("prompts/list")).result["prompts"]
            assert [each["name"] for each in found] == ["files__greet", "bank__greet"]
            (message,) = (await client.ask("prompts/get", {"name": "bank__greet"})).result["messages"]
            assert message["content"]["text"] == "greet"
            for ref, own in (
                ({"type": "ref/prompt", "name": "bank__greet"}, "greet"),
                ({"type": "ref/resource", "uri": "bank+db://{id}"}, "db://{id}"),
            ):
                params = {"ref": ref, "argument": {"name": "a", "value": "b"}}
                result = (await client.ask("completion/complete", params)).result
                assert result["completion"]["values"] == [own]
            assert not asked(servers, "files", "completion/complete")
            assert not asked(servers, "files", "prompts/get")

    run(main())


@each_cell
def test_both_ask_report_and_log_at_the_same_time(row: Revision, there: Revision) -> None:
    client, servers = Downstream(row), ends(there, *NAMES)

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            level = {} if row.handshake else {LOG_LEVEL: "debug"}
            calls = [(name, n) for n in range(3) for name in NAMES]
            several = await asyncio.gather(*(client.call(f"{name}__asks", {"n": n}) for name, n in calls))
            for (name, n), result in zip(calls, several, strict=True):
                arguments, (answer,) = said(result)
                assert arguments == {"n": n}
                assert answer["content"] == {"name": f"who? {name}"}
            for name in NAMES:
                meta = {"progressToken": f"for {name}", **level}
                answer = await client.ask("tools/call", {"name": f"{name}__reports"}, meta=meta)
                progress = answer.notified("notifications/progress")
                assert [(each["progressToken"], each["progress"]) for each in progress] == [
                    (f"for {name}", 1), (f"for {name}", 2),
                ]  # fmt: skip
                assert [each["data"] for each in answer.notified("notifications/message")] == [f"from {name}"]

    run(main())


@each_cell
def test_a_cancellation_reaches_the_server_of_the_call_and_no_other(row: Revision, there: Revision) -> None:
    async def stalls(_up: Upstream, _request: Message) -> None:
        await asyncio.Event().wait()

    client, servers = Downstream(row), ends(there, *NAMES, works={"stalls": stalls})

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            task = asyncio.ensure_future(client.ask("tools/call", {"name": "bank__stalls"}, id_="x"))
            await until(lambda: bool(asked(servers, "bank", "tools/call")))
            client.tell("notifications/cancelled", {"requestId": "x", "reason": "enough"})
            await until(
                lambda: any(getattr(up, "cancelled", None) == ["enough"] for up in servers["bank"].made)
            )
            assert not asked(servers, "files", "notifications/cancelled")
            task.cancel()

    run(main())


@each_cell
def test_changes_of_lists_and_resources(row: Revision, there: Revision) -> None:
    client = Downstream(row)
    replies: Any = {"resources/subscribe": {}, "resources/unsubscribe": {}}
    servers = ends(there, *NAMES, files=replies, bank=replies)
    updated, changed = CHANGES[Changed.RESOURCE].method, CHANGES[Changed.TOOLS].method

    def tells(name: str, method: str, params: Message) -> None:
        for up in servers[name].made:
            assert isinstance(up, Upstream)
            if there.handshake:
                up.tell(method, params or None)
            for id_, _ in up.listens:
                up.tell(method, {**params, "_meta": {"io.modelcontextprotocol/subscriptionId": id_}})

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            if row.handshake:
                assert (await client.ask("resources/subscribe", {"uri": "bank+all:one"})).result == {}
            else:
                wanted = {"toolsListChanged": True, "resourceSubscriptions": ["bank+all:one", "no:where"]}
                client.send(
                    {
                        "jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen",
                        "params": {"notifications": wanted, "_meta": client.stamp},
                    }
                )  # fmt: skip
                said = await client.heard("notifications/subscriptions/acknowledged")
                assert said["notifications"] == {**wanted, "resourceSubscriptions": ["bank+all:one"]}
            if there.handshake:
                assert asked(servers, "bank", "resources/subscribe") == [{"uri": "all:one"}]
                assert not asked(servers, "files", "resources/subscribe")
            tells("bank", updated, {"uri": "all:one"})
            assert (await client.heard(updated))["uri"] == "bank+all:one"
            tells("files", changed, {})
            await client.heard(changed)

    run(main())


@each_client
def test_the_introduction_joins_what_the_servers_say(row: Revision) -> None:
    client, servers = Downstream(row), ends(SESSION, *NAMES)

    async def main() -> None:
        bridge = joined(servers, SESSION, None, name="all of them", version="3")
        introduction: dict[str, Message] = {
            "files": {"capabilities": {"tools": {}}, "instructions": "Read first."},
            "bank": {"capabilities": {"resources": {"subscribe": True}, "experimental": {"x": {}}}},
        }
        for name, server in servers.items():
            make = server._make  # pyright: ignore[reportPrivateUsage]

            def made(name: str = name, make: Any = make) -> Any:
                up = make()
                up.replies["initialize"] = {
                    "protocolVersion": SESSION.version,
                    "serverInfo": {"name": name, "version": "1"},
                    **introduction[name],
                }
                return up

            server._make = made  # pyright: ignore[reportPrivateUsage]
        async with bridged(bridge, client):
            assert client.hello["capabilities"] == {
                "tools": {"listChanged": True},
                "resources": {"subscribe": True, "listChanged": True},
            }
            assert client.hello["instructions"] == "files:\nRead first."
            info = (
                client.hello.get("serverInfo") or client.hello["_meta"]["io.modelcontextprotocol/serverInfo"]
            )
            assert info == {"name": "all of them", "version": "3"}
            # Neither is asked for a list that it does not declare.
            await client.ask("tools/list")
            assert not asked(servers, "bank", "tools/list")

    run(main())


@each_cell
def test_what_no_server_can_be_found_for_is_refused(row: Revision, there: Revision) -> None:
    client, servers = Downstream(row), ends(there, *NAMES)

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            vendor = (await client.ask("com.example/x", {})).error
            assert vendor["code"] == -32601
            assert "BR-1" in vendor["message"]
            for name in ("who", "nobody__who", "__who", "", "files_who"):
                error = (await client.ask("tools/call", {"name": name})).error
                assert error["code"] == -32602, name
            assert (await client.ask("tools/call", {"name": 3})).code == -32602
            assert (await client.ask("resources/read", {"uri": "all:one"})).code == row.resource_not_found
            for name in NAMES:
                assert not asked(servers, name, "tools/call")
                assert not asked(servers, name, "resources/read")

    run(main())


@each_cell
def test_a_name_without_prefix_leads_to_the_only_server_that_lists_it(row: Revision, there: Revision) -> None:
    contents = {"contents": [{"uri": "bank:one", "text": "here"}]}
    lists: Any = {
        "files": {"tools/list": tools("who")},
        "bank": {"tools/list": tools("who", "asks"), "resources/read": contents},
    }
    client, servers = Downstream(row), ends(there, *NAMES, **lists)

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            _, (answer,) = said(await client.call("asks"))
            assert answer["content"] == {"name": "who? bank"}
            (content,) = (await client.ask("resources/read", {"uri": "bank:one"})).result["contents"]
            assert content == {"uri": "bank+bank:one", "text": "here"}
            assert (await client.ask("tools/call", {"name": "who"})).code == -32602
            assert (await client.ask("resources/read", {"uri": "all:one"})).code == row.resource_not_found

    run(main())


@each_cell
def test_an_error_names_a_resource_as_its_client_does(row: Revision, there: Revision) -> None:
    missing = Error(there.resource_not_found, "no such thing", {"uri": "all:one"})
    client, servers = Downstream(row), ends(there, *NAMES, bank={"resources/read": missing})

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            error = (await client.ask("resources/read", {"uri": "bank+all:one"})).error
            assert error == {
                "code": row.resource_not_found,
                "message": "no such thing",
                "data": {"uri": "bank+all:one"},
            }

    run(main())


@each_cell
def test_a_log_level_of_a_session_reaches_every_server(row: Revision, there: Revision) -> None:
    if not row.handshake:
        return
    client, servers = Downstream(row), ends(there, *NAMES)

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            assert (await client.ask("logging/setLevel", {"level": "debug"})).result == {}
            assert (await client.ask("logging/setLevel", {"level": "loud"})).code == -32602
            await client.call("files__who")
            for name in NAMES:
                if there.handshake:
                    assert asked(servers, name, "logging/setLevel") == [{"level": "debug"}]
            if not there.handshake:
                (call,) = [each for each in last(servers, "files").got if each.get("method") == "tools/call"]
                assert call["params"]["_meta"][LOG_LEVEL] == "debug"

    run(main())


@each_cell
def test_with_needed_only_what_several_list_has_a_prefix(row: Revision, there: Revision) -> None:
    client = Downstream(row)
    lists: Any = {
        "files": {"tools/list": tools("who", "asks", "bank__who")},
        "bank": {
            "tools/list": tools("who", "reports"),
            "resources/list": resources("files+all:one", "b:one"),
        },
    }
    servers = ends(there, *NAMES, **lists)

    async def main() -> None:
        async with bridged(joined(servers, there, prefixes="needed"), client):
            found = all_tools((await client.ask("tools/list")).result)
            # `bank__who` of files has a prefix: without one it would lead to another server.
            assert found == ["files__who", "asks", "files__bank__who", "bank__who", "reports"]
            listed = (await client.ask("resources/list")).result["resources"]
            uris = [each["uri"] for each in listed]
            assert uris == ["files:one", "all:one", "bank+files+all:one", "b:one"]
            assert said(await client.call("bank__who"))[0] == "bank"
            assert said(await client.call("files__who"))[0] == "files"
            assert (await client.ask("tools/call", {"name": "who"})).code == -32602
            assert said(await client.call("reports")) == "bank"

    run(main())


@pytest.mark.parametrize("row", [MODERN], ids=lambda row: row.name)
def test_a_stateless_list_may_be_kept_as_long_as_each_part_of_it(row: Revision) -> None:
    hints: Any = {
        "files": {"tools/list": {**tools("a"), "ttlMs": 5000, "cacheScope": "public"}},
        "bank": {"tools/list": {**tools("b"), "ttlMs": 3000, "cacheScope": "public"}},
    }
    client, servers = Downstream(row), ends(row, *NAMES, **hints)

    async def main() -> None:
        async with bridged(joined(servers, row), client):
            found = (await client.ask("tools/list")).result
            assert (found["ttlMs"], found["cacheScope"]) == (3000, "public")
            last(servers, "bank").replies["tools/list"] = Error(-32603)
            found = (await client.ask("tools/list")).result
            assert (found["ttlMs"], found["cacheScope"]) == (0, "private")

    run(main())


@pytest.mark.parametrize(
    ("there", "per_principal", "connections"),
    [(SESSION, False, 2), (SESSION, True, 2), (MODERN, False, 1), (MODERN, True, 2)],
)
def test_principals_have_connections_of_their_own_if_they_are_to(
    there: Revision, connections: int, *, per_principal: bool
) -> None:
    """Over HTTP, where a stateless server could serve all of them over one."""
    app, client = mcprev.App("bank", "1"), Downstream(MODERN)

    @app.tool
    def who() -> str:
        return "bank"

    async def main() -> None:
        server = app.server.asgi()
        connector = InProcess(server)
        async with aiohttp.ClientSession(connector=connector) as session, app.server.running():
            target = mcprev.http(f"{connector.origin}/mcp", session=session)
            bank = BridgedServer(target=target, per_principal=per_principal)
            bridge = mcprev.Bridge({"bank": bank}, server_revisions=[there.name])
            async with bridged(bridge, client, opened=False):
                with sent_by(bridge, "ann") as sender:
                    for name in ("ann", "bob", "ann", "bob"):
                        sender.principal = name
                        assert (await client.call("bank__who"))["content"][0]["text"] == "bank"
                hub = bridge._hub  # pyright: ignore[reportPrivateUsage]
                assert hub is not None
                assert len(hub.members["bank"].relay.upstreams) == connections
        await server.aclose()

    run(main())


@each_cell
def test_a_flood_of_one_server_holds_up_no_other(row: Revision, there: Revision) -> None:
    """The client reads all the time here, but the first server sends more than may wait."""

    async def floods(up: Upstream, request: Message) -> Message:
        for number in range(500):
            up.logs(request, "error", f"{number} " + "x" * 1_000)
        return text(name_of(up))

    client, servers = Downstream(row), ends(there, *NAMES, works={**TOOLS, "floods": floods})

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            level = {} if row.handshake else {LOG_LEVEL: "debug"}
            flood = asyncio.ensure_future(client.ask("tools/call", {"name": "files__floods"}, meta=level))
            meta = {"progressToken": "p", **level}
            answer = await client.ask("tools/call", {"name": "bank__reports"}, meta=meta)
            assert [each["progress"] for each in answer.notified("notifications/progress")] == [1, 2]
            assert said((await flood).result) == "files"

    run(main())


@each_cell
def test_a_notification_that_is_in_no_schema_ends_at_the_bridge(row: Revision, there: Revision) -> None:
    async def tells(up: Upstream, _request: Message) -> Message:
        up.tell("notifications/com.example/x", {"uri": "a:b"})
        return text(name_of(up))

    client, servers = Downstream(row), ends(there, *NAMES, works={"tells": tells})

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            assert said(await client.call("files__tells")) == "files"
            client.tell("notifications/com.example/y")
            heard = await client.settle()
            assert not [each for each in heard if "com.example" in each["method"]]
            for name in NAMES:
                assert not asked(servers, name, "notifications/com.example/y")

    run(main())


@pytest.mark.parametrize("there", [MODERN], ids=lambda row: row.name)
@pytest.mark.parametrize("prefixes", ["always", "needed"])
def test_workers_with_the_same_keys_agree(there: Revision, prefixes: str) -> None:
    """Cursors, states and names of one worker are good at another one that has seen nothing yet."""

    def page(request: Message) -> Message:
        cursor = int(request["params"].get("cursor", "0"))
        more = {"nextCursor": str(cursor + 1)} if cursor < 2 else {}
        return {"resourceTemplates": [{"uriTemplate": f"t{cursor}:{{x}}", "name": "t"}], **more}

    lists: Any = {"files": {"resources/templates/list": page}, "bank": {"resources/templates/list": page}}

    async def main() -> None:
        states = [RequestStateSealer([b"k" * 32]) for _ in range(2)]
        workers = [
            joined(ends(there, *NAMES, **lists), there, prefixes=prefixes, states=state) for state in states
        ]
        clients = [Downstream(MODERN), Downstream(MODERN)]
        async with bridged(workers[0], clients[0]), bridged(workers[1], clients[1]):
            first = (await clients[0].ask("resources/templates/list")).result
            second = (
                await clients[1].ask("resources/templates/list", {"cursor": first["nextCursor"]})
            ).result
            assert [each["uriTemplate"] for each in second["resourceTemplates"]] == [
                "files+t1:{x}",
                "bank+t1:{x}",
            ]
            asking = (await clients[0].ask("tools/call", {"name": "bank__asks"})).result
            (key,) = asking["inputRequests"]
            answers = {key: {"action": "accept", "content": {"name": "x"}}}
            again = {"name": "bank__asks", "requestState": asking["requestState"], "inputResponses": answers}
            _, (answer,) = said((await clients[1].ask("tools/call", again)).result)
            assert answer["content"] == {"name": "x"}
            listed = [all_tools((await client.ask("tools/list")).result) for client in clients]
            assert listed[0] == listed[1]
            found = [(await client.ask("resources/list")).result["resources"] for client in clients]
            assert found[0] == found[1]

    run(main())


@each_pair
def test_roots_sampling_progress_and_logs_at_every_pair(row: Revision, there: Revision) -> None:
    """Roots are the client's own: their URIs stay as they are on the way to each server."""

    async def asks_twice(up: Upstream, request: Message) -> Message:
        found = await up.asks(
            request, question(there, "roots"), question(there, "sampling", f" {name_of(up)}")
        )
        if isinstance(found, dict):
            return found
        up.progresses(request, 1)
        up.logs(request, "error", name_of(up))
        roots, sampled = found
        return text([[each["uri"] for each in roots["roots"]], sampled["content"]["text"]])

    client, servers = Downstream(row), ends(there, *NAMES, works={"asks": asks_twice})

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            level = {} if row.handshake else {LOG_LEVEL: "debug"}
            for name in NAMES:
                before = len(client.got)
                result = await client.call(f"{name}__asks", progressToken=f"for {name}", **level)
                assert said(result) == [["file:///x"], f"hi {name}"]
                told = [each for each in client.got[before:] if "method" in each and "id" not in each]
                progress = [each["params"] for each in told if each["method"] == "notifications/progress"]
                assert [(each["progressToken"], each["progress"]) for each in progress] == [
                    (f"for {name}", 1)
                ]
                logs = [each["params"]["data"] for each in told if each["method"] == "notifications/message"]
                assert logs == [name]
            for name in NAMES:
                servers[name].check()

    run(main())
