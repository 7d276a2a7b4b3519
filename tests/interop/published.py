"""Published servers through `mcprev bridge`: each is listed and called once by a client of every revision.

    PYTHONPATH=tests python -m interop.published [--only NAME] [--again] [--table PAGE]

What published.toml names is installed below .interop/published, each in an environment of its own, where what was
seen of it is kept too: a run that was ended goes on with the next server. A server is asked without a bridge first, with
the call that published.toml has for it, a harmless one with real arguments. Through the bridge, each revision has to see the
same tools, and the call has to give a result. A server that answers the call with an error also without a bridge does not
count as working: the error is told, and has to be the same through the bridge.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import mcprev
from mcprev.revisions import DEFAULT

ROOT: Final = Path(__file__).resolve().parents[2]
PLACE: Final = ROOT / ".interop" / "published"
COMMAND: Final = str(Path(sys.executable).with_name("mcprev"))
INSTALL: Final = 300.0
"""Seconds that an installation may take."""
SECONDS: Final = 60.0
"""Seconds that one client may take, with the start of its server."""
AT_ONCE: Final = 4
SEEN: Final = "seen.json"
RESULT: Final = "a result"
BEGIN: Final = "<!-- published: begin -->"
END: Final = "<!-- published: end -->"
PDF: Final = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
)
"""A document of one empty page."""


@dataclass(frozen=True)
class Call:
    """The call that a server is asked, and how the server is installed and started."""

    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    shows: str = ""
    """A text that the result has."""
    command: tuple[str, ...] = ()
    """The words after the command that starts it."""
    pins: tuple[str, ...] = ()
    """What is installed with it, where the newest release of what it needs does not fit it."""


@dataclass
class Published:
    """One server, and what was seen of it."""

    name: str
    version: str
    registry: str
    command: list[str] = field(default_factory=list[str])
    problem: str = ""
    """Why it was not asked."""
    spoken: str = ""
    """The revision that it speaks."""
    called: str = ""
    """The tool that is called."""
    tools: int = 0
    """The number of its tools."""
    ended: str = ""
    """How the call ends without a bridge: with a result, or with what error."""
    through: dict[str, str] = field(default_factory=dict[str, str])
    """What a client of each revision sees: `ok`, or what differs."""

    @property
    def works(self) -> bool:
        """Whether its call gives a result without a bridge, and a client of every revision gets one through it."""
        return self.ended == RESULT and set(self.through.values()) == {"ok"}

    @property
    def place(self) -> Path:
        """Where it is installed."""
        return PLACE / re.sub(r"[^a-z0-9]+", "-", f"{self.name}-{self.version}".lower()).strip("-")


def servers(only: str | None) -> list[tuple[Published, Call]]:
    """What the list names, each with its call."""
    listed = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return [
        (Published(name, version, registry), _call(name, listed))
        for registry in ("pypi", "npm")
        for name, version in listed[registry].items()
        if only in (None, name)
    ]


def _call(name: str, listed: Mapping[str, Any]) -> Call:
    started = tuple(listed["started"].get(name, ()))
    pins = tuple(listed["pins"].get(name, ()))
    return Call(command=started, pins=pins, **listed["calls"].get(name, {}))


# -- installing -----------------------------------------------------------------------------------------------


async def _run(*command: str, cwd: Path | None = None) -> str:
    """Run a command, and return why it failed; empty if it did not."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(INSTALL):
            out, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return "it was not installed in time"
    lines = [line for line in out.decode(errors="replace").splitlines() if line.strip()]
    return "" if process.returncode == 0 else " ".join(lines[-2:])[-200:]


async def install(server: Published, pins: tuple[str, ...] = ()) -> str:
    """Install a server unless it is; return why that failed."""
    place = server.place
    if (place / ".ready").exists():
        return ""
    place.mkdir(parents=True, exist_ok=True)
    if server.registry == "pypi":
        failed = await _run(sys.executable, "-m", "venv", "--without-pip", str(place))
        python = str(place / "bin" / "python")
        wanted = f"{server.name}=={server.version}"
        quiet = ("--quiet", "--disable-pip-version-check")
        failed = failed or await _run(
            sys.executable, "-m", "pip", "--python", python, "install", *quiet, wanted, *pins
        )
    else:
        (place / "package.json").write_text('{"private": true, "type": "module"}', encoding="utf-8")
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--save-exact")
        failed = await _run("npm", "install", *options, f"{server.name}@{server.version}", *pins, cwd=place)
    if not failed:
        (place / ".ready").touch()
    return failed


