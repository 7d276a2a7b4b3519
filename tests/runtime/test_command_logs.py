"""What `mcprev serve` writes to stderr, and what of it the module of the server decides."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from textwrap import dedent

import aiohttp
import pytest

import mcprev
from helpers.requirements import req
from helpers.running import run
from helpers.served_workers import served
from mcprev.cli.logs import FORMATS, JSON, log_to_stderr

ACCESS = "mcprev.access"
PLAIN = "shop.own"


@contextmanager
def logging_of_nobody() -> Iterator[StringIO]:
    """What is written to stderr by logging that nobody has set up yet."""
    loggers = [logging.root, *map(logging.getLogger, ("mcprev", ACCESS, "shop", PLAIN))]
    before = [(each, each.handlers[:], each.level) for each in loggers]
    for each in loggers:
        each.handlers.clear()
        each.setLevel(logging.WARNING if each is logging.root else logging.NOTSET)
    try:
        with redirect_stderr(StringIO()) as stderr:
            yield stderr
    finally:
        for each, handlers, level in before:
            each.handlers[:] = handlers
            each.setLevel(level)


MODULES = {
    "nothing": "",
    "basicConfig": "logging.basicConfig(level=logging.INFO, format='MINE %(message)s')",
    "basicConfig, quiet": "logging.basicConfig(format='MINE %(message)s')",
    "a handler of mcprev": """
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter('MINE %(message)s'))
        logging.getLogger('mcprev').addHandler(handler)
    """,
    "its own logger": """
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter('MINE %(message)s'))
        logging.getLogger('shop').addHandler(handler)
    """,
    "a level of mcprev": "logging.getLogger('mcprev').setLevel(logging.WARNING)",
    "a level of one logger": "logging.getLogger('mcprev.access').setLevel(logging.WARNING)",
    "dictConfig": """
        import logging.config
        logging.config.dictConfig({
            'version': 1, 'disable_existing_loggers': False,
            'formatters': {'mine': {'format': 'MINE %(message)s'}},
            'handlers': {'mine': {'class': 'logging.StreamHandler', 'formatter': 'mine'}},
            'root': {'level': 'INFO', 'handlers': ['mine']},
        })
    """,
}


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    ("module", "level", "form", "lines"),
    [
        ("nothing", None, None, ["ours: access", "ours: warning", "ours: own"]),
        ("nothing", "warning", None, ["ours: warning", "ours: own"]),
        ("basicConfig", None, None, ["MINE access", "MINE warning", "MINE own"]),
        ("basicConfig", "warning", None, ["MINE warning", "MINE own"]),
        ("basicConfig, quiet", None, None, ["MINE warning", "MINE own"]),
        ("basicConfig, quiet", "info", None, ["MINE access", "MINE warning", "MINE own"]),
        ("a handler of mcprev", None, None, ["MINE access", "MINE warning", "ours: own"]),
        ("its own logger", None, None, ["ours: access", "ours: warning", "MINE own"]),
        ("a level of mcprev", None, None, ["ours: warning", "ours: own"]),
        ("a level of mcprev", "info", None, ["ours: access", "ours: warning", "ours: own"]),
        ("a level of one logger", "info", None, ["ours: warning", "ours: own"]),
        ("dictConfig", None, None, ["MINE access", "MINE warning", "MINE own"]),
        ("dictConfig", None, "json", ["json: access", "json: warning", "json: own"]),
        ("basicConfig", "warning", "json", ["json: warning", "json: own"]),
        ("nothing", None, "json", ["json: access", "json: warning", "json: own"]),
        ("basicConfig", None, "text", ["ours: access", "ours: warning", "ours: own"]),
    ],
)
def test_what_the_module_sets_stays_and_every_line_is_written_once(
    module: str, level: str | None, form: str | None, lines: list[str]
) -> None:
    with logging_of_nobody() as said:
        exec(dedent(MODULES[module]), {"logging": logging})  # noqa: S102 - as when it is loaded
        log_to_stderr(level or "info", named=level is not None, form=form)
        logging.getLogger(ACCESS).info("access")
        logging.getLogger("mcprev.store").warning("warning")
        logging.getLogger(PLAIN).warning("own")
    assert [_kind(line) for line in said.getvalue().splitlines()] == lines


def _kind(line: str) -> str:
    if line.startswith("{"):
        return f"json: {json.loads(line)['message']}"
    return line if line.startswith("MINE") else f"ours: {line.rpartition(': ')[2]}"


@req("HTTP-3", everywhere=True)
def test_a_record_is_one_line_of_json_whatever_it_has() -> None:
    with logging_of_nobody() as said:
        log_to_stderr("info", named=True, form=JSON)
        try:
            int("a\nb")
        except ValueError:
            logging.getLogger("mcprev.x").exception(
                "two\nlines \x1b[2J \ud800 %s", "ü", extra={"status": 200, "odd": object()}
            )
    (line,) = said.getvalue().splitlines()
    found = json.loads(line)
    assert line.isascii()
    assert (found["level"], found["logger"], found["status"]) == ("ERROR", "mcprev.x", 200)
    assert found["message"] == "two\nlines \x1b[2J \ud800 ü"
    assert found["exception"].endswith(r"invalid literal for int() with base 10: 'a\nb'")
    assert "odd" not in found
    assert found["time"].endswith("+00:00")


@pytest.mark.slow
@req("HTTP-3", everywhere=True)
def test_all_processes_write_json_and_probes_are_not_in_it(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import logging, mcprev\nlogging.basicConfig(format='MINE %(message)s')\n"
        "app = mcprev.App('shop', '1')\n@app.tool\ndef hi() -> str:\n    return 'hi'\n"
    )
    options = ("--health", "--log-format", JSON, "--store", f"sqlite:///{tmp_path}/store")

    async def main() -> None:
        async with (
            served("shop.py", 1, *options, cwd=tmp_path) as server,
            mcprev.connect(server.url) as client,
            aiohttp.ClientSession() as http,
        ):
            for path in ("/ready", "/healthz"):
                async with http.get(server.url.replace("/mcp", path)) as answer:
                    assert answer.status == 200
            assert (await client.call_tool("hi")).text == "hi"
            server.send(signal.SIGTERM)
            await server.ended()
            found = [json.loads(line) for line in server.said.splitlines()]
            assert {each["process"] for each in found} >= {server.process.pid}
            assert len({each["process"] for each in found}) == 2
            requests = [each for each in found if each["logger"] == ACCESS]
            assert "tools/call" in {each["method"] for each in requests}
            assert {(each["path"], each["verb"]) for each in requests} == {("/mcp", "POST")}
            assert all(each["client"].startswith("127.0.0.1:") for each in requests)

    run(main(), limit=60)
    assert set(FORMATS) == {"text", JSON}
