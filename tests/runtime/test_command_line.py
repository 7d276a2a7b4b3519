"""How the command behaves around its subcommands: pipes, colours, help, and the file that a target names."""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

import mcprev.cli
from helpers.requirements import req
from helpers.support import FIFTH, FOURTH
from mcprev.cli import main
from mcprev.cli.loading import load_server


@pytest.fixture(autouse=True)
def _as_a_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", ["mcprev"])
    monkeypatch.setattr(logging.getLogger("mcprev"), "level", logging.NOTSET)


def invoke(*arguments: str, **options: Any) -> Result:
    """Run the command; modules of this folder are forgotten then."""
    before = set(sys.modules)
    try:
        return CliRunner().invoke(main, arguments, prog_name="mcprev", **options)
    finally:
        for name in set(sys.modules) - before:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(Path.cwd())):
                del sys.modules[name]


# -- pipes, colours, help --------------------------------------------------------------------------------


@pytest.mark.slow
@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    "arguments", [("show", FIFTH), ("--help",), ("diff", FOURTH, FIFTH)], ids=lambda a: a[0]
)
def test_a_reader_that_stops_early_is_no_error(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        argv = [sys.executable, "-m", "mcprev", *arguments]
        done = subprocess.run(argv, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    "arguments",
    [("generate", "--check", "--out", ".", FIFTH), ("diff", "--fail-on", "any", FOURTH, FIFTH)],
    ids=lambda a: a[0],
)
def test_a_check_that_fails_does_so_also_if_its_reader_stops_early(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        argv = [sys.executable, "-m", "mcprev", *arguments]
        done = subprocess.run(argv, stdout=writing, stderr=writing, check=False)
    finally:
        os.close(writing)
    assert done.returncode == 1


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    "arguments", [("show", FIFTH), ("diff", "--format", "table", FOURTH, FIFTH)], ids=lambda a: a[0]
)
def test_no_color_takes_every_style_away(arguments: tuple[str, ...]) -> None:
    assert "\x1b[1m" in invoke("show", FIFTH, color=True, env={"NO_COLOR": ""}).output
    done = invoke(*arguments, color=True, env={"NO_COLOR": "1"})
    assert "\x1b" not in done.output
    assert len(done.output) > 100


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize("command", ["generate", "import", "unpin", "diff"])
def test_help_of_a_command_without_its_extra(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    complete = invoke(command, "--help").output

    def find_spec(name: str) -> object:
        return None if name == "jinja2" else find(name)

    monkeypatch.setattr(mcprev.cli, "find_spec", find_spec)
    extra = "diff" if command == "diff" else "codegen"
    says = f"`mcprev {command}` requires jinja2; install mcprev[{extra}]"
    for option in ("--help", "-h"):
        done = invoke(command, option)
        assert done.exit_code == 0
        described = complete.split("\n\n")[1]
        assert described in done.output
        assert done.output.endswith(f"\n\n{says}\n")
    done = invoke(command)
    assert (done.exit_code, done.output) == (1, f"Error: {says}\n")


# -- the file of a server --------------------------------------------------------------------------------

HEAD: Final = "import mcprev\n"


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("anything = mcprev.App('the one', '1')", "the one"),
        ("app = mcprev.App('the one', '1')\nserver = app.server\nasgi = app.asgi()\nalso = app", "the one"),
        ("part = mcprev.App('part', '1')\napp = mcprev.App('the one', '1')\napp.mount(part, 'p')", "the one"),
        ("server = mcprev.Server(mcprev.ServerHandler(), 'the one', '1')", "the one"),
        ("app = mcprev.App('the one', '1')\napp.run_stdio()", "the one"),  # serves itself as it is imported
    ],
)
def test_the_one_server_of_a_file_is_found(text: str, name: str) -> None:
    Path("alone.py").write_text(HEAD + text, encoding="utf-8")
    found = load_server("alone.py").server.identity.info
    assert found["name"] == name
    sys.modules.pop("alone")
    Path("kit").mkdir()
    Path("kit/alone.py").write_text(HEAD + text, encoding="utf-8")
    assert load_server("kit.alone").server.identity.info["name"] == name
    for module in ("kit", "kit.alone"):
        sys.modules.pop(module)


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "b = mcprev.App('b', '1')\na = mcprev.App('a', '1')",
            "odd.py has several servers: a, b; name one, as in odd.py:a",
        ),
        (
            "app = mcprev.App('b', '1')\none = app.asgi(path='/a')\ntwo = app.asgi(path='/b')",
            "odd.py has several servers: one, two; name one, as in odd.py:one",
        ),
        (
            "def make(): return mcprev.App('b', '1')",
            "there is no mcprev.Server or mcprev.App in odd.py; name a function that returns one, as in odd.py:make",
        ),
        (
            "app = mcprev.App('b', '1', tasks=mcprev.Tasks({'no': 'optional'}))",
            "`tasks` names 'no', which is not a tool of the app 'b'",
        ),
    ],
)
def test_a_file_without_one_server_is_explained(text: str, says: str) -> None:
    Path("odd.py").write_text(HEAD + text, encoding="utf-8")
    done = invoke("serve", "odd.py")
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {says}")


