"""What a command for one server knows of it: how to reach it, and its tools, resources and prompts when it was written."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mcprev.cli.command_target import target_of_server, told_server
from mcprev.cli.exit_codes import ExitCode, Failure
from mcprev.cli.table import clean, echo
from mcprev.json_schema.bounds import OBJECT

if TYPE_CHECKING:
    from mcprev.errors import Json
    from mcprev.hosts.named_server import NamedServer

FORMAT: Final = 1
"""The version of the data in a script."""
MAX_SCRIPT: Final = 8 * 1024 * 1024
"""The maximum number of characters of a script."""
_KEPT: Final[Mapping[str, tuple[str, ...]]] = {
    "tools": ("name", "title", "description", "inputSchema"),
    "resources": ("uri", "name"),
    "prompts": ("name", "arguments"),
}
"""For each list, the members that are kept of an entry."""
_MAX_SHEBANG: Final = 120
_SCRIPT: Final = """\
#!{python}
# The command of one MCP server, written by `mcprev generate-cli`; --refresh writes it again.

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the folder of this file, whose name may be that of a module

from mcprev.cli.server_command import run_command

run_command(__file__, r'''
{data}
''')
"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a command for one server knows of it."""

    words: Sequence[str]
    """The words that name the server, with `--` before a command; `${NAME}` is a variable of the environment."""
    env: Mapping[str, str]
    """The variables of its command, with the same variables in their values."""
    headers: Mapping[str, str]
    """The headers of requests to its URL, with the same variables in their values."""
    name: str
    """The name that it gave itself; may be empty."""
    lists: Mapping[str, Sequence[Mapping[str, Json]]]
    """Its tools, resources and prompts, by the name of the list."""

    def server(self) -> NamedServer:
        """Return the server. Raises `OSError` and `ValueError`."""
        from mcprev.client.host_config import filled
        from mcprev.hosts.named_server import named_server

        command = self.words[0] == "--"
        return named_server(
            [filled(word) for word in self.words[1 if command else 0 :]],
            command=command,
            env={name: filled(value) for name, value in self.env.items()},
            headers={name: filled(value) for name, value in self.headers.items()},
        )

    @property
    def tools(self) -> dict[str, Mapping[str, Json]]:
        """The tools by name."""
        return {str(tool["name"]): tool for tool in self.lists["tools"]}

    def script(self) -> str:
        """Return the text of the script. Raises `Failure` if it is too long.

        All of the server is in a literal without a quote, which nothing in it can end.
        """
        document = {
            "format": FORMAT,
            "words": [*self.words],
            "env": dict(self.env),
            "headers": dict(self.headers),
            "name": self.name,
            **{name: [*entries] for name, entries in self.lists.items()},
        }
        data = json.dumps(document, indent=1).replace("'", "\\u0027")
        if len(data) > MAX_SCRIPT:
            text = (
                f"the lists of the server have {len(data)} characters, more than the {MAX_SCRIPT} of a script"
            )
            raise Failure(text, ExitCode.PROTOCOL)
        return _SCRIPT.format(python=_interpreter(), data=data)


def _interpreter() -> str:
    """Return the Python of this process for the first line of a script, or any if the line cannot name it."""
    path = sys.executable
    plain = path.isascii() and path.isprintable() and " " not in path and 0 < len(path) <= _MAX_SHEBANG
    return path if plain else "/usr/bin/env python3"


def read_snapshot(text: str) -> Snapshot:
    """Return the data of a script. Raises `Failure` for another format."""
    try:
        found: Json = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, OBJECT) or found.get("format") != FORMAT:
        raise Failure(
            "this command was written by another version of mcprev: write it again with `mcprev generate-cli ... --force`",
            ExitCode.USAGE,
        )
    document: dict[str, Any] = found
    lists = {name: document[name] for name in _KEPT}
    return Snapshot(document["words"], document["env"], document["headers"], document["name"], lists)


def taken_snapshot(
    words: Sequence[str],
    env: Mapping[str, str],
    headers: Mapping[str, str],
    *,
    revisions: list[str] | None,
    timeout: float,
    login: bool | None,
) -> Snapshot:
    """Connect to a server, and return it with its lists of now. Raises `click.ClickException`."""
    before = Snapshot(words, env, headers, "", {})
    document = _inspected(before, revisions, timeout, login)
    lists: dict[str, list[dict[str, Json]]] = {}
    for name, members in _KEPT.items():
        why: str | None = document["errors"].get(name)
        if why is not None:
            if not document[name]:
                raise Failure(f"the {name} of the server cannot be read: {clean(why)}", ExitCode.PROTOCOL)
            echo(
                f"Warning: not all {name} of the server are valid, and the others are left out: {why}",
                err=True,
            )
        entries: list[dict[str, Json]] = document[name] or []
        lists[name] = [{key: each[key] for key in members if key in each} for each in entries]
    server: Mapping[str, Json] = document["server"] or {}
    return Snapshot(words, env, headers, str(server.get("name") or ""), lists)


def _inspected(
    snapshot: Snapshot, revisions: list[str] | None, timeout: float, login: bool | None  # noqa: FBT001
) -> dict[str, Any]:
    from collections import deque

    from mcprev.cli.connecting import told_failures, told_output, told_warnings
    from mcprev.cli.inspect_ import inspect_server
    from mcprev.cli.stopping import run

    server = told_server(snapshot.server)
    with told_output() as output, told_failures(server, timeout), told_warnings():
        target = target_of_server(server, login=login, stderr=output.read)
        return run(inspect_server(target, revisions, timeout, deque(maxlen=0), None, output))


def changes(before: Snapshot, after: Snapshot) -> list[str]:
    """Return a line for each tool that is new, gone or different."""
    old, new = before.tools, after.tools
    lines = [f"new: {name}" for name in new if name not in old]
    lines += [f"gone: {name}" for name in old if name not in new]
    return lines + [f"changed: {name}" for name in new if name in old and old[name] != new[name]]
