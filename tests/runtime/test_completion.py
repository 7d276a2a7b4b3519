"""The completion of bash, zsh and fish: what is suggested, by the scripts of the shells, and that no server is started."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import Final

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from mcprev.cli import COMPLETING, main
from mcprev.hosts.table import HOSTS
from mcprev.revisions import DEFAULT

APP: Final = """
from pathlib import Path
import mcprev

Path("started").touch()
app = mcprev.App("shop", "1.0")

@app.tool
def buy(what: str, count: int = 1) -> str:
    return what

@app.prompt
def hello(name: str) -> str:
    return name

@app.resource("memo://one")
def one() -> str:
    return "1"
"""


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / ".cache"))
    monkeypatch.setenv(COMPLETING, "bash_complete")
    monkeypatch.chdir(tmp_path)


def suggested(*words: str) -> set[str]:
    """What a shell would suggest for the last word."""
    found = ShellComplete(main, {}, "mcprev", COMPLETING).get_completions(list(words[:-1]), words[-1])
    return {item.value if item.type == "plain" else f"<{item.type}>" for item in found}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("insp",), {"inspect"}),
        (("show", ""), {*(row.name for row in DEFAULT), "latest"}),
        (("show", DEFAULT[0].name, "--method", "tools/c"), {"tools/call"}),
        (("show", DEFAULT[0].name, "--type", "CallToolRe"), {"CallToolRequest", "CallToolResult"}),
        (("call", "--as", "la"), {"latest"}),
        (("inspect", "--revision", DEFAULT[0].name[:-1]), {DEFAULT[0].name}),
        (("validate", "x", "--revision", "la"), {"latest"}),
        (("diff", DEFAULT[0].name, "la"), {"latest"}),
        (("diff", "--method", "tools/c"), {"tools/call"}),
        (("unpin", "la"), {"latest"}),
        (("install", "cur"), {"cursor", "<file>"}),
        (("install", "cursor", "sh"), {"shop", "<file>"}),
        (("uninstall", "cursor", ""), {"shop"}),
        (("call", "sh"), {"shop", "<file>"}),
        (("call", "shop@"), {"shop@cursor", "<file>"}),
        (("serve", "x"), {"<file>"}),
        (("call", "nothing.py", ""), set[str]()),
        (("completion", "f"), {"fish"}),
    ],
    ids=range(18),
)
def test_what_is_suggested(words: tuple[str, ...], expected: set[str]) -> None:
    file = HOSTS["cursor"].file()
    file.parent.mkdir(parents=True)
    odd = {"shop": {"command": "x"}, "odd\x1b[2J": {"command": "x"}}
    file.write_text(json.dumps({"mcpServers": odd}), encoding="utf-8")
    found = suggested(*words)
    assert found == expected or (words == ("show", "") and expected < found)


def test_tools_are_those_of_the_last_list_and_nothing_is_started() -> None:
    Path("shop.py").write_text(APP, encoding="utf-8")
    assert suggested("call", "shop.py", "") == set()
    assert not Path("started").exists()
    assert CliRunner().invoke(main, ["inspect", "shop.py"]).exit_code == 0
    Path("started").unlink()
    assert suggested("call", "shop.py", "b") == {"buy"}
    assert suggested("call", "shop.py", "buy", "") == {"what=", "count="}
    assert suggested("call", "shop.py", "buy", "what=x", "") == {"count="}
    assert suggested("prompt", "shop.py", "hello", "") == {"name="}
    assert suggested("read", "shop.py", "") == {"memo://one"}
    assert not Path("started").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(COMPLETING)
    done = CliRunner().invoke(main, ["completion", shell], prog_name="mcprev")
    assert done.exit_code == 0
    assert f"{COMPLETING}={shell}_complete" in done.stdout
    program = which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=done.stdout, text=True, check=True)


NASTY: Final = [
    "$(touch ran)",
    "`touch ran`",
    "; touch ran",
    "a'b",
    'a"b',
    "a\\",
    "*",
    "two words",
    "--record=x",
    "~",
    "é",
]


def bash(folder: Path, *words: str, then: str) -> list[str]:
    """The lines that bash prints after the completion of the last word."""
    command = folder / "bin" / "mcprev"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mcprev "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    script = CliRunner(env={COMPLETING: None}).invoke(main, ["completion", "bash"], prog_name="mcprev").stdout
    quoted = " ".join(map(shlex.quote, ("mcprev", *words)))
    asks = f"compopt() {{ :; }}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _mcprev_completion mcprev; {then}"
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{asks}"], capture_output=True, text=True, check=True,
        env={**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    return done.stdout.splitlines()


@pytest.mark.skipif(which("bash") is None, reason="there is no bash")
def test_bash_completes(tmp_path: Path) -> None:
    assert bash(tmp_path, "show", "la", then='echo "${COMPREPLY[@]}"') == ["latest"]


@pytest.mark.slow
@pytest.mark.skipif(which("bash") is None, reason="there is no bash")
def test_a_foreign_name_is_a_word_in_bash_and_never_a_command(tmp_path: Path) -> None:
    file = HOSTS["cursor"].file()
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"mcpServers": {name: {"command": "x"} for name in NASTY}}), encoding="utf-8")
    run_line = 'for word in "${COMPREPLY[@]}"; do eval "printf \'%s\\n\' $word"; done'
    found = bash(tmp_path, "uninstall", "cursor", "", then=run_line)
    assert sorted(found) == sorted(set(NASTY) - {"--record=x"})
    assert not Path("ran").exists()
    assert bash(tmp_path, "uninstall", "cursor", "'$", then=run_line) == []
    assert bash(tmp_path, "uninstall", "cursor", "a\\", then=run_line) == []
