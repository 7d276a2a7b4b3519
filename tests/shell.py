"""`mcprev` and git as tests call them: the command in this process, git with a name of its own and nothing signed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from click.testing import CliRunner, Result

from mcprev.cli import main

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
