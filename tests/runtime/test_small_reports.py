"""Small things that clients and the command said or did otherwise than the documents, the shell or each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import mcprev
from api.wire import HandServer
from helpers.requirements import req
from helpers.running import run
from mcprev.analysis.judging import judge_result
from mcprev.bridge.several.servers import ConfigFile
from mcprev.client.host_config import filled, targets_of
from mcprev.error_text import connection_reason
from mcprev.hosts.named_server import named_server
from mcprev.revisions import DEFAULT, Revision

each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
URL = "http://127.0.0.1:9/mcp"
ENTRIES: dict[str, dict[str, Any]] = {
    "url": {"url": URL},
    "httpUrl": {"httpUrl": URL},
    "serverUrl": {"serverUrl": URL},
    "command": {"command": "server", "args": ["x"]},
    "older Zed": {"command": {"path": "server", "args": ["x"], "env": {"A": "b"}}},
}


@req("SEAM-9", "SEAM-10", everywhere=True)
@pytest.mark.parametrize("container", ["mcpServers", "servers", "context_servers"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_all_read_the_same_configurations(entry: str, container: str, tmp_path: Path) -> None:
    """`mcprev call NAME@FILE`, `connect_all` and `bridge --config`."""
    file = tmp_path / "hosts.json"
    file.write_text(json.dumps({container: {"one": ENTRIES[entry]}}))
    found = named_server([f"one@{file}"]).entry
    assert (found.url or found.words[0]) in (URL, "server")
    assert repr(targets_of(file)["one"]) == repr(named_server([f"one@{file}"]).target())
    assert list(ConfigFile(file).read()) == ["one"]


@req("SEAM-9", everywhere=True)
def test_a_default_is_used_as_in_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("SET", "value")
    monkeypatch.delenv("UNSET", raising=False)
    texts = (
        "${EMPTY:-def}",
        "${UNSET:-def}",
        "${SET:-def}",
        "${UNSET:-}",
        "${EMPTY:-}",
        "${EMPTY}",
        "${env:EMPTY:-def}",
    )
    assert [filled(text) for text in texts] == ["def", "def", "value", "", "", "", "def"]


@req("SEAM-9", everywhere=True)
@pytest.mark.parametrize(
    ("server", "prefix"),
    [("my server", "my-server"), ("a/b", "a-b"), ("a__b___c", "a_b_c"), ("plain", "plain")],
)
def test_one_rule_for_names(server: str, prefix: str, tmp_path: Path) -> None:
    app = mcprev.App("a", "1")

    @app.tool
    def echo() -> str:
        return "x"

    async def main() -> None:
        async with mcprev.connect_all({server: app}) as clients:
            assert [tool.name for tool in (await clients.list_tools()).tools] == [f"{prefix}__echo"]
            assert (await clients.call_tool(f"{prefix}__echo")).text == "x"
            assert clients[server] is clients[prefix]
        async with mcprev.connect(mcprev.Bridge({server: app})) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == [f"{prefix}__echo"]

    run(main())


@req("TOOL-9", "BASE-17", everywhere=True)
@each_row
def test_null_is_no_error_and_a_wrong_resource_is_told_once(row: Revision) -> None:
    resource = {"type": "resource", "resource": {"uri": "a:b", "text": 5}}
    stamp: dict[str, Any] = {} if row.handshake else {"resultType": "complete"}
    results: list[dict[str, Any]] = [
        {"content": [], "isError": None, **stamp},
        {"content": [resource], "isError": True, **stamp},
    ]

    async def main() -> None:
        hand: Any = HandServer(row, {"tools/call": results[0]})
        async with mcprev.connect(mcprev.memory(hand), mode=row.name) as client:
            assert (await client.call_tool("x")).is_error is False
            with pytest.raises(mcprev.LocalProtocolError, match=row.name):
                await client.call("no/such", {})

    run(main())
    assert [path for path, _ in judge_result("tools/call", row, results[1])] == [
        "$.result.content[0].resource.text"
    ]


@req("LIFE-1", everywhere=True)
def test_a_client_says_its_version() -> None:
    app = mcprev.App("a", "1")

    @app.tool
    async def who(ctx: mcprev.Context) -> str:
        assert ctx.client_info is not None
        return ctx.client_info.version

    async def main() -> None:
        async with mcprev.connect(app) as client:
            assert (await client.call_tool("who")).text == mcprev.__version__

    run(main())


@req("HTTP-31", everywhere=True)
def test_an_error_without_a_number_is_told_in_words() -> None:
    error = aiohttp.ClientOSError(None, "Can not write request body for http://x")
    assert "Errno" not in connection_reason(error)
    assert "Can not write request body" in connection_reason(error)
