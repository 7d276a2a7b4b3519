"""`mcprev dev` as its users start it, and each mistake on its command line."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcprev.cli import main
from mcprev.dev import saving

SERVER = "import mcprev, os\napp = mcprev.App('x', os.environ['VERSION'])\n"


def opened(url: str, token: str | None = None) -> Any:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the page of this test
    return urllib.request.urlopen(request, timeout=30)  # noqa: S310


def asked(url: str, token: str | None = None) -> bytes:
    with opened(url, token) as answer:
        found: bytes = answer.read()
        return found


@pytest.mark.slow
def test_the_page_is_served_at_the_url_that_is_printed_until_the_command_is_interrupted(
    tmp_path: Path,
) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    command = [sys.executable, "-m", "mcprev", "dev", "server.py", "--no-browser", "-e", "VERSION=4.5"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            printed = process.stdout.readline()
            found = re.fullmatch(r"the page is at (http://127\.0\.0\.1:\d+)/#token=([\w-]{43})\n", printed)
            assert found is not None, printed
            url, token = found.groups()
            assert b"<html" in asked(f"{url}/")
            scripts = re.findall(r'(?:src|href)="(page/[^"]+)"', asked(f"{url}/").decode())
            assert scripts
            assert all(asked(f"{url}/{script}") for script in scripts)
            with opened(f"{url}/api/stream", token) as stream:
                while b'"state":"connected"' not in (line := stream.readline()):
                    assert line
            target = json.loads(asked(f"{url}/api/state", token))["target"]
            assert target["server_info"] == {"name": "x", "version": "4.5"}
        finally:
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=30)[1]
    assert (process.returncode, said) == (0, "")


@pytest.mark.slow
def test_a_saved_session_is_opened_without_a_server(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    file.write_text(json.dumps({"direction": "client_to_server", "message": message}) + "\n")
    command = [sys.executable, "-m", "mcprev", "dev", "--open", str(file), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url, _, token = process.stdout.readline().split()[-1].partition("/#token=")
            state = json.loads(asked(f"{url}/api/state", token))
            assert (state["target"]["kind"], state["next"]) == ("recording", 2)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
    assert process.returncode == 0


MISTAKES: list[tuple[list[str], str]] = [
    ([], "TARGET"),
    (["nowhere.py"], "there is no file 'nowhere.py'"),
    (["ftp://example.com"], "http://"),
    (["http://127.0.0.1:1/mcp", "--http"], "--http requires a file or module"),
    (["http://127.0.0.1:1/mcp", "-e", "A=1"], "environment"),
    (["server.py", "-e", "1=2"], "NAME=VALUE"),
    (["server.py", "--header", "x: y"], "URL"),
    (["server.py", "--revision", "1999-01-01"], "1999-01-01"),
    (["server.py", "--port", "70000"], "70000"),
    (["--open", "nowhere.jsonl"], "nowhere.jsonl"),
    (["--open", "server.py"], "is not a saved session: line 1"),
    (["--", ""], "command"),
    (["server.py", "--explore", "."], "there is no site in '.'; `mcprev explore --out .` writes one"),
    (["server.py", "--explore", "nowhere"], "there is no site in 'nowhere'"),
    (["server.py", "--explore", "https://"], "is not the URL of a site"),
    (["server.py", "--explore", "https://docs.example/explore/#x"], "is not the URL of a site"),
]


@pytest.mark.parametrize(("words", "said"), MISTAKES)
def test_a_mistake_on_the_command_line_is_told_in_one_message(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").write_text(SERVER)
    ended = CliRunner().invoke(main, ["dev", "--no-browser", *words])
    assert ended.exit_code in (1, 2)
    assert said in ended.output
    assert "Traceback" not in ended.output


def test_a_line_without_an_end_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "LINE", 1000)
    file = tmp_path / "endless.jsonl"
    with file.open("wb") as stream:
        stream.truncate(2**38)  # takes no room on the disk, and more than there is in memory
    ended = CliRunner().invoke(main, ["dev", "--no-browser", "--open", str(file)])
    assert ended.exit_code == 1
    assert "line 1: a session may have at most" in " ".join(ended.output.split())