_SCRIPTS: Final = """
import importlib.metadata as m, json, sys
found = m.distribution(sys.argv[1]).entry_points.select(group="console_scripts")
print(json.dumps([each.name for each in found]))
"""


async def command_of(server: Published) -> list[str]:
    """How a server is started: the script of its name, or its first one; empty if it has none."""
    place = server.place
    plain = server.name.rpartition("/")[2]
    if server.registry == "npm":
        package = place / "node_modules" / server.name
        listed: Any = json.loads((package / "package.json").read_text(encoding="utf-8")).get("bin") or {}
        scripts: dict[str, str] = {plain: listed} if isinstance(listed, str) else listed
        chosen = scripts.get(plain) or next(iter(scripts.values()), "")
        return ["node", str(package / chosen)] if chosen else []
    process = await asyncio.create_subprocess_exec(
        str(place / "bin" / "python"), "-c", _SCRIPTS, server.name, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    names: list[str] = json.loads(out or b"[]")
    chosen = plain if plain in names else next(iter(names), "")
    return [str(place / "bin" / chosen)] if chosen else []


# -- asking ---------------------------------------------------------------------------------------------------


def prepare(folder: Path) -> None:
    """Make a folder with what servers of files read: a repository of git with a text, a table and a program."""
    (folder / "note.txt").write_text("a note\n", encoding="utf-8")
    (folder / "table.csv").write_text("name,size\none,1\ntwo,2\n", encoding="utf-8")
    (folder / "program.py").write_text("def twice(it):\n    return 2 * it\n", encoding="utf-8")
    (folder / "index.html").write_text("<!doctype html><title>A page</title>\n", encoding="utf-8")
    (folder / "program.js").write_text("export const it = 1;\n", encoding="utf-8")
    (folder / "eslint.config.js").write_text("export default [];\n", encoding="utf-8")
    (folder / "page.pdf").write_bytes(PDF)
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)


def filled(value: Any, folder: str) -> Any:
    """Arguments of a call with the folder in its place."""
    return json.loads(json.dumps(value).replace("{folder}", json.dumps(folder)[1:-1]))


async def asked(target: mcprev.Target, call: Call, **options: Any) -> tuple[str, int, str]:
    """What a client sees: the revision, the number of tools and how the call ends."""
    async with asyncio.timeout(SECONDS), mcprev.connect(target, **options) as client:
        tools = [tool.name async for tool in client.tools()]
        if call.tool not in tools:
            return client.revision, len(tools), f"its tools have no '{call.tool}': {', '.join(tools)[:60]}"
        try:
            result = await client.raw("tools/call", {"name": call.tool, "arguments": call.arguments})
        except mcprev.RpcError as error:
            return client.revision, len(tools), f"error {error.code}: {_short(error.message)}"
        shown = json.dumps(result, ensure_ascii=False)
        if result.get("isError"):
            ended = f"a failed tool: {_short(' '.join(one.get('text', '') for one in result['content']))}"
        else:
            ended = RESULT if call.shows in shown else f"a result without '{call.shows}': {_short(shown)}"
        return client.revision, len(tools), ended


