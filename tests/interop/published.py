"""Published servers through `mcprev bridge`: each is listed and called once by a client of every revision.

    PYTHONPATH=tests python -m interop.published [--only NAME] [--again] [--table FILE]

What published.toml names is installed below .interop/published, each in an environment of its own, where what was
seen of it is kept too: a run that was ended goes on with the next server. A server is asked
without a bridge first. Through it, each revision has to see the same tools, and the call has to end the same way: with a
result, with a failed tool, or with an error. The call is of a tool that reads, as far as its name and arguments say;
where there is none, of a tool that no server has.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
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
AT_ONCE: Final = 3
SEEN: Final = "seen.json"
NO_SUCH: Final = "mcprev-no-such-tool"
CHANGES: Final = re.compile(
    "delete|remov|write|creat|set|exec|run|send|kill|stop|start|reset|clear|install|updat|upload|clos|move|edit|add|"
    "put|push|commit|checkout|merge|drop|insert|navigat|click|open|save|register|record|import|init",
    re.IGNORECASE,
)
"""What the name of a tool has that may change something."""


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
    direct: tuple[int, str] = (0, "")
    """The number of its tools, and how the call ends."""
    through: dict[str, str] = field(default_factory=dict[str, str])
    """What a client of each revision sees: `ok`, or what differs."""

    @property
    def place(self) -> Path:
        """Where it is installed."""
        return PLACE / re.sub(r"[^a-z0-9]+", "-", f"{self.name}-{self.version}".lower()).strip("-")


def servers(only: str | None) -> tuple[list[Published], Mapping[str, list[str]]]:
    """What the list names, and what some are started with."""
    listed = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    found = [
        Published(name, version, registry)
        for registry in ("pypi", "npm")
        for name, version in listed[registry].items()
        if only in (None, name)
    ]
    return found, listed["arguments"]


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


async def install(server: Published) -> str:
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
            sys.executable, "-m", "pip", "--python", python, "install", *quiet, wanted
        )
    else:
        (place / "package.json").write_text('{"private": true, "type": "module"}', encoding="utf-8")
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--save-exact")
        failed = await _run("npm", "install", *options, f"{server.name}@{server.version}", cwd=place)
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


def harmless(tools: list[Any]) -> tuple[str, dict[str, Any]]:
    """A tool that only reads, with arguments, as far as can be seen."""
    for tool in tools:
        schema = tool.input_schema.to_wire()
        if not CHANGES.search(tool.name) and not schema.get("required"):
            return tool.name, {}
    for tool in tools:
        schema = tool.input_schema.to_wire()
        known: dict[str, Any] = schema.get("properties") or {}
        wanted = {name: known.get(name, {}) for name in schema.get("required") or ()}
        values = {name: _value(one) for name, one in wanted.items()}
        if not CHANGES.search(tool.name) and None not in values.values():
            return tool.name, values
    return NO_SUCH, {}


def _value(schema: Mapping[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    values: dict[str, Any] = {"string": "1", "integer": 1, "number": 1, "boolean": False, "array": []}
    return values.get(str(schema.get("type")))


async def asked(
    target: mcprev.Target, called: tuple[str, dict[str, Any]] | None, **options: Any
) -> tuple[str, tuple[str, dict[str, Any]], tuple[int, str]]:
    """What a client sees: the revision, the call, the number of tools and how the call ends."""
    async with asyncio.timeout(SECONDS), mcprev.connect(target, **options) as client:
        tools = [tool async for tool in client.tools()] if client.capabilities.tools is not None else []
        name, arguments = called or harmless(tools)
        try:
            result = await client.raw("tools/call", {"name": name, "arguments": arguments})
            ended = "a failed tool" if result.get("isError") else "a result"
        except mcprev.RpcError as error:
            ended = f"error {error.code}"
        return client.revision, (name, arguments), (len(tools), ended)


async def look(server: Published, arguments: list[str]) -> None:
    """Install a server, ask it, and ask it through a bridge at every revision."""
    server.problem = await install(server)
    if server.problem:
        server.problem = f"not installed: {server.problem}"
        return
    with tempfile.TemporaryDirectory() as folder:
        server.command = await command_of(server)
        if not server.command:
            server.problem = "it has no command"
            return
        command = [*server.command, *(word.replace("{folder}", folder) for word in arguments)]
        env = {"PATH": os.environ["PATH"], "HOME": folder}
        try:
            server.spoken, called, server.direct = await asked(
                mcprev.stdio(*command, env=env, cwd=folder), None
            )
        except Exception as error:  # noqa: BLE001 - servers end in any way
            server.problem = f"it does not work by itself: {_why(error)}"
            return
        server.called = called[0]
        for row in DEFAULT:
            bridge = mcprev.stdio(COMMAND, "bridge", "--", *command, env=env, cwd=folder)
            try:
                _, _, found = await asked(bridge, called, mode=row.name)
            except Exception as error:  # noqa: BLE001
                server.through[row.name] = _why(error)
                continue
            tools, ended = found
            differs = [] if tools == server.direct[0] else [f"{tools} tools"]
            differs += [] if ended == server.direct[1] else [ended]
            server.through[row.name] = ", ".join(differs) or "ok"


def _why(error: BaseException) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text.replace(str(PLACE), "").replace("|", "/")[:160]


def table(found: list[Published]) -> str:
    """The table of docs: a row for each server."""
    names = [row.name for row in DEFAULT]
    lines = [
        f"| server | speaks | tools | call of, ends with | {' | '.join(names)} |",
        "|---" * (4 + len(names)) + "|",
    ]
    for server in found:
        title = f"{server.name} {server.version}"
        if not (server.problem or server.called):
            continue
        if server.problem:
            lines.append(f"| {title} | {server.problem.replace('|', '/')} |" + " |" * (2 + len(names)))
            continue
        tools, ended = server.direct
        cells = " | ".join(server.through.get(name, "") for name in names)
        called = "no tool" if server.called == NO_SUCH else f"`{server.called}`"
        lines.append(f"| {title} | {server.spoken} | {tools} | {called}, {ended} | {cells} |")
    found = [server for server in found if server.problem or server.called]
    asked_ = [server for server in found if not server.problem]
    good = sum(set(server.through.values()) == {"ok"} for server in asked_)
    lines.append(
        f"\n{len(found)} servers: {len(asked_)} work by themselves, {good} of them through a bridge at every revision."
    )
    return "\n".join(lines)


def remembered(server: Published) -> bool:
    """Take over what was seen of a server in an earlier run; return whether there was one."""
    path = server.place / SEEN
    if not path.exists():
        return False
    known = json.loads(path.read_text(encoding="utf-8"))
    server.problem, server.spoken, server.called = known["problem"], known["spoken"], known["called"]
    server.direct, server.through = tuple(known["direct"]), known["through"]
    return True


def remember(server: Published) -> None:
    """Keep what was seen of a server for the next run."""
    server.place.mkdir(parents=True, exist_ok=True)
    (server.place / SEEN).write_text(json.dumps(asdict(server)), encoding="utf-8")


def show(found: list[Published], file: Path | None) -> None:
    """Write the table of what was asked so far."""
    if file is not None:
        file.write_text(table(found) + "\n", encoding="utf-8")


async def main(only: str | None, file: Path | None, *, again: bool) -> list[Published]:
    """Ask every server."""
    found, arguments = servers(only)
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(server: Published) -> None:
        async with turn:
            if again or not remembered(server):
                await look(server, arguments.get(server.name, []))
                remember(server)
            show(found, file)
            print(f"{server.name}: {server.problem or server.through}", file=sys.stderr)  # noqa: T201

    await asyncio.gather(*(one(server) for server in found))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Ask published servers through a bridge.")
    parser.add_argument("--only", metavar="NAME")
    parser.add_argument("--again", action="store_true", help="ask servers again that were asked before")
    parser.add_argument("--table", type=Path, metavar="FILE")
    options = parser.parse_args()
    everything = asyncio.run(main(options.only, options.table, again=options.again))
    print(table(everything))  # noqa: T201
    sys.exit(0 if all(set(server.through.values()) <= {"ok"} for server in everything) else 1)
