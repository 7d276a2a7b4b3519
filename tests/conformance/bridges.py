"""Runs the official conformance suite through a bridge, at every pair of revisions that it can speak to.

    PYTHONPATH=tests python -m conformance.bridges [--leg server|client] [--revision REV] [--only SCENARIO] [--keep DIR]

The server role is that of `mcprev bridge` in front of the fixture server, which is spoken to at one revision; the client
role that of the fixture client, which speaks one revision to a bridge before the suite's own server. What a pair of
revisions cannot express is listed in bridges.toml with the rule that it ends by; anything else has to pass.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
import tomllib
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from conformance import run
from conformance.run import Case, Fixture, Suite, Verdict
from helpers.served_workers import free_port
from mcprev.revisions import DEFAULT, TaskSupport, revision_named

WIRES: Final = run.FROZEN
"""The revisions that the suite speaks."""
BOUND: Final = 180.0
"""Seconds that one run of the suite may take."""
AUTH: Final = "auth/"
TASKS: Final = "tasks-"
COMMAND: Final = Path(sys.executable).with_name("mcprev")


def known() -> dict[str, dict[str, str]]:
    """The scenarios that a pair cannot express, by leg and pair, with the rule of each."""
    return tomllib.loads((run.HERE / "bridges.toml").read_text(encoding="utf-8"))


@asynccontextmanager
async def bridge_to(url: str, revision: str) -> AsyncGenerator[str, None]:
    """The URL of `mcprev bridge` before a server, which is spoken to at one revision."""
    port = free_port()
    options = ("--http", str(port), "--server-revision", revision)
    process = await asyncio.create_subprocess_exec(str(COMMAND), "bridge", *options, url)
    try:
        async with asyncio.timeout(run.BOUND):
            while not await run.listens(port):
                assert process.returncode is None, "the bridge could not be started"
                await asyncio.sleep(0.05)
        yield f"http://localhost:{port}/mcp"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def problems_of(verdicts: Iterable[Verdict], leg: str, pair: str, *, partly: bool) -> list[str]:
    """What differs from what is listed for a pair."""
    listed = known().get(f"{leg} {pair}", {})
    found = run.compare(verdicts, {leg: listed})
    return [f"{pair}: {problem}" for problem in found if not (partly and "was not run" in problem)]


async def server_leg(suite: Suite, url: str, revision: str, only: str | None) -> list[list[Verdict]]:
    """What is asked of a server at each of the suite's revisions, for one revision of the server behind the bridge."""
    verdicts: list[list[Verdict]] = []
    async with bridge_to(url, revision) as front:
        for wire in WIRES:
            names = await suite.scenarios("--server", "--spec-version", wire)
            cases = [Case("server", name, wire, wire) for name in names if only in (None, name)]
            verdicts.append(await suite.together(cases, front, BOUND))
        verdicts[-1] += await tasks_leg(suite, front, revision, only)
    return verdicts


async def tasks_leg(suite: Suite, front: str, revision: str, only: str | None) -> list[Verdict]:
    """What is asked of a server with the tasks extension, at the newest of the suite's revisions, where the server has tasks."""
    if revision_named(revision).tasks is TaskSupport.NONE:
        return []
    names = await suite.scenarios("--server")
    cases = [
        Case("server", name, WIRES[-1]) for name in names if name.startswith(TASKS) and only in (None, name)
    ]
    return await asyncio.gather(*(suite.case(case, "--url", front, bound=BOUND) for case in cases))


async def client_leg(suite: Suite, revision: str, only: str | None) -> list[list[Verdict]]:
    """What is asked of a client at each of the suite's revisions, for one revision of the client behind the bridge.

    Authorization is between the bridge and the suite's server, whatever the client speaks: it runs where both are the same.
    """
    verdicts: list[list[Verdict]] = []
    command = ("--command", f"env MCPREV_THROUGH={revision} {sys.executable} {run.HERE / 'client.py'}")
    for wire in WIRES:
        names = await suite.scenarios("--client", "--spec-version", wire)
        cases = [
            Case("client", name, wire, wire)
            for name in names
            if only in (None, name) and (wire == revision or not name.startswith(AUTH))
        ]
        verdicts.append(await asyncio.gather(*(suite.case(case, *command, bound=BOUND) for case in cases)))
    return verdicts


def table(counts: Mapping[tuple[str, str, str], tuple[int, int, int]]) -> str:
    """How many scenarios pass at each pair, how many end by their rule, and how many there are."""
    lines: list[str] = []
    for leg in dict.fromkeys(leg for leg, _, _ in counts):
        lines.append(f"{leg:8} {'  '.join(f'{wire:>22}' for wire in WIRES)}")
        for revision in dict.fromkeys(row for found, row, _ in counts if found == leg):
            cells = [counts.get((leg, revision, wire), (0, 0, 0)) for wire in WIRES]
            shown = "  ".join(f"{good:>3} pass, {rule:>2} by rule /{all_:>3}" for good, rule, all_ in cells)
            lines.append(f"{revision:8} {shown}")
    return "\n".join(lines)


async def run_all(leg: str | None, revision: str | None, only: str | None, results: Path) -> int:
    """Run what was asked for, print the table, and say what is not as expected."""
    began, suite = time.monotonic(), Suite(results)
    counts: dict[tuple[str, str, str], tuple[int, int, int]] = {}
    problems: list[str] = []
    rows = [row.name for row in DEFAULT if revision in (None, row.name)]

    def count(role: str, row: str, found: list[list[Verdict]]) -> None:
        for wire, verdicts in zip(WIRES, found, strict=True):
            pair = f"{wire} -> {row}" if role == "server" else f"{row} -> {wire}"
            listed = known().get(f"{role} {pair}", {})
            good = sum(verdict.why is None for verdict in verdicts)
            ruled = sum(verdict.why is not None and verdict.case.scenario in listed for verdict in verdicts)
            counts[role, row, wire] = good, ruled, len(verdicts)
            problems.extend(problems_of(verdicts, role, pair, partly=only is not None))

    if leg != "client":
        async with Fixture() as server:
            for row in rows:
                count("server", row, await server_leg(suite, server.url, row, only))
    if leg != "server":
        for row in rows:
            count("client", row, await client_leg(suite, row, only))
    print(f"\n{table(counts)}")  # noqa: T201
    for problem in problems:
        print(f"FAILED {problem}")  # noqa: T201
    print(f"{time.monotonic() - began:.0f} s, {len(problems)} problems")  # noqa: T201
    return 1 if problems or not counts else 0


def main() -> None:
    """Run the suite; exit code 1 when anything is not as expected."""
    parser = argparse.ArgumentParser(description="Run the official conformance suite through a bridge.")
    parser.add_argument("--leg", choices=("server", "client"))
    parser.add_argument("--revision", help="only this revision behind the bridge")
    parser.add_argument("--only", metavar="SCENARIO")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep what the suite wrote here")
    options = parser.parse_args()
    sys.exit(run.with_results(options.keep, partial(run_all, options.leg, options.revision, options.only)))


if __name__ == "__main__":
    main()
