"""What docs/deploy.md shows: it is what examples/deploy has, each file is read, and each command in it starts a server."""

from __future__ import annotations

import configparser
import dataclasses
import json
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
import click
import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement

import mcprev
from helpers.redis_server import RedisServer
from helpers.running import run
from helpers.served_workers import served
from helpers.support import ROOT
from mcprev.cli import main as command
from mcprev.serving.sockets import BACKLOG
from mcprev.transports.http.server.options import HttpSettings

FOLDER: Final = ROOT / "examples" / "deploy"
PAGE: Final = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
INSTRUCTIONS: Final = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "CMD"}


def dockerfile() -> dict[str, str]:
    """The instructions of the Dockerfile; of those that stand there twice, the last."""
    lines = [line for line in (FOLDER / "Dockerfile").read_text(encoding="utf-8").splitlines() if line]
    found = dict(line.split(" ", 1) for line in lines if not line.startswith("#"))
    assert set(found) <= INSTRUCTIONS
    return found


def unit() -> configparser.ConfigParser:
    """The unit of systemd."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(FOLDER / "shop.service", encoding="utf-8")
    return parser


def compose() -> Any:
    """The compose file."""
    return yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("kind", "name"),
    [("python", "shop.py"), ("ini", "shop.service"), ("dockerfile", "Dockerfile"), ("yaml", "compose.yaml")],
)
def test_the_page_shows_what_the_folder_has(kind: str, name: str) -> None:
    shown = re.findall(rf"^```{kind}(?: title=[^\n]*)?\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert shown == [(FOLDER / name).read_text(encoding="utf-8")]


def test_the_container_and_the_unit_stop_and_wait_as_the_server_needs() -> None:
    docker, service, shop = dockerfile(), unit()["Service"], compose()["services"]["shop"]
    assert docker["STOPSIGNAL"] == "SIGTERM"
    assert docker["USER"] == "10001"
    assert "/ready" in json.loads(docker["HEALTHCHECK"].partition("CMD ")[2])[2]
    longest = HttpSettings().drain + 10
    assert int(service["TimeoutStopSec"]) > longest
    assert int(shop["stop_grace_period"].removesuffix("s")) > longest
    assert compose()["services"]["redis"]["command"][-2:] == ["--maxmemory-policy", "noeviction"]


@pytest.mark.parametrize(
    "words", [json.loads(dockerfile()["CMD"]), shlex.split(unit()["Service"]["ExecStart"])]
)
def test_the_command_serves(words: Sequence[str], tmp_path: Path) -> None:
    assert words[0].rpartition("/")[2] == "mcprev"
    assert list(words[1:4]) == ["serve", "shop.py", "--http"]
    options = list(words[5:])
    at = options.index("--workers")
    workers = int(options[at + 1])
    del options[at : at + 2]
    shutil.copy(FOLDER / "shop.py", tmp_path)
    redis = RedisServer().start()

    async def main() -> None:
        place = {"MCPREV_STORE": redis.url()}
        async with (
            served("shop.py", workers, *options, cwd=tmp_path, environment=place) as server,
            aiohttp.ClientSession() as http,
        ):
            async with http.get(server.url.replace("/mcp", "/ready")) as answer:
                assert answer.status == 200
            headers = {"Host": "mcp.example"}
            async with mcprev.connect(mcprev.http(server.url, headers=headers)) as client:
                assert (await client.call_tool("price", {"item": "hat"}, as_=int)) == 20

    try:
        run(main(), limit=60)
    finally:
        redis.end()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (
        (FOLDER / "shop.service")
        .read_text(encoding="utf-8")
        .replace("/srv/shop/.venv/bin/mcprev", "/bin/true")
    )
    (tmp_path / "shop.service").write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "shop.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if "shop.service" in line] == []


def test_what_is_done_first_puts_the_program_where_the_unit_starts_it() -> None:
    (first,) = re.findall(r"^```sh\n(mkdir .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    service = unit()["Service"]
    assert f"cp shop.py {service['WorkingDirectory']}/" in first
    environment = service["ExecStart"].partition("/bin/")[0]
    assert f"python3 -m venv {environment} && {environment}/bin/pip install" in first
    (needed,) = re.findall(r"pip install '(.+)'", first)
    assert mcprev.__version__ in Requirement(needed).specifier
    (address,) = re.findall(r"--http (\S+)", service["ExecStart"])
    assert f"curl -i http://{address}/ready" in first


def known_options() -> list[tuple[str, str]]:
    """What operators know, and where it is here."""
    (table,) = re.findall(r"^\| there \| here \|\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    found: list[tuple[str, str]] = []
    for line in table.splitlines():
        there, here = line.strip("|").split("|")
        found.append((there.strip(), here.strip()))
    return found


def test_what_operators_know_is_where_the_page_says() -> None:
    serve = command.get_command(click.Context(command), "serve")
    assert serve is not None
    options = {name for param in serve.params for name in param.opts}
    rows = known_options()
    assert len(rows) > 15
    for _, here in rows:
        named = set(re.findall(r"`(--[a-z-]+)", here))
        assert named <= options | {"--preload"}, named - options
        limits = set(re.findall(r"`(max_\w+)`", here))
        assert limits <= {each.name for each in dataclasses.fields(HttpSettings)}
    assert f"| {BACKLOG:,}; " in PAGE
    assert tuple(here for there, here in rows if there.startswith("`--timeout-")) == (
        "`--keep-alive`",
        "`--drain`",
    )


def test_a_server_has_all_of_them_at_once(tmp_path: Path) -> None:
    """A socket of a file, a proxy with a prefix, limits, probes and a log; a reload; neither `Server` nor a missing `Date`."""
    shutil.copy(FOLDER / "shop.py", tmp_path)
    path = tmp_path / "shop.sock"
    options = [
        "--http", f"unix:{path}", "--trusted-proxy", "unix", "--root-path", "/tools", "--keep-alive", "77", "--drain", "5",
        "--health", "--log-level", "info", "--log-format", "json", "--host", "mcp.example",
    ]  # fmt: skip

    async def main() -> None:
        place = {"MCPREV_STORE": f"sqlite:///{tmp_path}/store"}
        async with served("shop.py", 1, *options, cwd=tmp_path, environment=place) as server:
            async with (
                aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as http,
                http.get("http://mcp.example/ready") as answer,
            ):
                assert answer.status == 200
                assert "Server" not in answer.headers
                assert "Date" in answer.headers
            server.send(signal.SIGHUP)
            await server.until("all workers have been replaced")
            server.send(signal.SIGTERM)
            assert await server.ended() == 0
            assert all("level" in json.loads(line) for line in server.lines)

    run(main(), limit=60)


def test_the_figures_of_the_page_are_those_that_were_measured() -> None:
    measured = set(re.findall(r"\b[\d,]+\b", (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")))
    rows = re.findall(r"^\| .* \| ([\d,]+) µs \| ([\d,]+) a second \|$", PAGE, re.MULTILINE)
    assert len(rows) == 4
    for cost, rate in rows:
        assert cost in measured
        most = 1_000_000 / int(cost.replace(",", ""))
        assert most * 0.9 <= int(rate.replace(",", "")) <= most
