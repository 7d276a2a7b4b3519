"""Measures the house: import circles, layers, folders, code lines, names defined twice, and the way of a warm `tools/call`.

`python tools/house_figures.py` prints each figure with its limit and its goal, and fails where one is above its limit;
`make check` runs it. A limit is the figure of the day it was last changed: whoever lowers a figure lowers its limit.
Code lines are counted and have no limit: a module is as long as its subject. `--root DIR` measures another checkout, `--details` adds the members of the circles,
the places of names, the long functions and the files on the way of a call.
"""

from __future__ import annotations

import argparse
import ast
import http.client
import io
import json
import os
import socket
import subprocess
import sys
import time
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from configparser import ConfigParser
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from helpers.named import D, E

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = {"mcprev": "runtime/mcprev", "mcprev_codegen": "codegen/mcprev_codegen"}
SITE: Final = "codegen/mcprev_explore"
"""The site of `mcprev explore`, above the generator and counted apart."""
PROPER: Final = ("wire", "conversion", "protocol", "core", "server", "client", "transports")
"""The areas that have to stay thin: every server or client runs through them. The others may grow with what they offer."""
EQUALS: Final = ("diff/comparison/areas", "diff/render", "commands")
"""Folders of the generator that list equals, one module each: any number of them is read like one."""
LONG: Final = 60
"""The lines up to which a function of the generator is read in one go, documentation included."""


@dataclass(frozen=True)
class Limit:
    """How high a figure may be today, and how high it should be."""

    figure: str
    most: int
    goal: int


LIMITS: Final = (
    Limit("import circles", 0, 0),
    Limit("modules on the top level", 6, 6),
    Limit("names defined in more than one module", 0, 0),
    Limit("generator: layers", 8, 8),
    Limit("generator: modules side by side", 9, 8),
    Limit("generator: names in more than one module", 0, 0),
    Limit(f"generator: functions of over {LONG} lines", 0, 0),
    Limit("stdio session: files", 10, 12),
    Limit("stdio session: changes of file", 14, 16),
    Limit("HTTP session: files", 18, 18),
    Limit("HTTP session: changes of file", 29, 30),
    Limit("stateless HTTP: files", 18, 18),
    Limit("stateless HTTP: changes of file", 29, 30),
)


@dataclass
class Details:
    """What the figures were counted from."""

    areas: Counter[str] = field(default_factory=Counter[str])
    circles: list[list[str]] = field(default_factory=list[list[str]])
    names: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    functions: dict[str, int] = field(default_factory=dict[str, int])
    ways: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


# -- what stands in the files --------------------------------------------------------------------------------------

NO_CODE: Final = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


def lines_of(first: int, last: int | None) -> range:
    """The numbers of the lines of a node or token."""
    return range(first, (last or first) + 1)


def code_lines(text: str) -> int:
    """How many lines hold code: those with a token, without strings that stand alone in a body, such as docstrings."""
    with_token = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in NO_CODE
        for line in lines_of(token.start[0], token.end[0])
    }
    documentation = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in lines_of(node.lineno, node.end_lineno)
    }
    return len(with_token - documentation)


def handwritten(root: Path, package: str) -> dict[str, str]:
    """The texts of the modules of a package, by their path below it."""
    base = root / PACKAGES[package]
    return {
        path.relative_to(base).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(base.rglob("*.py"))
    }


def top_level_names(text: str) -> Iterator[str]:
    """The public classes and functions that a module defines at its top level."""
    for node in ast.parse(text).body:
        if isinstance(
            node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and not node.name.startswith("_"):
            yield node.name


def shared_names(modules: Mapping[str, str]) -> dict[str, list[str]]:
    """The public names that several modules define, with those modules."""
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for module, text in modules.items():
        for name in set(top_level_names(text)):
            homes[name].append(module)
    return {name: places for name, places in sorted(homes.items()) if len(places) > 1}


def long_functions(modules: Mapping[str, str]) -> dict[str, int]:
    """The functions and methods of more than `LONG` lines, as `module::name`, with their lines."""
    return {
        f"{module}::{node.name}": length
        for module, text in modules.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := len(lines_of(node.lineno, node.end_lineno))) > LONG
    }


def side_by_side(modules: Iterable[str]) -> int:
    """How many modules the fullest folder has, its door not counted; folders that list equals are left out."""
    folders = Counter(
        module.rpartition("/")[0] for module in modules if not module.endswith("__init__.py")
    )  # fmt: skip
    return max((count for folder, count in folders.items() if folder not in EQUALS), default=0)


def layers(root: Path, package: str) -> int:
    """How many layers the contract of a package has, which import-linter checks."""
    contracts = ConfigParser()
    contracts.read(root / ".importlinter", encoding="utf-8")
    (layered,) = (
        each["layers"].split("\n")[1:]
        for each in contracts.values()
        if each.get("containers") == package and "layers" in each
    )
    return len(layered)


