"""`mcprev` and git as tests call them: the command and its server in this process, git with a name of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner, Result

from mcprev.cli import inspect_, main, server_use, snapshot
from mcprev.cli.command_target import target_of_server

if TYPE_CHECKING:
    from mcprev.client.targets import Target
    from mcprev.hosts.named_server import NamedServer

_SETTINGS: Final = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def invoke(schema: Path | None, *arguments: str) -> Result:
    """Run `mcprev`, on a schema folder or on the one of the checkout; an error that it does not tell is raised."""
    environment = {"MCPREV_SCHEMA": str(schema)} if schema else {}
    return CliRunner().invoke(main, arguments, env=environment, catch_exceptions=False)


def git(folder: Path, *arguments: str, text: str | None = None) -> str:
    """Run git in a folder, with `text` as its input; its output without the line end."""
    done = subprocess.run(
        ["git", *_SETTINGS, *arguments], cwd=folder, capture_output=True, text=True, check=True, input=text
    )
    return done.stdout.strip()


def serve_here(file: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a file with a server; commands that name it use the server in this process, not in one of its own."""
    Path(file).write_text(text, encoding="utf-8")
    module = ModuleType(Path(file).stem)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(text, file, "exec"), module.__dict__)  # noqa: S102 - a server of the tests

    def target(server: NamedServer, *, login: bool | None, stderr: Callable[[bytes], None]) -> Target:
        if Path(server.module or "").absolute() != Path(file).absolute():
            return target_of_server(server, login=login, stderr=stderr)
        from mcprev.transports.memory import memory

        return memory(module.app.server)

    for command in (server_use, inspect_, snapshot):
        monkeypatch.setattr(command, "target_of_server", target)
