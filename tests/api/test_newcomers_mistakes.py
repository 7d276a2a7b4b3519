"""What a newcomer gets wrong is refused with the words that put it right."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import pytest
from click.testing import CliRunner

import mcprev
from mcprev.cli import main as command
from running import run

loose: Any = mcprev
"""Where types would find the mistake."""


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


HTTP: Final = r"pass it as http=\{'hosts': ...\}"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: loose.App("shop", "1.0", hosts=["a"]), rf"mcprev.App has no option 'hosts' .* {HTTP}"),
        (lambda: loose.App("shop", "1.0", sessions=False), r"pass it as http=\{'sessions': ...\}"),
        (lambda: loose.App("shop", "1.0", instrctions="x"), "did you mean 'instructions'"),
        (lambda: loose.App("shop", "1.0", zzz=1), "the options are visible, executor, lenient_arguments, revisions"),
        (lambda: loose.Server(None, "shop", "1.0", hosts=["a"]), rf"mcprev.Server has no option 'hosts' .* {HTTP}"),
        (lambda: loose.Server(None, "shop", "1.0", zzz=1), "the options are revisions, instructions, title"),
        (lambda: loose.connect("http://a.example", auth=1), r"pass it as mcprev.http\(url, auth=...\)"),
        (lambda: loose.connect("http://a.example", elicit=1), "did you mean 'elicitation'"),
    ],
)  # fmt: skip
def test_an_unknown_option_is_told_with_the_place_of_one_that_exists(
    make: Callable[[], object], says: str
) -> None:
    with pytest.raises(TypeError, match=says):
        make()


def test_a_program_that_serves_nothing_is_told_how_it_is_served() -> None:
    async def main() -> None:
        made = "import mcprev; app = mcprev.App('a', '1')"
        with pytest.raises(
            mcprev.McpError, match=r"exited with 0 before it responded; .* `mcprev serve FILE`"
        ):
            await mcprev.connect(mcprev.stdio(sys.executable, "-c", made))

    run(main())


def test_a_server_that_is_not_there_is_told_once() -> None:
    """Without a word of the library below about TLS, which a URL with http does not have."""

    async def main() -> None:
        with pytest.raises(mcprev.ConnectionLost) as caught:
            await mcprev.connect("http://127.0.0.1:1/mcp")
        assert str(caught.value).lower().count("cannot connect") == 1
        assert "ssl" not in str(caught.value)

    run(main())


@pytest.mark.parametrize("target", ["missing.py", "missing.py:app"])
def test_inspect_names_a_file_that_is_missing(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(command, ["inspect", target])
    assert result.exit_code == 2
    assert "there is no file 'missing.py'" in result.output
