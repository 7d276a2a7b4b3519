"""The guide to the command: what it shows after `$` happens, and it names every command, option, host and exit code."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner

from mcprev.cli import _COMMANDS, main  # pyright: ignore[reportPrivateUsage]
from mcprev.cli.exit_codes import ExitCode
from mcprev.hosts.table import HOSTS, Host
from support import ROOT

PAGE: Final = (ROOT / "docs" / "command.md").read_text(encoding="utf-8")
SERVER: Final = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
FILES: Final = dict(re.findall(r'^```json title="([\w.]+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL))
SHOWN: Final = [
    re.findall(r"^\$ mcprev (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
]
"""The commands of each block with their outputs: those of a block run one after the other in one folder."""
CODE: Final = re.compile(r"\[exit code (\d)\]\n$")
OWN: Final = ("diff", "generate", "import", "unpin", "bridge", "dev", "explore")
"""Commands whose options pages of their own explain."""


@pytest.mark.parametrize("block", SHOWN, ids=[block[0][0] for block in SHOWN])
def test_what_the_guide_shows_happens(
    block: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"shop.py": SERVER, **FILES}.items():
        Path(name).write_text(text, encoding="utf-8")
    for words, output in block:
        done = CliRunner().invoke(main, shlex.split(words), prog_name="mcprev")
        code = CODE.search(output)
        expected = CODE.sub("", output)
        assert done.exit_code == (int(code[1]) if code else ExitCode.OK), done.output
        pattern = re.escape(expected).replace(re.escape("...\n"), "(?:.*\n)*?")
        assert re.fullmatch(pattern, done.output), done.output


def test_examples_are_found() -> None:
    assert sum(map(len, SHOWN)) >= 12
    assert set(FILES) == {"answers.json"}


@pytest.mark.parametrize("name", _COMMANDS)
def test_the_guide_names_each_command_and_option(name: str) -> None:
    assert f"`{name}`" in PAGE
    command = main.get_command(click.Context(main), name)
    assert command is not None
    if name in OWN:
        return
    options = [option for param in command.params if isinstance(param, click.Option) for option in param.opts]
    assert [option for option in options if not re.search(rf"{option}(?![\w-])", PAGE)] == []


@pytest.mark.parametrize("host", HOSTS.values(), ids=lambda host: host.name)
def test_the_guide_says_where_each_host_keeps_its_servers(host: Host) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{host.name}`"))
    assert host.user.replace("{settings}/", "") in row
    assert (host.project or "| |") in row
    assert host.members[0][0] in row
    assert host.url in {None, "url"} or str(host.url) in row


def test_the_table_of_exit_codes_has_a_row_for_each_command() -> None:
    table = PAGE.split("## Exit codes")[1].split("\n\n")[1]
    named = set(re.findall(r"`([a-z]+)`", "\n".join(line.split(" | ")[0] for line in table.splitlines())))
    assert named >= set(_COMMANDS) - {"explore"}
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3, 4]
    assert os.EX_OK == ExitCode.OK
