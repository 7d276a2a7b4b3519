"""Our client and the reference servers, which others learn from and test with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import mcprev
from helpers.requirements import A, E, req
from helpers.running import run
from interop.holding import Answering, text_of
from interop.peers import REFERENCE, Peer, chosen
from mcprev_types.latest import models as m

Use = Callable[["Reference"], Awaitable[None]]


class Reference:
    """A client of ours, connected to a reference server."""

    def __init__(self, client: mcprev.Client, handler: Answering, folder: Path) -> None:
        self.client = client
        self.handler = handler
        self.folder = folder

    async def call(self, name: str, **arguments: Any) -> m.CallToolResult:
        return await self.client.call_tool(name, arguments)


def case(*ids: str, name: str, release: str = "") -> Callable[[Use], Callable[..., None]]:
    """A case with each release of a server, or with one."""

    def mark(use: Use) -> Callable[..., None]:
        among = [peer for peer in REFERENCE if peer.name == name and peer.release.startswith(release)]

        def test(peer: Peer, tmp_path: Path) -> None:
            run(_with(peer, tmp_path, use))

        parametrized = pytest.mark.parametrize("peer", chosen(A, E, among=among))(test)
        marked: Callable[..., None] = req(*ids)(parametrized)
        return marked

    return mark


async def _with(peer: Peer, folder: Path, use: Use) -> None:
    options = {"everything": ("stdio",), "filesystem": (str(folder),)}.get(peer.name, ())
    command = peer.program(f"server-{peer.name}/dist/index.js", *options)
    handler = Answering()
    env = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    target = mcprev.stdio(*command, env=env, stderr=lambda _: None)
    async with mcprev.connect(target, handler=handler, name="interop", timeout=20) as client:
        assert client.revision == peer.revision
        await use(Reference(client, handler, folder))


# -- everything ----------------------------------------------------------------------------------------------------


@case("TOOL-1", "BASE-5", name="everything")
async def test_everything_echoes(server: Reference) -> None:
    names = [tool.name async for tool in server.client.tools()]
    assert "echo" in names
    assert text_of(await server.call("echo", message="héllo")).endswith("héllo")


@case("TOOL-4", "TOOL-6", name="everything", release="2026")
async def test_everything_gives_structured_content(server: Reference) -> None:
    result = await server.call("get-structured-content", location="New York")
    assert set(result.to_wire()["structuredContent"]) == {"temperature", "conditions", "humidity"}


@case("CONV-1", name="everything")
async def test_everything_sends_an_image(server: Reference) -> None:
    [name] = [tool.name async for tool in server.client.tools() if "image" in tool.name.lower()]
    content = (await server.call(name)).content
    assert [block.mime_type for block in content if isinstance(block, m.ImageContent)] == ["image/png"]


@case("PROG-1", "PROG-3", name="everything")
async def test_everything_reports_progress(server: Reference) -> None:
    told: list[tuple[float, float | None]] = []
    [name] = [tool.name async for tool in server.client.tools() if "long" in tool.name.lower()]
    arguments = {"duration": 0.2, "steps": 2}

    def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))

    await server.client.call_tool(name, arguments, progress=tell)
    assert told[:1] == [(1, 2)]


@case("RES-1", "RES-4", "PAGE-3", name="everything")
async def test_everything_has_resources(server: Reference) -> None:
    resources = [resource async for resource in server.client.resources()]
    [part, *_] = (await server.client.read_resource(resources[0].uri)).contents
    assert part.uri == resources[0].uri
    assert isinstance(part, m.TextResourceContents)
    templates = [template.uri_template async for template in server.client.resource_templates()]
    assert all("{" in template for template in templates)


@case("PROM-1", "COMP-1", name="everything", release="2026")
async def test_everything_has_prompts_and_completes(server: Reference) -> None:
    prompt = await server.client.get_prompt("args-prompt", {"city": "Oslo"})
    assert "Oslo" in prompt.messages[0].content.to_wire()["text"]
    ref = m.PromptReference(name="completable-prompt")
    found = (await server.client.complete(ref, "department", "E")).completion
    assert found.values == ["Engineering"]


@case("SAMP-1", name="everything", release="2026")
async def test_everything_samples(server: Reference) -> None:
    assert "it" in text_of(await server.call("trigger-sampling-request", prompt="say it", maxTokens=9))
    assert [what for what, *_ in server.handler.heard] == ["sampling"]


@case("ELIC-1", name="everything", release="2026")
async def test_everything_asks_for_a_form(server: Reference) -> None:
    await server.call("trigger-elicitation-request")
    assert [what for what, *_ in server.handler.heard] == ["elicitation"]


@case("ERR-1", "TOOL-8", name="everything")
async def test_everything_refuses_wrong_arguments(server: Reference) -> None:
    try:
        result = await server.call("echo", message=7)
    except mcprev.RpcError as error:
        assert "message" in str(error)  # noqa: PT017 - it may be refused in either way
    else:
        assert result.is_error


# -- memory and filesystem -----------------------------------------------------------------------------------------


@case("BASE-5", "TOOL-4", name="memory")
async def test_memory_keeps_a_graph(server: Reference) -> None:
    ann = {"name": "ann", "entityType": "person", "observations": ["she knits"]}
    await server.call("create_entities", entities=[ann])
    found = (await server.call("search_nodes", query="knits")).to_wire()["structuredContent"]
    assert found["entities"] == [ann]


@case("BASE-5", "TOOL-8", name="filesystem")
async def test_filesystem_writes_and_reads(server: Reference) -> None:
    path = str(server.folder / "a.txt")
    await server.call("write_file", path=path, content="héllo")
    assert text_of(await server.call("read_text_file", path=path)) == "héllo"
    assert (server.folder / "a.txt").read_text(encoding="utf-8") == "héllo"
    outside = await server.call("read_text_file", path="/etc/hostname")
    assert outside.is_error


@case("ROOT-1", name="filesystem")
async def test_filesystem_asks_for_roots(server: Reference) -> None:
    await server.handler.until(lambda: ("roots",) in server.handler.heard)
