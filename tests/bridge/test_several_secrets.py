"""What one server returns never leads to another: states, cursors, task ids, names, and what a client is not offered."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from hypothesis import given, strategies as st

from api.wire import Answer, Message
from bridge.hands import Downstream, Upstream, bridged, question, said, text
from bridge.joining import (
    MODERN,
    SESSION,
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
from helpers.running import run
from mcprev.bridge.several.names import Names, Naming, Namings
from mcprev.bridge.several.options import BridgedServer, Offer
from mcprev.bridge.several.places import Changes, places_of
from mcprev.bridge.several.seals import Seals
from mcprev.errors import InvalidParams
from mcprev.protocol.request_state import RequestStateSealer
from mcprev.revisions import ALL, Revision

NAMES: Final = ("files", "bank")
both_servers = pytest.mark.parametrize("there", [SESSION, MODERN], ids=lambda row: row.name)


async def ask(client: Downstream, name: str, **more: Any) -> Answer:
    return await client.ask("tools/call", {"name": name, **more})


@both_servers
def test_the_state_of_one_server_is_none_of_another(there: Revision) -> None:
    client, servers = Downstream(MODERN), ends(there, *NAMES)

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            first = (await ask(client, "files__asks")).result
            (key,) = first["inputRequests"]
            answers = {key: {"action": "accept", "content": {"name": "x"}}}
            again = {"requestState": first["requestState"], "inputResponses": answers}
            for name in ("bank__asks", "files__who", "bank__who"):
                assert (await ask(client, name, **again)).code == -32602, name
            wrong = {**again, "requestState": first["requestState"][:-2] + "xx"}
            assert (await ask(client, "files__asks", **wrong)).code == -32602
            assert not asked(servers, "bank", "tools/call")
            _, (answer,) = said((await ask(client, "files__asks", **again)).result)
            assert answer["content"] == {"name": "x"}

    run(main())


@each_client
def test_task_ids_lead_to_the_server_of_the_task(row: Revision) -> None:
    """Both servers call their task the same."""
    handshake = row.handshake
    times = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
    task = {"taskId": "t1", "status": "working", "ttl" if handshake else "ttlMs": None, **times}

    async def begins(_up: Upstream, _request: Message) -> Message:
        if handshake:
            return {"task": task}
        return {"resultType": "task", **task}

    def get(_request: Message) -> Message:
        return task if handshake else {"resultType": "complete", **task}

    def result(_request: Message) -> Message:
        meta = {"io.modelcontextprotocol/related-task": {"taskId": "t1"}}
        link = {"type": "resource_link", "uri": "a:b", "name": "x"}
        return {"content": [link], "_meta": meta}

    replies: Any = {
        "tasks/get": get,
        "tasks/result": result,
        "tasks/list": {"tasks": [task]},
        "tasks/cancel": get if handshake else {"resultType": "complete"},
    }
    capabilities: Message = (
        {"tasks": {}} if handshake else {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    )
    client = Downstream(row, capabilities)
    servers = ends(row, *NAMES, works={"begins": begins}, files=replies, bank=replies)
    for server in servers.values():
        server.capabilities = {"tasks": {"list": {}}}

    async def main() -> None:
        async with bridged(joined(servers, row), client):
            ids: list[str] = []
            for name in NAMES:
                more: Any = {"task": {}} if handshake else {}
                found = (await ask(client, f"{name}__begins", **more)).result
                ids.append((found.get("task") or found)["taskId"])
            assert len({*ids, "t1"}) == 3
            for name, id_ in zip(NAMES, ids, strict=True):
                found = (await client.ask("tasks/get", {"taskId": id_})).result
                assert found["taskId"] == id_
                assert asked(servers, name, "tasks/get") == [{"taskId": "t1"}]
                if handshake:
                    found = (await client.ask("tasks/result", {"taskId": id_})).result
                    assert found["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": id_}
                    assert found["content"][0]["uri"] == f"{name}+a:b"
            for wrong in ("t1", ids[0] + "x", 3, None):
                assert (await client.ask("tasks/get", {"taskId": wrong})).code == -32602
            if handshake:
                listed = (await client.ask("tasks/list")).result["tasks"]
                assert [each["taskId"] for each in listed] == ids

    run(main())


@pytest.mark.parametrize("there", [SESSION], ids=lambda row: row.name)
def test_ids_of_visits_are_told_apart(there: Revision) -> None:
    async def visits(up: Upstream, request: Message) -> Message:
        found = await up.asking(request, question(there, "url"))
        up.tell("notifications/elicitation/complete", {"elicitationId": "e1"})
        return found

    client, servers = Downstream(SESSION), ends(there, *NAMES, works={"visits": visits})

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            for name in NAMES:
                await client.call(f"{name}__visits")
            await client.settle()
            for method in ("elicitation/create", "notifications/elicitation/complete"):
                heard = [
                    each["params"]["elicitationId"] for each in client.got if each.get("method") == method
                ]
                assert heard == [f"{name}__e1" for name in NAMES]

    run(main())


@each_cell
def test_names_of_a_lying_server_keep_its_prefix(row: Revision, there: Revision) -> None:
    lies: Any = {
        "tools/list": tools("bank__who", "__who", "", "who"),
        "resources/list": resources("bank+bank:one", "BANK+x:y", "not a uri"),
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "bank+{x}", "name": "t"}]},
    }
    client, servers = Downstream(row), ends(there, *NAMES, files=lies)

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            listed = all_tools((await client.ask("tools/list")).result)
            assert listed[:4] == ["files__bank__who", "files____who", "files__", "files__who"]
            found = (await client.ask("resources/list")).result["resources"]
            assert [each["uri"] for each in found][:3] == [
                "files+bank+bank:one", "files+BANK+x:y", "files+not a uri",
            ]  # fmt: skip
            found = (await client.ask("resources/templates/list")).result["resourceTemplates"]
            assert [each["uriTemplate"] for each in found] == ["files+bank+{x}"]
            for uri in ("files+bank+bank:one", "FILES+bank+bank:one"):
                await client.ask("resources/read", {"uri": uri})
            assert asked(servers, "files", "resources/read") == [{"uri": "bank+bank:one"}] * 2
            assert not asked(servers, "bank", "resources/read")

    run(main())


# -- what is offered -----------------------------------------------------------------------------------------


OPTIONS: Final[Any] = {
    "files": {
        "prefix": "fs",
        "offer": Offer(
            allow={"tools": ["read_*", "wr?te"], "resources": ["a:/pub/*", "a:/{path}"]},
            deny={"tools": ["read_secret"], "resources": ["*/private/*"]},
            rename={"tools": {"read_file": "open"}},
            describe={
                "tools": {"read_file": "Opens a file.", "read_dir": "Lists."},
                "resources": {"a:/pub/x": "X."},
            },
        ),
    }
}


@each_cell
def test_only_what_is_offered_is_listed_and_reached(row: Revision, there: Revision) -> None:
    async def runs(up: Upstream, request: Message) -> Message:
        return text([name_of(up), request["params"]["name"]])

    def read(request: Message) -> Message:
        return {"contents": [{"uri": request["params"]["uri"], "text": "here"}]}

    offered = ("read_file", "read_dir", "read_secret", "write", "delete", "open")
    lists: Any = {
        "resources/list": resources("a:/pub/x", "a:/pub/private/x", "a:/other"),
        "resources/templates/list": {
            "resourceTemplates": [{"uriTemplate": f"a:/{{{name}}}", "name": "t"} for name in ("path", "id")]
        },
        "resources/read": read,
    }
    client = Downstream(row)
    servers = ends(there, *NAMES, works=dict.fromkeys(offered, runs), files=lists, bank=lists)

    async def main() -> None:
        async with bridged(joined(servers, there, OPTIONS), client):
            listed = (await client.ask("tools/list")).result["tools"]
            mine = {
                tool["name"]: tool.get("description") for tool in listed if tool["name"].startswith("fs__")
            }
            assert mine == {"fs__open": "Opens a file.", "fs__read_dir": "Lists.", "fs__write": None}
            assert [tool["name"] for tool in listed][3:] == [f"bank__{name}" for name in offered]
            assert said(await client.call("fs__open")) == ["files", "read_file"]
            for name in ("read_file", "read_secret", "delete"):
                assert (await client.ask("tools/call", {"name": f"fs__{name}"})).code == -32602
            found = (await client.ask("resources/list")).result["resources"]
            assert [each["uri"] for each in found][:2] == ["fs+a:/pub/x", "bank+a:/pub/x"]
            assert found[0]["description"] == "X."
            found = (await client.ask("resources/templates/list")).result["resourceTemplates"]
            assert [each["uriTemplate"] for each in found] == [
                "fs+a:/{path}",
                "bank+a:/{path}",
                "bank+a:/{id}",
            ]
            (content,) = (await client.ask("resources/read", {"uri": "fs+a:/pub/y"})).result["contents"]
            assert content["uri"] == "fs+a:/pub/y"
            for wrong in (
                "a:/other", "a:/pub/private/x", "a:/pub/../other", "a:/pub/%2e%2E/other", "a:/pub/..", "a:/pub/x%2F..%2Fy",
                "a:/pub/\\..\\x", "a:/pub/./x",
            ):  # fmt: skip
                answer = await client.ask("resources/read", {"uri": f"fs+{wrong}"})
                assert answer.code == row.resource_not_found, wrong
            assert asked(servers, "files", "resources/read") == [{"uri": "a:/pub/y"}]
            assert {params["name"] for params in asked(servers, "files", "tools/call")} == {"read_file"}

    run(main())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"allow": {"tool": []}}, "`allow` has no `tool`"),
        ({"rename": {"resources": {}}}, "`rename` has no `resources`"),
        ({"rename": {"tools": {"a": "c", "b": "c"}}}, "has the same new name twice"),
        ({"deny": {"tools": "a"}}, "is a string"),
    ],
)
def test_what_cannot_be_offered(options: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        Offer(**options)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a__b", "a_b"], "have the same prefix, 'a_b'"),
        (["___"], "cannot have the prefix ''"),
        (["a b", "a-b"], "have the same prefix, 'a-b'"),
        (["a_b", "a-b"], "have the same prefix, 'a-b'"),
        (["A", "a"], "have the same prefix, 'a'"),
    ],
)
def test_prefixes_that_cannot_be_told_apart_are_refused(names: list[str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Namings(Naming.of(name, None, Offer()) for name in names)


@pytest.mark.parametrize(
    ("name", "tool", "uri"),
    [("my files", "my-files__t", "my-files+u:"), ("7", "7__t", "s7+u:"), ("A_b", "A_b__t", "a-b+u:")],
)
def test_prefixes_are_valid_in_names_and_schemes(name: str, tool: str, uri: str) -> None:
    naming = Naming.of(name, None, Offer())
    assert (naming.name("t"), naming.uri("u:")) == (tool, uri)
    assert naming.own_uri(uri.upper().replace("U:", "u:")) == "u:"


def test_servers_of_one_name_are_one_option() -> None:
    assert BridgedServer(target="https://a.example/mcp").offer == Offer()


@pytest.mark.parametrize("there", [SESSION], ids=lambda row: row.name)
def test_no_change_is_told_of_what_is_not_offered(there: Revision) -> None:
    async def changes(up: Upstream, _request: Message) -> Message:
        for uri in ("a:/pub/private/x", "a:/pub/x"):
            up.tell("notifications/resources/updated", {"uri": uri})
        return text("told")

    client, servers = Downstream(SESSION), ends(there, "files", works={"write": changes})

    async def main() -> None:
        async with bridged(joined(servers, there, OPTIONS), client):
            await client.call("fs__write")
            told = [each["params"] for each in await client.settle() if each["method"].endswith("/updated")]
            assert told == [{"uri": "fs+a:/pub/x"}]

    run(main())


TEXTS: Final = st.text("abAB_+-.:/ ~1{", max_size=12)


@given(
    prefixes=st.lists(
        st.sampled_from(["a", "b", "a.b", "ab", "a-b", "b_a"]), min_size=1, max_size=4, unique=True
    ),
    listed=st.lists(st.tuples(st.integers(0, 3), TEXTS), max_size=8),
    mode=st.sampled_from(["always", "needed"]),
    key=TEXTS,
    at=st.integers(0, 3),
    kind=st.sampled_from(["tools", "resources"]),
)
def test_whatever_is_listed_a_name_leads_back_to_its_server(
    prefixes: list[str], listed: list[tuple[int, str]], mode: Any, key: str, at: int, kind: str
) -> None:
    try:
        namings = Namings(Naming.of(prefix, None, Offer()) for prefix in prefixes)
    except ValueError:
        return  # two have the same prefix, as a scheme
    names, servers = Names(lambda: namings, mode), list(namings.servers.values())
    lists: dict[str, list[str]] = {each.server: [] for each in servers}
    for number, name in listed:
        lists[servers[number % len(servers)].server].append(name)
    names.listed.replace(kind, lists, 0.0)
    naming = servers[at % len(servers)]
    for own in (key, *lists[naming.server]):
        shown = names.uri(naming, own) if kind == "resources" else names.name(naming, kind, own)
        found = names.find(kind, shown)
        assert found is not None
        assert found[0] is naming
        # What a form of a name stands for, only a list tells.
        assert found[1] == own or (own == key and own not in lists[naming.server] and not shown.endswith(own))


# -- seals and places ----------------------------------------------------------------------------------------


def test_what_is_sealed_holds_for_its_principal_and_its_purpose_alone() -> None:
    seals, others = Seals(RequestStateSealer([b"x" * 32])), Seals(RequestStateSealer([b"y" * 32]))
    task = seals.task("files", "t1", "alice")
    assert task == seals.task("files", "t1", "alice")
    assert seals.own_task(task, "alice") == ("files", "t1")
    cursor = seals.cursor("tools/list", {"files": "c"}, "alice")
    assert seals.cursors("tools/list", cursor, "alice") == {"files": "c"}
    for wrong, principal in (
        (task, "bob"),
        (task, None),
        (cursor, "alice"),
        ("t1", "alice"),
        (None, "alice"),
    ):
        with pytest.raises(InvalidParams):
            seals.own_task(wrong, principal)
    with pytest.raises(InvalidParams):
        others.own_task(task, "alice")
    for method, principal in (("tools/list", "bob"), ("prompts/list", "alice")):
        with pytest.raises(InvalidParams):
            seals.cursors(method, cursor, principal)


CHANGES: Final = Changes(
    uri=lambda uri: f"<{uri}>",
    task=lambda id_: f"t:{id_}",
    visit=lambda id_: f"v:{id_}",
    skill=lambda uri: f"<{uri}>",
)


@pytest.mark.parametrize("revision", ALL, ids=lambda row: row.name)
def test_every_uri_of_the_schema_is_a_place_and_a_root_is_none(revision: Revision) -> None:
    """What upstream's schema calls a URI and a server gives is replaced; icons, pages and roots are not."""
    places = places_of(revision)
    resource = {"uri": "a:b", "name": "a:b", "description": "a:b", "icons": [{"src": "https://a.example/i"}]}
    rewrite = places.result("resources/list")
    assert rewrite is not None
    found = rewrite({"resources": [resource], "_meta": {"uri": "a:b"}}, CHANGES)
    assert found == {"resources": [{**resource, "uri": "<a:b>"}], "_meta": {"uri": "a:b"}}
    assert places.result("roots/list") is None
    contents = {"contents": [{"uri": "a:b", "text": "a:b"}, {"uri": "a:c", "blob": ""}]}
    rewrite = places.result("resources/read")
    assert rewrite is not None
    assert [each["uri"] for each in rewrite(contents, CHANGES)["contents"]] == ["<a:b>", "<a:c>"]
    rewrite = places.result("tools/call")
    assert rewrite is not None
    odd = {
        "content": [{"type": "video", "uri": "a:b", "parts": [{"uri": "a:c"}]}, "text", 3],
        "structuredContent": {"uri": "a:b"},
    }
    assert rewrite(odd, CHANGES) == {
        "content": [{"type": "video", "uri": "<a:b>", "parts": [{"uri": "<a:c>"}]}, "text", 3],
        "structuredContent": {"uri": "a:b"},
    }
    for method, spec in revision.methods.items():
        if spec.paginated:
            entries = places.entries(method)
            assert entries is not None
            assert entries.kind in method
        odd_values: list[Any] = [
            {},
            [],
            None,
            "a:b",
            3,
            {"uri": 3, "content": 3, "contents": [3], "messages": {}},
        ]
        for value in odd_values:
            for rewrite in (places.params(method), places.result(method)):
                if rewrite is not None:
                    assert rewrite(value, CHANGES) == value


def test_calls_of_many_clients_at_once_stay_apart() -> None:
    clients = [Downstream(row) for row in (SESSION, MODERN) for _ in range(5)]
    servers = ends(SESSION, *NAMES)

    async def main() -> None:
        async with bridged(joined(servers, SESSION), *clients):
            calls = [(client, name, n) for n, client in enumerate(clients) for name in NAMES]
            found = await asyncio.gather(
                *(client.call(f"{name}__who", {"n": n}) for client, name, n in calls)
            )
            assert [said(each) for each in found] == [[name, "who", {"n": n}] for _, name, n in calls]

    run(main())
    assert last(servers, "bank").name == "bank"