def count_files(root: Path, details: Details) -> Iterator[tuple[str, int]]:
    """The figures that are counted in the text of the modules."""
    runtime, generator = (handwritten(root, package) for package in PACKAGES)
    for name, text in runtime.items():
        details.areas[name.split("/")[0] if "/" in name else "(top level)"] += code_lines(text)
    names, generators = shared_names(runtime), shared_names(generator)
    details.names = names | generators
    details.functions = long_functions(generator)
    modules = [path for path in (root / PACKAGES["mcprev"]).glob("*.py") if path.name != "__init__.py"]
    yield "modules on the top level", len(modules)
    yield "names defined in more than one module", len(names)
    yield "code lines of the runtime", details.areas.total()
    yield "code lines of the runtime proper", sum(details.areas[area] for area in PROPER)
    yield "generator: layers", layers(root, "mcprev_codegen")
    yield "generator: modules side by side", side_by_side(generator)
    yield "generator: names in more than one module", len(generators)
    yield f"generator: functions of over {LONG} lines", len(details.functions)
    yield "generator: code lines", sum(
        code_lines(text) for name, text in generator.items() if not name.startswith("support/")
    )  # what `support` holds is copied into packages
    yield "site: code lines", sum(
        code_lines(path.read_text(encoding="utf-8")) for path in (root / SITE).glob("*.py")
    )


# -- who imports whom ----------------------------------------------------------------------------------------------


def reachable(graph: Mapping[str, Iterable[str]], start: str) -> set[str]:
    """Everything that a module imports, directly or through others; itself only if it stands on a circle."""
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting.extend(graph[each])
    return found


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The largest groups of modules in which each one imports every other, directly or through others."""
    reach = {name: reachable(graph, name) for name in graph}
    groups = {
        frozenset({name, *(other for other in reach[name] if name in reach[other])})
        for name in graph
        if name in reach[name]
    }
    return sorted(map(sorted, groups))


GRAPH: Final = """
import grimp, json, sys
graph = grimp.build_graph(*sys.argv[1:], exclude_type_checking_imports=False, cache_dir=None)
imported = {name: sorted(graph.find_modules_directly_imported_by(name)) for name in graph.modules}
print(json.dumps({**imported, **dict.fromkeys(sys.argv[1:], [])}))
"""
"""Prints who imports whom in the packages of the path it is started with."""


def environment(root: Path) -> dict[str, str]:
    """The environment of a process that imports the packages of a checkout."""
    folders = ("runtime", "generated", "codegen")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(root / folder) for folder in folders)}


def count_imports(root: Path, details: Details) -> Iterator[tuple[str, int]]:
    """The circles, with imports counted that stand in functions or are for type checkers only.

    The packages' own `__init__` modules, which lend names from everywhere below them, import nothing here.
    """
    imported: dict[str, list[str]] = json.loads(
        subprocess.run(
            [sys.executable, "-c", GRAPH, *PACKAGES], env=environment(root), capture_output=True, check=True
        ).stdout
    )
    details.circles = circles(imported)
    yield "import circles", len(details.circles)


# -- the way of a call ---------------------------------------------------------------------------------------------

SERVER: Final = """
import json, sys
import mcprev
from mcprev_types.latest import models as m

HOME, WARM, CALLS = sys.argv[1], 30, 21
ways, files = [], []

def record(frame, event, arg):
    name = frame.f_code.co_filename
    if event == "call" and name.startswith(HOME):
        files.append(name[len(HOME):])

class Handler(mcprev.ServerHandler):
    served = 0
    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        sys.setprofile(None)
        if self.served > WARM:
            ways.append(files[:])
        self.served += 1
        if self.served == WARM + CALLS:
            return m.CallToolResult(content=[m.TextContent(text=json.dumps(ways))])
        files.clear()
        result = m.CallToolResult(content=[m.TextContent(text="hi")])
        if self.served >= WARM:
            sys.setprofile(record)
        return result

