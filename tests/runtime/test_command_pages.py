"""`--pages`: a client of the command that declares that it shows pages, and what is said to one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from helpers.shell import serve_here
from mcprev.cli import main
from mcprev.revisions import DEFAULT, Revision

SERVER: Final = """
from pathlib import Path

import mcprev

app = mcprev.App("clock", "1.0")
clock = app.ui("ui://clock", Path("clock.html"))

@app.tool(ui=clock)
def now() -> str:
    return "noon"

@app.tool(ui=clock.app_only)
def tick() -> str:
    return "43200 s"
"""
HTML: Final = "<!doctype html>\n\t<p>a\u00a0clock</p>\n"
NAMING: Final = [row for row in DEFAULT if "meta" in row.models.Tool.model_fields]
"""The revisions whose tools name pages."""
OLDER: Final = [row for row in DEFAULT if row not in NAMING]
HINT: Final = (
    "the server has pages (MCP Apps), and may hide them and some of its tools: pass --pages to see all"
)
at_ends: Final = pytest.mark.parametrize("row", [NAMING[0], NAMING[-1]], ids=lambda row: row.name)


@pytest.fixture(autouse=True)
def _clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("clock.html").write_text(HTML, encoding="utf-8")
    serve_here("clock.py", SERVER, monkeypatch)


def command(name: str, row: Revision, *words: str) -> Result:
    return CliRunner().invoke(main, [name, "clock.py", *words, "--as", row.name], catch_exceptions=False)


@at_ends
def test_inspect_says_that_tools_may_be_hidden(row: Revision) -> None:
    done = command("inspect", row)
    assert done.exit_code == 0
    assert f"Note: {HINT}\n" in done.stderr
    assert "now\t" in done.stdout
    assert "tick" not in done.stdout


@at_ends
def test_inspect_lists_the_pages_and_their_tools(row: Revision) -> None:
    done = command("inspect", row, "--pages")
    assert "PAGE\tTOOLS\nui://clock\tnow, tick (only for the page)\n" in done.stdout
    assert "Note:" not in done.stderr


@pytest.mark.parametrize("row", OLDER[-1:], ids=lambda row: row.name)
def test_no_option_is_named_at_revisions_whose_tools_name_no_page(row: Revision) -> None:
    assert "--pages" not in command("inspect", row).output


def test_no_option_is_named_for_a_server_without_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = "@app.tool\ndef now() -> str:\n    return 'noon'\n"
    serve_here("clock.py", f"import mcprev\napp = mcprev.App('clock', '1')\n{tool}", monkeypatch)
    for row in (NAMING[0], NAMING[-1]):
        assert "--pages" not in command("inspect", row).output
        done = command("call", row, "tick")
        assert done.exit_code == 2
        assert "the server has no tool 'tick'" in done.stderr
        assert "--pages" not in done.stderr
        assert "(none)" in command("inspect", row, "--pages").stdout.partition("PAGE")[2]


@at_ends
def test_a_tool_that_only_a_page_calls_can_be_called(row: Revision) -> None:
    done = command("call", row, "tick")
    assert done.exit_code == 2
    assert "the server has no tool 'tick'" in done.stderr
    assert f"\n  {HINT}\n" in done.stderr
    assert command("call", row, "tick", "--pages").stdout == "43200 s\n"


@at_ends
def test_a_page_is_read_into_a_file_as_it_is(row: Revision) -> None:
    done = command("read", row, "ui://clock")
    assert done.exit_code == 1
    assert f"\n  {HINT}\n" in done.stderr
    done = command("read", row, "ui://clock", "--pages", "--out", "pages")
    assert done.stdout == "[page text/html;profile=mcp-app, 33 bytes: pages/1.html]\n"
    assert Path("pages/1.html").read_text(encoding="utf-8") == HTML
    shown = command("read", row, "ui://clock", "--pages").stdout
    assert shown == "<!doctype html>\n    <p>a\\xa0clock</p>\n", "a terminal gets no other characters"
    other = command("read", row, "ui://other", "--pages")
    assert other.exit_code == 1
    assert HINT not in other.stderr
