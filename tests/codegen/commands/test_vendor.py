"""Every snippet of docs/vendor.md is run: an extension is generated, served and called."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

import mcprev
from helpers.support import FOURTH, SCHEMA, THIRD
from helpers.vendor_schema import snippets, vendor_schema
from mcprev.cli import main
from mcprev.middleware import Caching, Logging, SizeLimit


def extended() -> str:
    """The vendor's file; the page's first command prints what it adds to."""
    words = shlex.split(snippets("sh")[0])
    assert words[-2:] == [">", "acme.ts"]
    text = CliRunner().invoke(main, words[1:-2], catch_exceptions=False).stdout
    assert text == (SCHEMA / FOURTH / "schema.ts").read_text(encoding="utf-8")
    return vendor_schema()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which the page's commands were run; its package is importable."""
    tmp_path = tmp_path_factory.mktemp("vendor")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        _generate(tmp_path)
        patch.setattr(sys, "path", [str(tmp_path / "acme-types"), *sys.path])
        yield tmp_path


def _generate(tmp_path: Path) -> None:
    (tmp_path / "acme.ts").write_text(extended(), encoding="utf-8")
    _, commands = snippets("sh")
    generate, install = commands.splitlines()
    result = CliRunner().invoke(main, shlex.split(generate)[1:])
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"install it with: {install}\n" in result.stdout


@pytest.mark.slow
def test_the_page_does_what_it_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, serve, call = snippets("python")
    names: dict[str, Any] = {}
    exec(serve, names)  # noqa: S102 - the page's own code
    exec(call, names)  # noqa: S102
    capsys.readouterr()
    asyncio.run(names["use"](names["server"]))
    assert capsys.readouterr().out.splitlines() == [
        "a storm in Oslo",
        "[10, 11] [(0, 10.5)]",
        "3",
        "AcmeChart [(1, 2)]",
    ]


@pytest.mark.slow
def test_the_page_shows_what_the_extension_changes(folder: Path) -> None:
    result = CliRunner().invoke(main, ["diff", FOURTH, str(folder / "acme.ts"), "--level", "wire"])
    assert result.exit_code == 0
    assert "acme/forecast" in result.output


def test_the_limit_on_the_page_holds(folder: Path) -> None:
    params: Any = import_module("acme_types.latest").AcmeForecastRequestParams
    assert params.from_wire({"city": "Oslo", "days": 1}).days == 1
    with pytest.raises(ValidationError, match="days"):
        params.from_wire({"city": "Oslo", "days": 0})


def test_middleware_knows_the_models_of_the_package(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    acme: Any = import_module("acme_types.latest")
    names: dict[str, Any] = {}
    exec(snippets("python")[1], names)  # noqa: S102
    runs: list[str] = []

    async def call_tool(_self: object, _ctx: mcprev.Context, params: Any) -> Any:
        runs.append(params.name)
        return acme.CallToolResult(content=[acme.TextContent(text="x" * 600)], is_error=False)

    shop: Any = type("Shop", (names["Acme"],), {"call_tool": call_tool})
    around: list[Any] = [
        Logging("acme", payloads=True),
        Caching(60, tools=["plot"]),
        SizeLimit(500, truncate=True),
    ]
    server = mcprev.Server(None, "acme", "1.0", exact={FOURTH: shop()}, middleware=around)

    async def call() -> list[Any]:
        async with mcprev.connect(server) as client:
            call = client.exact(acme).call_tool
            return [await call(acme.CallToolRequestParams(name="plot", arguments={"a": 1})) for _ in range(2)]

    with caplog.at_level("INFO", "acme"):
        first, again = asyncio.run(call())
    assert first == again
    assert runs == ["plot"]  # the second result is the kept one
    assert (first.is_error, first.content[0].text[:3]) == (False, "xxx")
    assert "[shortened: the result had" in first.content[0].text
    logged: list[Any] = [vars(one)["mcp"] for one in caplog.records]
    record = next(one for one in logged if one["method"] == "tools/call")
    params, result = json.loads(record["params"]), json.loads(record["result"])
    assert (params["name"], params["arguments"]) == ("plot", {"a": 1})
    assert result == {"content": [{"type": "text", "text": first.content[0].text}], "isError": False}


def test_enums_are_closed_and_unions_by_type_open_as_the_page_says(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(snippets("python")[0], {})  # noqa: S102
    assert capsys.readouterr().out == "this program does not know acme/map\n"
    params: Any = import_module("acme_types.latest").AcmeForecastRequestParams
    with pytest.raises(ValidationError, match="unit"):
        params.from_wire({"city": "Oslo", "unit": "rankine"})


def test_the_package_names_no_other(folder: Path) -> None:
    files = [path for path in (folder / "acme-types").rglob("*.py") if path.is_file()]
    assert files
    assert [path for path in files if "mcprev_types" in path.read_text(encoding="utf-8")] == []


def test_a_package_of_another_revision_is_refused(folder: Path) -> None:
    _, serve, _ = snippets("python")
    names: dict[str, Any] = {}
    exec(serve, names)  # noqa: S102
    with pytest.raises(ValueError, match=f"is of {FOURTH} and not of"):
        mcprev.Server(None, "acme", "1.0", exact={THIRD: names["Acme"]()})


def test_messages_of_the_extension_are_judged(folder: Path) -> None:
    acme = import_module("acme_types")
    message: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "acme/forecast",
        "params": {"city": "Oslo", "days": 0},
    }
    assert [one.path for one in mcprev.judge(message, FOURTH)] == ["$.method"]
    assert [one.path for one in mcprev.judge(message, acme)] == ["$.params.days"]
    result: dict[str, Any] = {
        "content": [
            {"type": "acme/chart", "points": [[1, None]]},
            {"type": "text", "text": "", "annotations": None},
        ]
    }
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "result": result}
    assert {one.path for one in mcprev.judge(answer, acme, method="tools/call")} == {
        "$.result.content[0].points[0][1]"
    }
    result["content"][0]["points"] = []
    assert [one.path for one in mcprev.judge(answer, acme, method="tools/call")] == [
        "$.result.content[1].annotations"
    ]
    (folder / "session.jsonl").write_text(json.dumps(message), encoding="utf-8")
    told = CliRunner().invoke(main, ["validate", str(folder / "session.jsonl"), "--schema", "acme_types"])
    assert told.exit_code == 1
    assert f"1 violation in 1 message against {FOURTH}" in told.stdout
