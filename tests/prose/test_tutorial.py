"""The tutorial, followed from top to bottom as it stands there: its files are written, its commands are run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from helpers.served_workers import free_port
from helpers.support import ROOT

PAGE: Final = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
STEP: Final = re.compile(
    r'^```python title="(?P<file>[\w.]+)"\n(?P<text>.*?)^```$|^```console\n(?P<console>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
SHOWN: Final = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def test_the_tutorial_happens_as_it_says(tmp_path: Path) -> None:
    page = PAGE.replace("8000", str(free_port()))
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MCPREV", "PYTEST"))
    }
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",  # weather.py is written twice within a second
    }
    done: list[str] = []
    running: list[subprocess.Popen[bytes]] = []
    try:
        for step in STEP.finditer(page):
            if step["file"]:
                (tmp_path / step["file"]).write_text(step["text"], encoding="utf-8")
                continue
            for command, output in SHOWN.findall(step["console"]):
                done.append(command)
                if command.endswith(" &"):
                    running.append(begun(command.removesuffix(" &"), tmp_path, environment))
                    continue
                seen = subprocess.run(
                    ["bash", "-c", command], cwd=tmp_path, env=environment, text=True, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False,
                ).stdout  # fmt: skip
                pattern = re.escape(output).replace(re.escape("..."), "(?:.|\n)*?")
                assert re.fullmatch(pattern, seen), f"$ {command}\n{seen}"
    finally:
        for each in running:
            each.terminate()
            each.communicate()
    assert len(done) == PAGE.count("\n$ ") == 11


def begun(command: str, folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """A server in the background that listens."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command}"], cwd=folder, env=environment, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    while b"listening" not in (line := process.stderr.readline()):
        assert line, f"{command} ended"
    return process
