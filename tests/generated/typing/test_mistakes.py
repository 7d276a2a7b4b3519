"""A type checker reports the mistakes that the packages are typed to prevent, in one run over a snippet."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from helpers.support import DATED, FOURTH, PYTHON_NAMES, ROOT, load
from mcprev_codegen.python.names import module_name

MISTAKES: Final = """\
from typing import assert_never
from mcprev_types import {oldest} as first, {fourth} as fourth, MethodSpec

class Wrong(fourth.ServerHandler[None]):
    async def call_tool(self, ctx: None, params: fourth.GetPromptRequestParams) -> fourth.CallToolResult:  # override
        return fourth.CallToolResult(content=[])

    async def ping(self, ctx: None, params: fourth.RequestParams | None) -> fourth.ListToolsResult:
        return fourth.GetPromptResult(messages=[])  # return-value

    async def list_tools(self, ctx: int, params: fourth.PaginatedRequestParams | None) -> fourth.ListToolsResult:  # override
        return fourth.ListToolsResult()  # call-arg

class NoSender:
    async def send(self, params: object) -> object:
        return params

class Right:
    async def send(self, method: MethodSpec, params: object | None, /) -> object:
        return params

fourth.ClientCalls(NoSender())  # arg-type

async def calls(client: fourth.ClientCalls) -> None:
    result = await client.call_tool(fourth.CallToolRequestParams(name="a"))
    result.content  # union-attr
    await client.call_tool()  # call-arg
    await client.tool_list_changed()  # attr-defined

fourth.TextContent(text=1)  # arg-type
fourth.TextContent(text="a", type="image")  # arg-type
fourth.ImageContent(data="", mimeType="x")  # call-arg
fourth.CallToolResult(content=[first.TextContent(text="a")])  # list-item
fourth.TextContent(text="a").txet  # attr-defined
fourth.NoSuchType  # attr-defined
first.{absent}  # attr-defined
"""


@pytest.mark.slow
def test_mypy_finds_every_mistake(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    newer = load(FOURTH).schema.types.keys() - load(DATED[0]).schema.types.keys()
    mistakes = (
        MISTAKES.replace("{oldest}", module_name(DATED[0]))
        .replace("{fourth}", module_name(FOURTH))
        .replace("{absent}", PYTHON_NAMES.class_name(min(newer)))
    )
    path.write_text(mistakes, encoding="utf-8")
    command = [
        sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"),
        "--python-version", "3.11", "--config-file", "/dev/null", str(path),
    ]  # fmt: skip
    environment = {"MYPYPATH": str(ROOT / "generated"), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    found = {
        int(line): code for line, code in re.findall(r"wrong\.py:(\d+): error: .*\[([a-z-]+)\]", done.stdout)
    }
    expected = {
        number: line.rpartition("# ")[2]
        for number, line in enumerate(MISTAKES.split("\n"), 1)
        if re.search(r"# [a-z-]+$", line)
    }
    assert found == expected, done.stdout + done.stderr
