"""`Image`, `Audio` and `File`, and tools that return several blocks, at every revision."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

import mcprev
from helpers.named import B, rows_since
from helpers.running import run
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m

PNG = b"\x89PNG\r\n\x1a\n"


def called(row: Revision, app: mcprev.App, name: str = "t") -> m.CallToolResult:
    async def main() -> m.CallToolResult:
        async with mcprev.connect(app, mode=row.name) as client:
            result = await client.call_tool(name, {})
        assert isinstance(result, m.CallToolResult)
        return result

    return run(main())


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_a_tool_returns_an_image_of_a_file(row: Revision, tmp_path: Path) -> None:
    (tmp_path / "chart.png").write_bytes(PNG)
    app = mcprev.App("a", "1")

    @app.tool
    def t() -> mcprev.Image:
        return mcprev.Image(tmp_path / "chart.png")

    (block,) = called(row, app).content
    assert block == m.ImageContent(data=base64.b64encode(PNG).decode(), mime_type="image/png")


@pytest.mark.parametrize("row", rows_since(B), ids=lambda row: row.name)
def test_a_tool_returns_sound(row: Revision) -> None:
    app = mcprev.App("a", "1")

    @app.tool
    def t() -> mcprev.Audio:
        return mcprev.Audio(b"sound", "audio/wav")

    (block,) = called(row, app).content
    assert block == m.AudioContent(data=base64.b64encode(b"sound").decode(), mime_type="audio/wav")


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_a_tool_returns_a_mixture(row: Revision) -> None:
    app = mcprev.App("a", "1")

    @app.tool
    def t() -> list[str | mcprev.Image | dict[str, int]]:
        return ["Look:", mcprev.Image(PNG, "image/png"), {"width": 1}]

    found = called(row, app)
    assert [block.type for block in found.content] == ["text", "image", "text"]
    assert found.content[2] == m.TextContent(text='{"width":1}')
    assert not found.to_wire().get("structuredContent")


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_bytes_are_no_quoted_text(row: Revision) -> None:
    app = mcprev.App("a", "1")

    @app.tool
    def t() -> bytes:
        return b"\x00\xff"

    (block,) = called(row, app).content
    assert isinstance(block, m.EmbeddedResource)
    assert isinstance(block.resource, m.BlobResourceContents)
    assert base64.b64decode(block.resource.blob) == b"\x00\xff"


def test_a_file_is_text_where_it_is_text(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_text("Grüße", encoding="utf-8")
    (tmp_path / "latin.txt").write_bytes(b"\xfc")
    text = mcprev.File(tmp_path / "a b.txt").resource
    assert text == m.TextResourceContents(uri="file:///a%20b.txt", mime_type="text/plain", text="Grüße")
    latin = mcprev.File(str(tmp_path / "latin.txt")).resource
    assert latin == m.BlobResourceContents(uri="file:///latin.txt", mime_type="text/plain", blob="/A==")
    pdf = mcprev.File(b"%PDF", "application/pdf", name="report.pdf").resource
    assert pdf == m.BlobResourceContents(
        uri="file:///report.pdf", mime_type="application/pdf", blob="JVBERg=="
    )
    assert mcprev.File(b"%PDF", "application/pdf").resource.uri == "file:///file.pdf"


def test_a_compressed_file_is_not_of_the_type_of_its_content(tmp_path: Path) -> None:
    for name, kind in (("a.csv.gz", "application/gzip"), ("a.tar.bz2", "application/x-bzip2")):
        (tmp_path / name).write_bytes(b"packed")
        contents = mcprev.File(tmp_path / name).resource.to_wire()
        assert (contents["mimeType"], contents["blob"]) == (kind, "cGFja2Vk")
    (tmp_path / "a.svgz").write_bytes(b"packed")
    with pytest.raises(ValueError, match="'application/gzip' is not of type image"):
        mcprev.Image(tmp_path / "a.svgz")


def test_a_source_that_is_not_what_it_is_said_to_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    (tmp_path / "thing").write_text("x", encoding="utf-8")
    with pytest.raises(ValueError, match=r"'notes\.txt': 'text/plain' is not of type image"):
        mcprev.Image(tmp_path / "notes.txt")
    with pytest.raises(ValueError, match="the MIME type of these bytes is not known; pass mime_type"):
        mcprev.Image(PNG)
    with pytest.raises(ValueError, match="the MIME type of 'thing' is not known"):
        mcprev.File(tmp_path / "thing")
    with pytest.raises(FileNotFoundError):
        mcprev.Audio(tmp_path / "none.mp3")


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_a_prompt_takes_an_image(row: Revision) -> None:
    app = mcprev.App("a", "1")

    @app.prompt
    def describe() -> list[Any]:
        return ["What is this?", mcprev.Image(PNG, "image/png")]

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            result = await client.get_prompt("describe")
        assert isinstance(result, m.GetPromptResult)
        assert [message.content.type for message in result.messages] == ["text", "image"]

    run(main())


def test_content_in_a_list_that_is_data_is_named() -> None:
    app = mcprev.App("a", "1", show_errors=True)

    def t() -> Any:
        return ["x", mcprev.Image(PNG, "image/png")]

    t.__annotations__["return"] = list
    app.tool(t)
    found = called(DEFAULT[-1], app)
    assert found.is_error
    assert "annotate content, as in `list[str | mcprev.Image]`" in found.content[0].to_wire()["text"]
