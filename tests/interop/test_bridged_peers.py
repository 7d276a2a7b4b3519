"""Clients on one SDK and servers on another one, of different revisions, with `mcprev bridge` between them.

`make interop` puts each release into an environment of its own; without them these tests are skipped. Each client is run
once against each server of the other SDK and tries what both have; the server keeps a journal, which a tool hands out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from helpers.requirements import C, req
from interop.peers import DECORATING, FRAMEWORKS, INSPECTORS, MCP, OURS, PEERS, Peer
from interop.test_inspectors import Inspector
from interop.watching import Seen

BRIDGE: Final = str(Path(sys.executable).with_name("mcprev"))
CASES: Final = (
    "who",
    "echo",
    "many",
    "structured",
    "sample",
    "elicit",
    "roots",
    "resources",
    "prompts",
    "logs",
)
SECONDS: Final = 90
_STDIO: Final = [peer for peer in PEERS if peer.transport == "stdio" and peer.mode == "auto"]
PAIRS: Final = [
    pytest.param(
        client,
        server,
        id=f"{client.id.removesuffix('-stdio')} to {server.id.removesuffix('-stdio')}",
        marks=[client.missing(), server.missing()],
    )
    for client in _STDIO
    for server in _STDIO
    if client.revision != server.revision and client.name != server.name
]
HOSTS: Final = [
    pytest.param(
        client,
        server,
        id=f"{client.id.removesuffix('-stdio')} to {server.id.removesuffix('-stdio')}",
        marks=[client.missing(), server.missing()],
    )
    for client in (*FRAMEWORKS, *DECORATING)
    if client.transport == "stdio"
    for server in _STDIO
    if client.revision != server.revision and server.name == MCP
]
"""Clients of hosts and frameworks, each with servers of every other revision."""
HOST_CASES: Final = ("tools", "echo", "many", "structured", "resources", "prompts")
INSPECTED: Final = [
    pytest.param(
        client,
        server,
        id=f"{client.id.removesuffix('-stdio')} to {server.id.removesuffix('-stdio')}",
        marks=[client.missing(), server.missing()],
    )
    for client in INSPECTORS
    if client.transport == "stdio"
    for server in _STDIO
    if client.revision != server.revision and server.name == MCP
]


def seen(client: Peer, server: tuple[str, ...], among: tuple[str, ...] = CASES) -> Seen:
    """What a client saw of the server that a command starts, through a bridge."""
    command = (
        *client.script("client"),
        *client.modes,
        "stdio",
        BRIDGE,
        "bridge",
        "--",
        *server,
    )
    # Some servers ask forms of clients whose revision has none; where it is spoken on both sides, such a question passes
    # as it is, and ends clients that know no such request: also without a bridge.
    cases = [case for case in among if case != "elicit" or client.since(C)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env={**os.environ, "CASES": ",".join(cases)},
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return Seen(client, "\n".join(lines))


def texts(result: dict[str, Any]) -> list[str]:
    return [block["text"] for block in result["content"]]


@req("SEAM-10", "MRTR-11", "MRTR-12")
@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_sdks_of_different_revisions_serve_each_other(client: Peer, server: Peer) -> None:
    found = seen(client, (*server.script("server"), "stdio"))
    assert texts(found.of("echo").saw) == ["héllo\n"]
    assert found.of("echo").note("call")["arguments"] == {"text": "héllo\n"}
    assert found.of("many").saw == [str(number) for number in range(20)]
    assert texts(found.of("structured").saw)[0] == "3.5"
    assert found.of("resources").saw["text"]["contents"][0]["text"] == "one"
    assert found.of("prompts").saw["prompt"]["messages"][0]["content"]["text"] == "hello ann"
    logs = [entry[1:3] for entry in found.of("logs").heard if entry[0] == "log"]
    assert logs == [[level, {"at": level}] for level in ("info", "error")]

    sampled = found.of("sample")
    asked = next(entry[1] for entry in sampled.heard if entry[0] == "sampling")
    assert asked["systemPrompt"] == "be brief"
    content: Any = sampled.note("sampled")["result"]["content"]
    assert (content[0] if isinstance(content, list) else content)["text"] == "it"
    roots = found.of("roots").note("roots")["result"]["roots"]
    assert roots == [{"uri": "file:///srv/ann", "name": "home"}]

    if client.since(C):
        forms = [entry[1]["message"] for entry in found.of("elicit").heard if entry[0] == "elicitation"]
        assert forms[:1] == (["accept this"] if server.since(C) else [])


@req("SEAM-10", "MRTR-11", "MRTR-12")
@pytest.mark.parametrize(
    "client",
    [
        pytest.param(client, id=client.id, marks=client.missing())
        for client in DECORATING
        if client.transport == "stdio"
    ],
)
def test_clients_of_fastmcp_reach_our_server(client: Peer) -> None:
    found = seen(client, OURS)
    assert texts(found.of("echo").saw) == ["héllo\n"]
    assert found.of("echo").note("call")["arguments"] == {"text": "héllo\n"}
    assert found.of("many").saw == [str(number) for number in range(20)]
    assert found.of("structured").saw["structuredContent"] == {"sum": 3.5}
    logs = [entry[1:3] for entry in found.of("logs").heard if entry[0] == "log"]
    assert logs == [[level, {"at": level}] for level in ("info", "error")]
    assert found.of("sample").heard[0][1]["systemPrompt"] == "be brief"
    assert found.of("roots").note("roots")["result"]["roots"] == [{"uri": "file:///srv/ann", "name": "home"}]
    assert found.of("elicit").heard[0][1]["message"] == "accept this"


@req("SEAM-10", "MRTR-11", "MRTR-12")
@pytest.mark.parametrize(("client", "server"), HOSTS)
def test_clients_of_frameworks_reach_servers_of_other_revisions(client: Peer, server: Peer) -> None:
    asking = ("sample", "roots", "elicit") if client in DECORATING else ()
    found = seen(client, (*server.script("server"), "stdio"), (*HOST_CASES, *asking))
    assert found.of("echo").note("call")["arguments"] == {"text": "héllo\n"}
    assert "héllo" in json.dumps(found.of("echo").saw, ensure_ascii=False)
    prefix = "n" if client.name == "pydantic-ai" else ""
    assert found.of("many").saw == [f"{prefix}{number}" for number in range(20)]
    assert "3.5" in json.dumps(found.of("structured").saw)
    assert "one" in json.dumps(found.of("resources").saw) or "6f6e65" in json.dumps(found.of("resources").saw)
    assert "hello ann" in json.dumps(found.of("prompts").saw)
    if asking:
        assert found.of("sample").heard[0][1]["systemPrompt"] == "be brief"
        roots = found.of("roots").note("roots")["result"]["roots"]
        assert roots == [{"uri": "file:///srv/ann", "name": "home"}]
        forms = [entry[1]["message"] for entry in found.of("elicit").heard if entry[0] == "elicitation"]
        assert forms[:1] == (["accept this"] if server.since(C) else [])


@req("SEAM-10")
@pytest.mark.parametrize(("client", "server"), INSPECTED)
def test_the_inspector_reaches_servers_of_other_revisions(client: Peer, server: Peer, tmp_path: Path) -> None:
    command = [BRIDGE, "bridge", "--", *server.script("server"), "stdio"]
    inspector = Inspector(client, command, tmp_path)
    assert {"echo", "add"} <= {tool["name"] for tool in inspector.run("tools")["tools"]}
    assert inspector.run("call")["content"][0]["text"] == "hello"
    assert inspector.run("read")["contents"][0]["text"] == "one"
    assert "hello ann" in json.dumps(inspector.run("prompt"))
