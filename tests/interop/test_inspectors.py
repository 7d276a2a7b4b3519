"""Our server and the command lines of the Inspector, one process for each command."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from helpers.requirements import A, C, E, req
from interop.peers import INSPECTORS, NODE, OURS, Peer, chosen
from interop.watching import listening

LIMIT: Final = 60
"""Seconds that a command gets: most of it is for its start."""
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "tools": ("--method", "tools/list"),
    "call": ("--method", "tools/call", "--tool-name", "echo", "--tool-arg", "text=hello"),
    "structured": ("--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=1", "b=2.5"),
    "resources": ("--method", "resources/list"),
    "read": ("--method", "resources/read", "--uri", "memo:///one"),
    "templates": ("--method", "resources/templates/list"),
    "prompts": ("--method", "prompts/list"),
    "prompt": ("--method", "prompts/get", "--prompt-name", "greet", "--prompt-args", "name=ann"),
}


@pytest.fixture(scope="session")
def inspector(request: pytest.FixtureRequest) -> Generator[Inspector, None, None]:
    """An Inspector, and next to it a server where it is to talk HTTP."""
    peer: Peer = request.param
    http: AbstractContextManager[tuple[str, ...]] = (
        nullcontext(("stdio", *OURS)) if peer.transport == "stdio" else listening(peer.transport)
    )
    home: Path = request.getfixturevalue("tmp_path_factory").mktemp("inspector")
    with http as (_, *where):
        yield Inspector(peer, where, home)


class Inspector:
    """Runs commands against one server of ours."""

    def __init__(self, peer: Peer, where: list[str], home: Path) -> None:
        self.peer = peer
        self._where = where
        self._env = {**os.environ, "HOME": str(home), "PATH": f"{NODE.parent}:{os.environ['PATH']}"}

    def run(self, command: str) -> Any:
        """What a command prints."""
        new = self.peer.release.startswith("2.")
        path = "inspector/clients/launcher/build/index.js" if new else "inspector/cli/build/cli.js"
        era = ("--protocol-era", self.peer.mode) if new else ()
        done = subprocess.run(
            [*self.peer.program(path, "--cli"), *self._where, *COMMANDS[command], *era],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
            env=self._env,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout[done.stdout.index("{") :])


Check: TypeAlias = Callable[[Inspector], None]


def inspected(*ids: str) -> Callable[[Check], Check]:
    """A check with every Inspector over every transport."""

    def mark(test: Check) -> Check:
        among = chosen(A, E, among=INSPECTORS)
        parametrized = pytest.mark.parametrize("inspector", among, indirect=True, scope="session")(test)
        marked: Check = req(*ids)(parametrized)
        return marked

    return mark


@inspected("TOOL-1", "PAGE-1")
def test_tools_are_listed(inspector: Inspector) -> None:
    tools = {tool["name"]: tool for tool in inspector.run("tools")["tools"]}
    assert {"echo", "add"} <= set(tools)
    assert tools["add"]["inputSchema"]["properties"] == {"a": {"type": "number"}, "b": {"type": "number"}}
    assert tools["add"]["description"] == "Adds."


@inspected("BASE-5")
def test_a_tool_is_called(inspector: Inspector) -> None:
    assert inspector.run("call")["content"] == [{"type": "text", "text": "hello"}]


@inspected("TOOL-4", "TOOL-5")
def test_a_tool_gives_structured_content(inspector: Inspector) -> None:
    result = inspector.run("structured")
    assert result["content"][0] == {"type": "text", "text": "3.5"}
    if inspector.peer.since(C):
        assert result["structuredContent"] == {"sum": 3.5}


@inspected("RES-4", "PAGE-1")
def test_resources_are_listed(inspector: Inspector) -> None:
    assert inspector.run("resources")["resources"][0]["uri"] == "memo:///one"


@inspected("RES-1")
def test_a_resource_is_read(inspector: Inspector) -> None:
    [part] = inspector.run("read")["contents"]
    assert (part["uri"], part["text"]) == ("memo:///one", "one")


@inspected("RES-4")
def test_templates_are_listed(inspector: Inspector) -> None:
    [template] = inspector.run("templates")["resourceTemplates"]
    assert template["uriTemplate"] == "memo:///{name}"


@inspected("PROM-1")
def test_prompts_are_listed(inspector: Inspector) -> None:
    assert inspector.run("prompts")["prompts"][0]["name"] == "greet"


@inspected("PROM-1")
def test_a_prompt_is_filled_in(inspector: Inspector) -> None:
    assert inspector.run("prompt")["messages"] == [
        {"role": "user", "content": {"type": "text", "text": "hello ann"}}
    ]
