"""What a newcomer gets wrong is refused with the words that put it right."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

import mcprev
from mcprev.cli import main as command
from running import run


def test_the_name_of_an_extension_is_no_extension() -> None:
    async def connect() -> None:
        async with mcprev.connect(mcprev.App("shop", "1.0"), extensions=cast("Any", ["com.acme/units"])):
            pass

    app = mcprev.App("shop", "1.0", extensions=cast("Any", ["com.acme/units"]))
    for wrong in (lambda: app.server, lambda: run(connect())):
        with pytest.raises(TypeError, match=r"extensions=\[mcprev.Extension\('com.acme/units'\)\]"):
            wrong()


def test_a_callback_for_sampling_returns_a_result() -> None:
    app = mcprev.App("writer", "1.0")

    @app.tool
    async def write(ctx: mcprev.Context) -> str:
        return (await ctx.sample("Write.")).text

    async def call() -> None:
        async with mcprev.connect(app, sampling=cast("Any", str)) as client:
            await client.call_tool("write")

    with pytest.raises(TypeError, match="a handler returned str: return the result as a model, such as"):
        run(call())


@pytest.mark.parametrize("target", ["missing.py", "missing.py:app"])
def test_inspect_names_a_file_that_is_missing(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(command, ["inspect", target])
    assert result.exit_code == 2
    assert "there is no file 'missing.py'" in result.output
