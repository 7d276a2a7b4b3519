"""The page about hosts: a section for each, whose commands write where it says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from helpers.support import ROOT
from mcprev.cli import main
from mcprev.hosts.table import HOSTS, Host

PAGE: Final = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
WITHOUT_ROW: Final = {"Goose", "ChatGPT, and other hosts in a browser", "Another host"}
"""The hosts whose configuration no command writes."""
SERVER: Final = 'import mcprev\n\napp = mcprev.App("weather", "1.0")\n'


@pytest.mark.parametrize("host", HOSTS.values(), ids=lambda host: host.name)
def test_the_commands_of_a_host_write_where_its_section_says(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = PAGE.split(f"\n## {host.title}\n")[1].split("\n## ")[0]
    assert f"`{host.user.replace('{settings}/', '')}`" in section
    assert ("in the settings folder" in section) is ("{settings}" in host.user)
    assert host.project is None or f"`{host.project}`" in section
    assert host.url is None or f"a URL as `{host.url}`" in section
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    Path("weather.py").write_text(SERVER, encoding="utf-8")
    commands = re.findall(r"^mcprev (install [^#\n]+)", section, re.MULTILINE)
    assert len(commands) == (1 if host.project is None else 2)
    for command in commands:
        written = host.file(project="--project" in command)
        if "--project" not in command:
            written.parent.mkdir(parents=True, exist_ok=True)
        done = CliRunner().invoke(main, [*shlex.split(command), "--yes"], prog_name="mcprev")
        assert done.exit_code == 0, done.output
        (member,) = host.members[0]
        assert "weather" in json.loads(written.read_text(encoding="utf-8"))[member]


def test_the_page_has_no_host_that_is_not_in_the_table() -> None:
    titles = set(re.findall(r"^## (.+)$", PAGE, re.MULTILINE))
    assert titles - {host.title for host in HOSTS.values()} == {
        *WITHOUT_ROW,
        "When it does not work",
        "Publish a server for hosts",
    }