async def look(server: Published, call: Call) -> None:
    """Install a server, ask it, and ask it through a bridge at every revision."""
    server.problem = await install(server, call.pins)
    if server.problem:
        server.problem = f"not installed: {server.problem}"
        return
    server.command = await command_of(server)
    if not server.command:
        server.problem = "it has no command"
        return
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        call = replace(call, arguments=filled(call.arguments, folder))
        command = [*server.command, *filled(list(call.command), folder)]
        env = {"PATH": os.environ["PATH"], "HOME": folder}
        try:
            server.spoken, server.tools, server.ended = await asked(
                mcprev.stdio(*command, env=env, cwd=folder), call
            )
        except Exception as error:  # noqa: BLE001 - servers end in any way
            server.problem = f"it does not work by itself: {_why(error)}"
            return
        server.called = call.tool
        for row in DEFAULT:
            bridge = mcprev.stdio(COMMAND, "bridge", "--", *command, env=env, cwd=folder)
            try:
                _, tools, ended = await asked(bridge, call, mode=row.name)
            except Exception as error:  # noqa: BLE001
                server.through[row.name] = _why(error)
                continue
            differs = [] if tools == server.tools else [f"{tools} tools"]
            differs += [] if _kind(ended) == _kind(server.ended) else [ended]
            server.through[row.name] = ", ".join(differs) or "ok"


def _kind(ended: str) -> str:
    return ended.partition(":")[0]


def _short(text: str) -> str:
    return " ".join(text.split()).replace(str(PLACE), "").replace("|", "/")[:90]


def _why(error: BaseException) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text.replace(str(PLACE), "").replace("|", "/")[-160:]


def table(found: list[Published]) -> str:
    """The table of docs: a row for each server."""
    names = [row.name for row in DEFAULT]
    lines = ["| server | speaks | tools | call of, ends with | through a bridge |", "|---|---|---|---|---|"]
    found = [server for server in found if server.problem or server.ended]
    for server in found:
        title = f"{server.name} {server.version}"
        if server.problem:
            lines.append(f"| {title} | | | {server.problem} | |")
            continue
        bad = [f"{name}: {server.through.get(name)}" for name in names if server.through.get(name) != "ok"]
        same = "ok at every revision" if server.works else "the same at every revision"
        told = "; ".join(bad) or same
        lines.append(
            f"| {title} | {server.spoken} | {server.tools} | `{server.called}`, {server.ended} | {told} |"
        )
    begun = [server for server in found if not server.problem]
    own = sum(server.ended != RESULT for server in begun)
    lines.append(
        f"\n{len(found)} servers: {sum(server.works for server in found)} work through a bridge at every revision. Of the "
        f"others, {len(found) - len(begun)} do not start here, and {own} answer the call with an error of their own "
        "also without a bridge."
    )
    return "\n".join(lines)


def remembered(server: Published) -> bool:
    """Take over what was seen of a server in an earlier run; return whether there was one."""
    path = server.place / SEEN
    if not path.exists():
        return False
    for name, value in json.loads(path.read_text(encoding="utf-8")).items():
        setattr(server, name, value)
    return True


def remember(server: Published) -> None:
    """Keep what was seen of a server for the next run."""
    server.place.mkdir(parents=True, exist_ok=True)
    (server.place / SEEN).write_text(json.dumps(asdict(server)), encoding="utf-8")


def show(found: list[Published], page: Path | None) -> None:
    """Put the table of what was asked so far between its two marks in a page."""
    if page is not None:
        before, _, rest = page.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
        after = rest.partition(END)[2]
        page.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{after}", encoding="utf-8")


async def main(only: str | None, page: Path | None, *, again: bool) -> list[Published]:
    """Ask every server."""
    listed = servers(only)
    found = [server for server, _ in listed]
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(server: Published, call: Call) -> None:
        async with turn:
            if again or not remembered(server):
                await look(server, call)
                remember(server)
            seen = server.problem or (server.ended, server.through)
            print(f"{server.name}: {seen}", file=sys.stderr)  # noqa: T201

    await asyncio.gather(*(one(server, call) for server, call in listed))
    show(found, page)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Ask published servers through a bridge.")
    parser.add_argument("--only", metavar="NAME")
    parser.add_argument("--again", action="store_true", help="ask servers again that were asked before")
    parser.add_argument("--table", type=Path, metavar="PAGE", help="a page with marks for the table")
    options = parser.parse_args()
    everything = asyncio.run(main(options.only, options.table, again=options.again))
    print(table(everything))  # noqa: T201
    sys.exit(0 if all(set(server.through.values()) <= {"ok"} for server in everything) else 1)