server = mcprev.Server(Handler(), "s", "1")
server.run_http(port=int(sys.argv[2])) if len(sys.argv) > 2 else server.run_stdio()
"""
"""A server that records the files, of the runtime and of the models, whose functions run between two calls of its handler."""
CALLS: Final = 51
PREFIX: Final = "io.modelcontextprotocol/"
CLIENT: Final = {"name": "figures", "version": "1"}
CALL: Final = {"name": "t", "arguments": {"text": "hi"}}
OPENING: Final = {"protocolVersion": D, "capabilities": {}, "clientInfo": CLIENT}
STATELESS_CALL: Final = CALL | {
    "_meta": {
        PREFIX + "protocolVersion": E, PREFIX + "clientCapabilities": {}, PREFIX + "clientInfo": CLIENT,
    }
}  # fmt: skip


def message(method: str, params: object = None, id_: int | None = None) -> bytes:
    """A request, or a notification if it has no id."""
    members = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
    return json.dumps({name: value for name, value in members.items() if value is not None}).encode()


def start(root: Path, *args: str) -> subprocess.Popen[bytes]:
    """Run the server above on the runtime of a checkout."""
    command = [sys.executable, "-c", SERVER, f"{root}/", *args]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=environment(root),
    )  # fmt: skip


def recorded(answer: bytes) -> list[str]:
    """The shortest way that a recorded call went, from the answer to the last one: what no busy machine makes longer."""
    text = next(part for part in answer.decode().split("\n") if '"result"' in part).removeprefix("data:")
    ways: list[list[str]] = json.loads(json.loads(text)["result"]["content"][0]["text"])
    return min(ways, key=len)


def over_stdio(root: Path) -> list[str]:
    """The way of a call in a session over stdio."""
    with start(root) as process:
        assert process.stdin
        assert process.stdout

        def say(line: bytes) -> None:
            assert process.stdin
            process.stdin.write(line + b"\n")
            process.stdin.flush()

        say(message("initialize", OPENING, 0))
        answer = process.stdout.readline()
        say(message("notifications/initialized"))
        for number in range(1, CALLS + 1):
            say(message("tools/call", CALL, number))
            answer = process.stdout.readline()
        process.stdin.close()
        return recorded(answer)


def over_http(root: Path, *, stateless: bool) -> list[str]:
    """The way of a call over HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with start(root, str(port)) as process:
        try:
            return recorded(_post_calls(port, stateless=stateless))
        finally:
            process.terminate()


def _post_calls(port: int, *, stateless: bool) -> bytes:
    """The answer to the last of many calls."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    deadline = time.monotonic() + 30
    while True:
        try:
            connection.connect()
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

    def post(body: bytes) -> tuple[Mapping[str, str], bytes]:
        connection.request("POST", "/mcp", body, headers)
        response = connection.getresponse()
        return dict(response.getheaders()), response.read()

    if stateless:
        headers |= {"MCP-Protocol-Version": E, "Mcp-Method": "tools/call", "Mcp-Name": "t"}
    else:
        opened, _ = post(message("initialize", OPENING, 0))
        session = next(value for name, value in opened.items() if name.lower() == "mcp-session-id")
        headers |= {"MCP-Protocol-Version": D, "Mcp-Session-Id": session}
        post(message("notifications/initialized"))
    answer = b""
    for number in range(1, CALLS + 1):
        _, answer = post(message("tools/call", STATELESS_CALL if stateless else CALL, number))
    connection.close()
    return answer


WAYS: Final = ("stdio session", "HTTP session", "stateless HTTP")


def count_ways(root: Path, details: Details, names: Iterable[str] = WAYS) -> Iterator[tuple[str, int]]:
    """How many files a warm `tools/call` passes, and how often it goes from one to another.

    Counted once around: from the handler that returns to the one that is called next, whose file counts too.
    """
    for name in names:
        walked = over_stdio(root) if name == WAYS[0] else over_http(root, stateless=name == WAYS[2])
        way = ["the handler", *walked]
        stations = [file for before, file in zip([way[-1], *way], way, strict=False) if file != before]
        details.ways[name] = stations
        yield f"{name}: files", len(set(stations))
        yield f"{name}: changes of file", len(stations)


# -- all of it -----------------------------------------------------------------------------------------------------


def measure(root: Path) -> tuple[dict[str, int], Details]:
    """Every figure by its name, and what it was counted from."""
    details = Details()
    figures = {
        **dict(count_files(root, details)),
        **dict(count_imports(root, details)),
        **dict(count_ways(root, details)),
    }
    return figures, details


def above(figures: Mapping[str, int], limits: Iterable[Limit] = LIMITS) -> list[str]:
    """A sentence for each figure that is above its limit."""
    return [
        f"{limit.figure}: {figures[limit.figure]}, more than the limit of {limit.most}; delete elsewhere, or raise the "
        "limit in tools/house_figures.py and say in the commit what it is for"
        for limit in limits
        if figures[limit.figure] > limit.most
    ]


def main(arguments: list[str] | None = None) -> int:
    """Print the figures; return 1 where one is above its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout to measure")
    parser.add_argument("--details", action="store_true", help="name what was counted")
    options: Any = parser.parse_args(arguments)
    figures, details = measure(options.root.resolve())
    print(f"{'figure':48}{'now':>8}{'limit':>8}{'goal':>8}")
    for limit in LIMITS:
        print(f"{limit.figure:48}{figures[limit.figure]:8}{limit.most:8}{limit.goal:8}")
    for figure in sorted(figures.keys() - {limit.figure for limit in LIMITS}):
        print(f"{figure:48}{figures[figure]:8}")  # told, not limited
    print("code lines: " + ", ".join(f"{area} {count}" for area, count in details.areas.most_common()))
    if options.details:
        for circle in details.circles:
            print("circle:", ", ".join(circle))
        for name, places in details.names.items():
            print(f"name {name}:", ", ".join(places))
        for name, length in details.functions.items():
            print(f"function {name}: {length} lines")
        for name, stations in details.ways.items():
            print(f"way of {name}:", " > ".join(stations))
    found = above(figures)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
