"""The guides: each section of a page is a program, and runs as it stands there."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import os
import re
import sys
import tomllib
from collections.abc import Coroutine
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

import click
import pytest

import mcprev
from helpers.support import ROOT
from mcprev.cli import main
from mcprev.errors import MissingExtra
from mcprev.server.session_state import SessionState

GUIDES: Final = (
    "arguments.md",
    "auth.md",
    "bridge.md",
    "clients.md",
    "context.md",
    "deprecated.md",
    "dev.md",
    "looking.md",
    "middleware.md",
    "models.md",
    "packages.md",
    "porting.md",
    "resources.md",
    "scaling.md",
    "servers.md",
    "skills.md",
    "stores.md",
    "tools.md",
)
PYTHON: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections(page: str) -> dict[str, str]:
    """The programs of a page by heading; the code blocks of a section belong together, on the lines of the page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found: dict[str, str] = {}
    heads = [*re.finditer(r"^## (.+)$", text, re.MULTILINE)]
    for head, end in zip(heads, [*(each.start() for each in heads[1:]), len(text)], strict=True):
        program = ""
        for block in PYTHON.finditer(text, head.end(), end):
            program += "\n" * (text.count("\n", 0, block.start(1)) - program.count("\n")) + block[1]
        if program:
            found[head[1]] = program
    return found


PROGRAMS: Final = [
    pytest.param(page, program, id=f"{page}: {heading}")
    for page in GUIDES
    for heading, program in sections(page).items()
]


@pytest.mark.parametrize(("page", "program"), PROGRAMS)
def test_a_section_of_a_guide_runs(
    page: str, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", module)
    code = compile(program, str(ROOT / "docs" / page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    try:
        found: object = eval(code, module.__dict__)  # noqa: S307 - our own page
        if inspect.iscoroutine(found):
            asyncio.run(asyncio.wait_for(cast("Coroutine[Any, Any, None]", found), 20))
    except MissingExtra as error:
        pytest.skip(str(error))


def test_the_server_and_the_client_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, client = PYTHON.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    (tmp_path / "weather.py").write_text(server, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    printed: list[str] = []

    def say(*values: object) -> None:
        printed.append(" ".join(map(str, values)))

    found: object = eval(  # noqa: S307 - our own page
        compile(client, "README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), {"mcprev": mcprev, "print": say}
    )
    asyncio.run(asyncio.wait_for(cast("Coroutine[Any, Any, None]", found), 20))
    assert printed[0].endswith("['forecast']")
    assert "day 3 in Rome: sunny" in printed[1]


def test_the_program_of_the_questions_runs_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = PYTHON.findall((ROOT / "docs" / "questions.md").read_text(encoding="utf-8"))
    exec(compile(program, "docs/questions.md", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own page
    assert capsys.readouterr().out == "hat bought\n"


def _not_served(*_args: object, **_options: object) -> None:
    """In place of a method that serves until it is stopped."""


def test_the_parts_of_the_overview_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of the page goes on with the names of those before it; its client calls the first one as a command."""
    parts = PYTHON.findall((ROOT / "docs" / "overview.md").read_text(encoding="utf-8"))
    (tmp_path / "server.py").write_text(parts[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(mcprev.Bridge, "run_http", _not_served)
    page = ModuleType("overview")
    monkeypatch.setitem(sys.modules, "overview", page)  # where annotations are looked up

    async def main() -> None:
        for part in parts:
            found: object = eval(  # noqa: S307 - our own page
                compile(part, "overview.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), page.__dict__
            )
            if inspect.iscoroutine(found):
                await found
        assert page.result.text == "hi"
        async with mcprev.connect(page.worker, elicitation=lambda _: {"value": "Ann"}) as client:
            assert (await client.call_tool("greet")).text == "hi Ann"

    asyncio.run(asyncio.wait_for(main(), 20))
    assert len(parts) > 6


def test_the_program_of_the_first_page_runs() -> None:
    (program,) = PYTHON.findall((ROOT / "docs" / "index.md").read_text(encoding="utf-8"))
    module = ModuleType("first")
    sys.modules["first"] = module  # where annotations are looked up
    found: object = eval(  # noqa: S307 - our own page
        compile(program, "docs/index.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), module.__dict__
    )
    asyncio.run(asyncio.wait_for(cast("Coroutine[Any, Any, None]", found), 20))


def test_the_project_file_and_the_line_that_starts_the_server_are_read() -> None:
    page = (ROOT / "docs" / "porting.md").read_text(encoding="utf-8")
    (project,) = re.findall(r'^```toml title="pyproject.toml"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)
    assert tomllib.loads(project)["project"]["dependencies"][0] == "mcprev[http]"
    (words,) = re.findall(r"^uv run mcprev serve (.+)$", page, re.MULTILINE)
    command = main.get_command(click.Context(main), "serve")
    assert command is not None
    with command.make_context("serve", words.split()) as context:
        assert context.params["target"] == "weather.py:app"


def test_every_guide_has_programs() -> None:
    assert all(sections(page) for page in GUIDES)


NAMED: Final = {
    "mcprev": mcprev, "app": mcprev.App, "ctx": mcprev.Context, "client": mcprev.Client,
}  # fmt: skip
PORTED: Final = sorted(
    set(
        re.findall(
            r"\b((?:mcprev|app|ctx|client)(?:\.[A-Za-z_]+)+)",
            "\n".join(
                line.rpartition(" | ")[2]
                for line in (ROOT / "docs" / "porting.md").read_text(encoding="utf-8").splitlines()
                if line.startswith("| `")
            ),
        )
    )
)
"""The names of ours in the table for those who come from other libraries."""


@pytest.mark.parametrize("name", PORTED)
def test_every_name_of_the_table_for_other_libraries_exists(name: str) -> None:
    first, *parts = name.split(".")
    if first == "ctx" and parts[0] == "session" and parts[1:]:
        first, parts = "session", parts[1:]
    found: object = {**NAMED, "session": SessionState}[first]
    for part in parts:
        found = getattr(found, part, None) or importlib.import_module(
            f"{getattr(found, '__name__', 'mcprev')}.{part}"
        )
    assert found is not None
    assert len(PORTED) > 40
