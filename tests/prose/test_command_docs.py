"""The guides to the command: what they show after `$` happens, and one names every command, option, host and exit code."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner

from helpers.shell import serve_here
from helpers.support import ROOT
from helpers.terminal import AtTerminal
from mcprev.cli import _COMMANDS, main  # pyright: ignore[reportPrivateUsage]
from mcprev.cli.exit_codes import ExitCode
from mcprev.hosts.table import HOSTS, Host

PAGE: Final = (ROOT / "docs" / "command.md").read_text(encoding="utf-8")
SERVER: Final = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
CHECK: Final = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
EXTENSIONS: Final = (ROOT / "docs" / "extensions.md").read_text(encoding="utf-8")
FILES: Final = {
    "shop.py": SERVER,
    **dict(
        re.findall(
            r'^```\w+ title="([\w.]+)"\n(.*?)^```$', PAGE + CHECK + EXTENSIONS, re.MULTILINE | re.DOTALL
        )
    ),
}


def blocks(page: str) -> list[list[tuple[str, str]]]:
    """The commands of each block of a page with their outputs."""
    return [
        re.findall(r"^\$ ((?:mcprev|\./shop) .*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
        for block in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    ]


CHECKED: Final = [each for block in blocks(CHECK) for each in block]
SHOWN: Final = [*blocks(PAGE), CHECKED, *blocks(EXTENSIONS)]
"""The commands that run one after the other in one folder: those of a block, or of the page about checking."""
CODE: Final = re.compile(r"\[exit code (\d)\]\n$")
OWN: Final = ("diff", "generate", "import", "unpin", "bridge", "dev", "explore")
"""Commands whose options pages of their own explain."""


def write_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to a folder with the files of the pages, where `python` and `mcprev` are found."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")


def ended(words: list[str]) -> tuple[int, str]:
    """The exit code and the output of `mcprev`, or of a script that it has written."""
    if words[0] == "mcprev":
        done = CliRunner().invoke(main, words[1:], prog_name="mcprev")
        return done.exit_code, done.output
    script = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return script.returncode, script.stdout


@pytest.mark.parametrize("block", SHOWN, ids=[block[0][0] for block in SHOWN])
def test_what_the_guide_shows_happens(
    block: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, monkeypatch)
    for name in re.findall(r"\b(?:shop|clock)\.py\b", block[0][0])[:1]:
        serve_here(name, FILES[name], monkeypatch)
    for words, output in block:
        code, shown = ended(shlex.split(words))
        said = CODE.search(output)
        assert code == (int(said[1]) if said else ExitCode.OK), shown
        pattern = re.escape(CODE.sub("", output)).replace(re.escape("...\n"), "(?:.*\n)*?")
        assert re.fullmatch(pattern, shown), shown


def test_examples_are_found() -> None:
    assert sum(map(len, SHOWN)) >= 12
    assert len(CHECKED) >= 3
    assert set(FILES) == {"shop.py", "answers.json", "wrong.py", "check.sh", "clock.py"}


def test_the_dialogue_of_the_guide_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path, monkeypatch)
    ((line, dialogue),) = re.findall(
        r"^```text\n\$ mcprev ([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
    )
    *asked, result = dialogue.splitlines()
    user = AtTerminal(*shlex.split(line))
    for each in asked:
        prompt = re.match(r"(.*(?:>|\[a\])) ?(.*)", each)
        user.wait_for(each if prompt is None else prompt[1])
        if prompt is not None:
            user.type(f"{prompt[2]}\n")
    assert user.end() == (0, f"{result}\n")


@pytest.mark.parametrize(("command", "code"), [("mcprev serve shop.py", 0), ("python wrong.py", 1)])
def test_the_script_for_every_build_tells_servers_apart(
    command: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, monkeypatch)
    done = subprocess.run(
        ["sh", "check.sh", *command.split()], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert ("0 violations" in done.stdout) == (code == 0)
    assert "violation" in done.stdout, "a mistake that is found first hides none of the messages"


@pytest.mark.parametrize(("tools", "code"), [("[ADD]", 0), ("[ADD, SHOUT]", 1)])
def test_the_script_for_every_build_finds_a_schema_that_no_client_can_use(
    tools: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, monkeypatch)
    text = FILES["wrong.py"]
    for wrong, right in (
        ('    if request["method"] == "initialize":\n        print("starting")\n', ""),
        (', "prompts": {}', ""),
        ('"name": "add"', '"name": "price"'),
        ('{"total": 3}', '{"sum": 3}'),
        ("[ADD, SHOUT]", tools),
        (
            '    if "id" in request:\n',
            (
                '    if request["method"] == "initialize":\n'
                '        RESULTS["initialize"]["protocolVersion"] = request["params"]["protocolVersion"]\n'
                '    if "id" in request:\n'
            ),
        ),
    ):
        assert wrong in text
        text = text.replace(wrong, right)
    Path("odd.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["sh", "check.sh", "python", "odd.py"], check=False, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, "Warning" in done.stdout) == (code, code == 1), done.stdout + done.stderr
    assert "0 violations" in done.stdout


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
    named = set(re.findall(r"`([a-z-]+)`", "\n".join(line.split(" | ")[0] for line in table.splitlines())))
    assert named >= set(_COMMANDS) - {"explore"}
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3, 4]
    assert os.EX_OK == ExitCode.OK