@req("HTTP-3", everywhere=True)
def test_the_module_reads_the_arguments_of_its_own() -> None:
    text = "import sys\napp = mcprev.App(' '.join(sys.argv), '1')"
    Path("argued.py").write_text(HEAD + text, encoding="utf-8")
    assert load_server("argued.py", ("--port", "1")).server.identity.info["name"] == "argued.py --port 1"
    sys.modules.pop("argued")


RAISES: Final = (
    'from helper import fail\n\ntry:\n    fail()\nexcept KeyError as error:\n    raise RuntimeError("wrong \x1b[31m") from error\n'
)
TOLD: Final = """\
Traceback (most recent call last):
  File "broken.py", line 4, in <module>
    fail()
  File "helper.py", line 2, in fail
    raise KeyError("x")
KeyError: 'x'
The above exception was the direct cause of the following exception:
Traceback (most recent call last):
  File "broken.py", line 6, in <module>
    raise RuntimeError("wrong \\x1b[31m") from error
RuntimeError: wrong \\x1b[31m
"""


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize("target", ["broken.py:app", "broken.py", "broken:app", "made.py:make"])
def test_a_module_that_raises_shows_the_traceback_of_its_author(target: str) -> None:
    Path("helper.py").write_text('def fail():\n    raise KeyError("x")\n', encoding="utf-8")
    Path("broken.py").write_text(RAISES, encoding="utf-8")
    Path("made.py").write_text("def make():\n    import broken\n", encoding="utf-8")
    done = invoke("serve", target)
    assert done.exit_code == 1
    told = [line for line in done.output.split("\n") if line and not set(line) <= set(" ^~")]
    shown = [line.replace(f"{Path.cwd()}/", "") for line in told]
    made = '  File "made.py", line 2, in make' in shown
    assert made is (target == "made.py:make")
    assert [
        line for line in shown if "made.py" not in line and line != "    import broken"
    ] == TOLD.splitlines()


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("x = (", "SyntaxError:"),
    ],
)
def test_a_module_that_cannot_be_imported_shows_why(text: str, says: str) -> None:
    Path("broken.py").write_text(text, encoding="utf-8")
    done = invoke("serve", "broken.py")
    assert done.exit_code == 1
    assert says in done.output
    assert "importlib" not in done.output


@req("HTTP-3", everywhere=True)
def test_a_lifespan_that_raises_shows_the_traceback_of_its_author() -> None:
    text = (
        "async def lifespan(server):\n    raise RuntimeError('no database')\n    yield\n"
        "app = mcprev.App('a', '1', lifespan=lifespan)\n"
    )
    Path("lasting.py").write_text(HEAD + text, encoding="utf-8")
    done = invoke("serve", "lasting.py", "--http", "0")
    assert done.exit_code == 1
    frames = [line.strip() for line in done.output.split("\n") if line.startswith("  File ")]
    assert frames == [f'File "{Path.cwd()}/lasting.py", line 3, in lifespan']
    assert "\nRuntimeError: no database\n" in done.output


# -- inspect ---------------------------------------------------------------------------------------------


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize("target", ["shop.py", "shop.py:app", "shop:app"])
def test_inspect_shows_the_server_of_a_file(target: str) -> None:
    text = "app = mcprev.App('the one', '1')\n@app.tool\ndef buy() -> str: return ''\n"
    Path("shop.py").write_text(HEAD + text, encoding="utf-8")
    done = invoke("inspect", target)
    assert done.exit_code == 0, done.output
    assert "the one" in done.output
    assert "buy" in done.output


class Nothing(BaseHTTPRequestHandler):
    """Answers everything with 404, and with a page what is below /page."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.do_GET()

    def do_GET(self) -> None:
        if not self.path.startswith("/page"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html>welcome</html>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base
        pass


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    ("path", "hints"),
    [
        ("", ("/mcp",)), ("/", ("/mcp",)), ("/other", ("/mcp", "/other/mcp")), ("/page", ("/mcp", "/page/mcp")),
        ("/mcp", ()), ("/page/mcp", ()),
    ],
)  # fmt: skip
def test_inspect_suggests_the_usual_path(path: str, hints: tuple[str, ...]) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Nothing) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        done = invoke("inspect", "--no-login", f"{url}{path}")
        server.shutdown()
    assert done.exit_code == 3
    assert ("HTTP 200 with text/html" if "page" in path else "404") in done.output
    told = [
        line.partition(" server at ")[2] for line in done.output.splitlines() if "may be a server" in line
    ]
    assert told == ([" or ".join(f"{url}{hint}" for hint in hints)] if hints else [])
