"""What a newcomer gets wrong is refused with the words that put it right."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any, Final, cast

import pytest
from click.testing import CliRunner

import mcprev
import mcprev_types
from helpers.named import E
from helpers.running import run
from mcprev.app.options import AppOptions
from mcprev.cli import main as command
from mcprev.client import connect as connecting
from mcprev.client.connect_options import ConnectionOptions
from mcprev.server import server, service
from mcprev.server.server import HandlerOptions, ServerOptions
from mcprev_types import latest

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


WRONG: Final[list[tuple[str, Any, str]]] = [
    ("revisions", E, "not be a str; pass the names of revisions in a list"),
    ("revisions", [2025], "not hold an int; pass"),
    ("instructions", 1, "not be an int; pass a text"),
    ("title", 1, "not be an int; pass a text"),
    ("description", ["x"], "not be a list; pass a text"),
    ("website_url", 1, "not be an int; pass a URL"),
    ("icons", "x.png", "not be a str; pass icons in a list, such as [mcprev_types.latest.Icon("),
    ("icons", ["x.png"], "not hold a str; pass icons in a list"),
    ("icons", None, "not be None; pass icons in a list"),
    ("exact", ["x"], "not be a list; pass handlers by revision in a dict"),
    ("capabilities", {}, "not be a dict; pass mcprev_types.latest.ServerCapabilities("),
    ("extensions", True, "not be a bool; pass extensions in a list"),
    ("extensions", [1], "not hold an int; pass extensions in a list"),
    ("requires", {"tools/call": {}}, "not hold a dict; pass client capabilities by method"),
    ("requires", ["tools/call"], "not be a list; pass client capabilities by method"),
    ("states", "key", "not be a str; pass mcprev.RequestStateSealer("),
    (
        "states",
        mcprev.RequestStateSealer,
        "not be the class RequestStateSealer; pass mcprev.RequestStateSealer(",
    ),
    ("state", {"ttl": 1}, "not be a dict; pass mcprev.StateLimits("),
    ("tasks", True, "not be a bool; pass mcprev.Tasks({'build': 'optional'})"),
    ("tasks", {"build": "optional"}, "not be a dict; pass mcprev.Tasks("),
    ("lifespan", 1, "not be an int; pass an async generator function"),
    ("lifespan", [1], "not hold an int; pass an async generator function"),
    ("middleware", "x", "not be a str; pass middleware in a list"),
    ("middleware", [1], "not hold an int; pass middleware in a list"),
    ("http", 8000, "not be an int; pass the options of HTTP in a dict"),
    ("on_downgrade", "drop", "not be a str; pass a function"),
    ("show_errors", "yes", "not be a str; pass True or False"),
    ("ping_interval", True, "not be a bool; pass a number of seconds"),
    ("max_line", "1 MiB", "not be a str; pass a number of bytes"),
    ("max_handlers", 2.5, "not be a float; pass a number of requests"),
]
OF_APPS: Final[list[tuple[str, Any, str]]] = [
    ("visible", "x", "not be a str; pass a function of the context and the tags"),
    ("executor", 8, "not be an int; pass an executor, such as concurrent.futures.ThreadPoolExecutor(64)"),
    ("strict_arguments", 1, "not be an int; pass True or False"),
]


@pytest.mark.parametrize(
    ("kind", "name", "value", "says"),
    [
        *(("App", *wrong) for wrong in (*WRONG, *OF_APPS)),
        *(("Server", *wrong) for wrong in WRONG),
    ],
)
def test_an_option_of_another_kind_says_what_to_pass(kind: str, name: str, value: Any, says: str) -> None:
    first = () if kind == "App" else (mcprev.ServerHandler(),)
    with pytest.raises(TypeError) as caught:
        getattr(mcprev, kind)(*first, "shop", "1.0", **{name: value})
    assert str(caught.value).startswith(f"`{name}` must {says}")


@pytest.mark.parametrize("kind", ["App", "Server"])
@pytest.mark.parametrize(
    ("named", "says"),
    [
        (("shop", 1.0), "`version` must not be a float; pass a text, such as '1.0'"),
        (("shop", None), "`version` must not be None; pass a text, such as '1.0'"),
        ((5, "1.0"), "`name` must not be an int; pass a text"),
    ],
)
def test_a_name_or_version_that_is_no_text_says_what_to_pass(
    kind: str, named: tuple[Any, Any], says: str
) -> None:
    first, make = () if kind == "App" else (None,), getattr(mcprev, kind)
    words = dict(zip(("name", "version"), named, strict=True))
    for given, options in ((named, {}), ((), words)):
        with pytest.raises(TypeError) as caught:
            make(*first, *given, **options)
        assert str(caught.value) == says


@pytest.mark.parametrize("kind", ["App", "Server"])
@pytest.mark.parametrize("name", ["max_line", "max_handlers"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_with_which_nobody_is_served_is_refused(kind: str, name: str, value: int) -> None:
    first = () if kind == "App" else (mcprev.ServerHandler(),)
    with pytest.raises(ValueError, match=f"`{name}` is {value}; use a number above 0"):
        getattr(mcprev, kind)(*first, "shop", "1.0", **{name: value})


def test_each_option_of_a_server_is_tried() -> None:
    """`auth` and `store` have tests of their own."""
    assert {name for name, _, _ in WRONG} == ServerOptions.__annotations__.keys() - {"auth", "store"}


OF_CONNECTIONS: Final[list[tuple[str, Any, str]]] = [
    ("name", 1, "not be an int; pass a text"),
    ("version", 1.0, "not be a float; pass a text, such as '1.0'"),
    ("title", None, ""),
    ("title", 1, "not be an int; pass a text"),
    ("description", ["x"], "not be a list; pass a text"),
    ("website_url", 1, "not be an int; pass a URL"),
    ("icons", ["x.png"], "not hold a str; pass icons in a list"),
    ("revisions", E, "not be a str; pass the names of revisions in a list"),
    ("mode", 1, "not be an int; pass 'auto', 'legacy' or the name of a revision"),
    ("capabilities", {}, "not be a dict; pass mcprev_types.latest.ClientCapabilities("),
    ("extensions", [1], "not hold an int; pass extensions in a list"),
    ("exact", ["x"], "not be a list; pass handlers by revision in a dict"),
    ("prior", {}, "not be a dict; pass the earlier result of `server/discover`"),
    ("timeout", "5", "not be a str; pass a number of seconds"),
    ("timeout", None, ""),
    ("total_timeout", True, "not be a bool; pass a number of seconds"),
    ("probe_timeout", None, "not be None; pass a number of seconds"),
    ("open_timeout", "5", "not be a str; pass a number of seconds"),
    ("restart", 3, "not be an int; pass True, False or a mcprev.ReconnectPolicy("),
    ("cache", {}, "not be a dict; pass True, False or a mcprev.ResultCache("),
    ("strict", "yes", "not be a str; pass True or False"),
    ("ping_interval", "5", "not be a str; pass a number of seconds"),
    ("tasks", 1, "not be an int; pass True or False"),
    ("record", 1, "not be an int; pass the path of a file"),
    ("telemetry", mcprev.Telemetry, "not be the class Telemetry; pass mcprev.Telemetry("),
    ("sampling", 1, "not be an int; pass a function of the"),
    ("elicitation", {}, "not be a dict; pass a function of the"),
    ("logging", "x", "not be a str; pass a function of the"),
    ("on_change", "x", "not be a str; pass a function of"),
    ("tap", "x", "not be a str; pass a function"),
]


@pytest.mark.parametrize(
    "make",
    [
        partial(loose.connect, "http://a.example/mcp"),
        partial(loose.connect_all, {"a": "http://a.example/mcp"}),
    ],
    ids=["connect", "connect_all"],
)
@pytest.mark.parametrize(("name", "value", "says"), OF_CONNECTIONS)
def test_an_option_of_a_connection_of_another_kind_says_what_to_pass(
    make: Callable[..., object], name: str, value: Any, says: str
) -> None:
    if not says:
        assert make(**{name: value})
        return
    with pytest.raises(TypeError) as caught:
        make(**{name: value})
    assert str(caught.value).startswith(f"`{name}` must {says}")


def test_each_option_of_a_connection_is_tried() -> None:
    """`handler`, `roots`, `era` and `validate` have tests of their own."""
    tried = {name for name, _, _ in OF_CONNECTIONS} | {"handler", "roots", "era", "validate"}
    assert tried == ConnectionOptions.__annotations__.keys()


READ: Final[list[tuple[type, Any]]] = [
    (HandlerOptions, server),
    (HandlerOptions, service),
    (ConnectionOptions, connecting),
    (AppOptions, mcprev.App.__init__),
]
"""What reads which options."""


@pytest.mark.parametrize(("kind", "reader"), READ)
def test_the_default_of_an_option_is_what_is_taken_where_it_is_read(kind: type, reader: Any) -> None:
    told = {name: each.__metadata__[0].default for name, each in kind.__annotations__.items()}
    names = vars(sys.modules[getattr(reader, "__module__", reader.__name__)])
    taken: dict[str, object] = {}
    for node in ast.walk(ast.parse(dedent(inspect.getsource(reader)))):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="options"), attr="get" | "pop"),
                args=[ast.Constant(value=str(name)), *rest],
            ):
                code = ast.unparse(rest[0]) if rest else "None"
                taken[name] = eval(code, names)  # noqa: S307 - our own code
                assert taken[name] == told[name], name
            case _:
                pass
    assert taken


def test_the_options_are_shown_with_their_defaults() -> None:
    shown = inspect.signature(mcprev.Server).parameters
    assert (shown["max_line"].default, shown["icons"].default) == (16 * 1024 * 1024, ())
    assert (shown["store"].annotation, shown["show_errors"].annotation) == ("Records | None", bool)
    assert "total_timeout: 'float | None' = 600.0" in str(inspect.signature(mcprev.connect))
    assert [*inspect.signature(mcprev.App).parameters][:4] == ["name", "version", "visible", "executor"]


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
        (lambda: loose.App("shop", "1.0", zzz=1), "the options are visible, executor, strict_arguments, list_ttl_ms"),
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


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        (E, "str"),
        (None, "NoneType"),
        (mcprev_types, "mcprev_types"),
        (latest.models, latest.models.__name__),
        (latest.ClientCalls, "ClientCalls"),
    ],
)
def test_what_is_no_package_of_types_is_told_with_one_that_is(wrong: Any, shown: str) -> None:
    async def main() -> None:
        async with mcprev.connect(mcprev.App("shop", "1.0")) as client:
            client.exact(wrong)

    extended = () if wrong is None else (lambda: mcprev.Extension("com.acme/units", types=wrong),)
    for make in (lambda: run(main()), *extended):
        with pytest.raises(TypeError) as caught:
            make()
        assert str(caught.value) == f"{shown} is no generated package; pass one, such as mcprev_types.latest"
