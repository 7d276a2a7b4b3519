"""`mcprev serve` never serves without authentication what a file protects, unless it is told to."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

import mcprev
from auth.guarded import AsgiAsk, everything
from helpers.named import ROW_D
from helpers.running import run
from helpers.support import ROOT
from mcprev.cli import main as command, protection
from mcprev.serving import running
from mcprev.transports.http.server.asgi import AsgiApp

BARE: Final = (
    "import mcprev\nfrom functools import partial\napp = mcprev.App('demo', '1')\ndef me(scope): return 'me'\n"
)
MAIN: Final = "if __name__ == '__main__':\n    "


@pytest.fixture(autouse=True)
def _as_a_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", ["mcprev"])
    monkeypatch.setattr(logging.getLogger("mcprev"), "level", logging.NOTSET)


def serve(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[AsgiApp | None, str]:
    """Run `mcprev serve` up to where it would listen: the app that it would serve, and what it printed."""
    found: list[AsgiApp] = []

    def run_http(app: AsgiApp, host: str, port: int, **_: object) -> None:
        found.append(app)

    before = set(sys.modules)
    with monkeypatch.context() as patch:
        patch.setattr(running, "run_http", run_http)
        done = CliRunner().invoke(command, ["serve", "--http", "0", *arguments])
    for name in set(sys.modules) - before:
        path = getattr(sys.modules[name], "__file__", None) or ""
        if path.startswith((str(Path.cwd()), str(ROOT / "examples"))):
            del sys.modules[name]
    assert done.exit_code == (0 if found else 1), done.output
    return (found[0] if found else None), done.output


def status(app: AsgiApp) -> int:
    """The status of a request without a token."""
    verb, path, headers, body = everything(ROW_D)[1]

    async def main() -> int:
        try:
            return (await AsgiAsk(app)(verb, path, [*headers.items()], body)).status
        finally:
            await app.aclose()

    return run(main())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{MAIN}app.run_http(auth=object())", 6),
        (f"{MAIN}app.run_http('0.0.0.0', 80, principal=me)", 6),
        (f"{MAIN}app.server.asgi(auth=object())", 6),
        ("async def main():\n    await app.server.serve_http(auth=me)", 6),
        ("def main(auth):\n    partial(app.run_http, auth=auth)()", 6),
        ("def main(options, auth):\n    app.run_http(**options)", 6),
        ("def main(auth):\n    run = app.run_http\n    run(auth=auth)", 7),
        ("def main(auth):\n    getattr(app, 'run_http')(auth=auth)", 6),
        ("def main(auth):\n    serve = getattr(app, 'asgi')\n    serve(principal=auth)", 7),
        ("from mcprev import Bearer\ndef main():\n    return Bearer(me)", 7),
        ("def main():\n    return mcprev.Bearer(me)", 6),
        ("def main():\n    return mcprev.StaticTokens({'t': 'ann'})", 6),
        ("def main():\n    return mcprev.Login(provider)", 6),
    ],
)
def test_what_only_the_program_protects_is_refused(
    text: str, line: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("shielded.py").write_text(BARE + text, encoding="utf-8")
    app, told = serve(monkeypatch, "shielded.py:app")
    assert app is None
    assert told == (
        f"Error: the server has no authentication here, but shielded.py:{line} sets some up, which this command does not "
        "run: pass it as `auth=` to mcprev.App or mcprev.Server (`principal` in `http=`), where it holds for every way of "
        "serving; or serve everybody with --no-auth\n"
    )
    app, told = serve(monkeypatch, "shielded.py", "--no-auth")
    assert app is not None, told
    assert status(app) == 200


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def main(checks):\n    return checks(app.asgi())", 6),
        ("def main(checks):\n    return checks(app=app.asgi(path='/x'))", 6),
        ("def main(web):\n    inner = app.asgi()\n    web.mount('/mcp', inner)", 7),
        ("def main(uvicorn):\n    uvicorn.run(app.asgi())", None),
        ("def main(uvicorn):\n    found = app.asgi()\n    uvicorn.Config(found)", None),
        ("def main():\n    return app.asgi()", None),
    ],
)
def test_what_other_code_may_protect_is_served_with_a_warning(
    text: str, line: int | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Path("wrapped.py").write_text(BARE + text, encoding="utf-8")
    assert serve(monkeypatch, "wrapped.py:app", "--no-auth")[0] is not None
    assert caplog.messages == []
    assert serve(monkeypatch, "wrapped.py:app")[0] is not None
    told = (
        f"wrapped.py:{line} wraps the server in other code, which this command does not run: if that code authenticates "
        "clients, run it with an ASGI server such as uvicorn instead"
    )
    assert caplog.messages == ([] if line is None else [told])


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"{MAIN}app.run_http(port=8000, origins=['null'])",
        f"{MAIN}app.run_http(auth=None)",
        "def main():\n    run = app.run_http\n    run(port=80), getattr(app, 'run_http')()  # auth",
        "def main(auth):\n    getattr(mcprev, 'http')('https://x.example', auth=auth)",
        "def main(options):\n    app.run_http(**options)",  # and nothing of authentication in the file
        "def main():\n    mcprev.http('https://x.example', auth=object())",  # a client
    ],
)
def test_what_nothing_protects_is_served(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("open_.py").write_text(BARE + text, encoding="utf-8")
    app, told = serve(monkeypatch, "open_.py:app")
    assert app is not None, told
    assert status(app) == 200


def test_protection_in_other_files_of_the_program_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_it = "app.run_http(auth=object())\n"
    (tmp_path / "shop.py").write_text(BARE, encoding="utf-8")
    (tmp_path / "other.py").write_text(f"import mcprev\n{run_it}", encoding="utf-8")  # of another server
    assert serve(monkeypatch, "shop.py:app")[0] is not None
    (tmp_path / "start.py").write_text(f"from shop import app\n{MAIN}{run_it}", encoding="utf-8")
    assert "start.py:3 sets some up" in serve(monkeypatch, "shop.py:app")[1]
    assert "start.py:3 sets some up" in serve(monkeypatch, "start.py:app")[1]
    wide = "shop".translate(
        {ord(letter): ord(letter) + 0xFEE0 for letter in "shop"}
    )  # the same name for Python
    (tmp_path / "start.py").write_text(f"from {wide} import app\n{MAIN}{run_it}", encoding="utf-8")
    assert "start.py:3 sets some up" in serve(monkeypatch, "shop.py:app")[1]
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "kit" / "server.py").write_text(BARE, encoding="utf-8")
    assert serve(monkeypatch, "kit.server:app")[0] is not None
    (tmp_path / "kit" / "__main__.py").write_text(
        f"from kit import server\nserver.{run_it}", encoding="utf-8"
    )
    assert "__main__.py:2 sets some up" in serve(monkeypatch, "kit.server:app")[1]
    (tmp_path / "kit" / "__init__.py").write_text("from .server import app\n", encoding="utf-8")
    (tmp_path / "kit" / "__main__.py").write_text(f"from kit import app\n{run_it}", encoding="utf-8")
    assert "__main__.py:2 sets some up" in serve(monkeypatch, "kit.server:app")[1]
    (tmp_path / "facade.py").write_text("from deep import app\n", encoding="utf-8")
    (tmp_path / "deep.py").write_text(f"{BARE}{MAIN}{run_it}", encoding="utf-8")
    assert "deep.py:6 sets some up" in serve(monkeypatch, "facade:app")[1]
    (tmp_path / "factory.py").write_text(
        f"{BARE}def make(): return app\n{MAIN}make().{run_it}", encoding="utf-8"
    )
    assert "factory.py:7 sets some up" in serve(monkeypatch, "factory.py:make")[1]


def test_what_an_installed_library_protects_is_not_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    library = f"{BARE}def protected(): app.run_http(auth=object())\n"
    (tmp_path / "lib" / "library.py").write_text(library, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "lib"), *sys.path])
    Path("plain.py").write_text(f"import library\n{BARE}", encoding="utf-8")
    assert "library.py:5 sets some up" in serve(monkeypatch, "plain.py:app")[1]
    monkeypatch.setattr(protection, "INSTALLED", (str(tmp_path / "lib"),))
    app, told = serve(monkeypatch, "plain.py:app")
    assert app is not None, told


BEARER: Final = (
    "mcprev.Bearer(me, resource='https://mcp.example/mcp', authorization_servers=['https://as.example'])"
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"app = mcprev.App('demo', '1', auth={BEARER})", ":app"),
        (f"app = mcprev.App('demo', '1', http={{'auth': {BEARER}}})", ""),
        (f"web = app.asgi(auth={BEARER})", ":web"),
        (f"web = app.asgi(auth={BEARER})", ""),  # of an app and its ASGI app, the latter has more options
        (f"def make():\n    return mcprev.App('demo', '1', auth={BEARER})", ":make"),
        (f"app.run_http(port=1, auth={BEARER})", ":app"),  # noted as the module is imported
        (f"import asyncio\nclass Mine:\n    server = app.asgi(auth={BEARER})", ":Mine.server"),
    ],
)
def test_protection_on_the_object_holds(text: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("guarded_.py").write_text(f"{BARE}{text}\n", encoding="utf-8")
    app, told = serve(monkeypatch, f"guarded_.py{name}")
    assert app is not None, told
    assert status(app) == 401
    app, told = serve(monkeypatch, f"guarded_.py{name}", "--no-auth")
    assert app is not None, told
    assert status(app) == 200


def test_every_class_of_the_option_auth_is_known() -> None:
    public: list[object] = [getattr(mcprev, name) for name in dir(mcprev) if not name.startswith("_")]
    guards = {each.__name__ for each in public if isinstance(each, type) and issubclass(each, mcprev.Bearer)}
    assert guards == protection.GUARDS


def test_routes_of_an_app_are_served_too(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '@app.route("/health")\nasync def health(request):\n    return "well"\n'
    Path("routed_.py").write_text(BARE + text, encoding="utf-8")
    app, told = serve(monkeypatch, "routed_.py")
    assert app is not None, told

    async def main() -> int:
        try:
            return (await AsgiAsk(app)("GET", "/health", [], None)).status
        finally:
            await app.aclose()

    assert run(main()) == 200


EXAMPLES: Final = sorted(
    path
    for path in (ROOT / "examples").rglob("*.py")
    if path.name not in {"with_mcp.py", "with_fastmcp.py", "lambda_function.py"}  # not for `serve`
    and ("mcprev.App(" in (text := path.read_text(encoding="utf-8")) or "mcprev.Server(" in text)
    and "asyncio.run(" not in text  # a client, with a server to show it
)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT / "examples")))
def test_serve_of_an_example_needs_a_token_where_the_file_protects_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = path.read_text(encoding="utf-8")
    app, told = serve(monkeypatch, str(path), "--", "8000", "https://as.example/keys")
    assert app is not None, told
    assert status(app) == (401 if "auth=" in text else 200)


def test_the_examples_hold_one_that_is_protected() -> None:
    assert any("auth=" in path.read_text(encoding="utf-8") for path in EXAMPLES)
    assert len(EXAMPLES) > 15
