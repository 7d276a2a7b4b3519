"""The browser is started without the token among its arguments, which all users of a machine can read (SEC-3)."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dev.test_command import asked
from mcprev.dev.opening import BrowserPage

BROWSER = """\
import json, os, pathlib, stat, sys, urllib.parse, urllib.request
place = urllib.request.url2pathname(urllib.parse.urlsplit(sys.argv[1]).path)
found = [sys.argv, place, stat.S_IMODE(os.stat(place).st_mode), pathlib.Path(place).read_text()]
with open(os.environ["OPENED"], "w") as pipe:
    pipe.write(json.dumps(found))
"""


@contextmanager
def command(folder: Path) -> Iterator[tuple[str, str, list[str], Path]]:
    """Run `mcprev dev`; yield its URL, its token, the words that the browser was started with, and the file among them."""
    browser, pipe = folder / "browser.py", folder / "opened"
    browser.write_text(BROWSER)
    os.mkfifo(pipe)
    session = folder / "session.jsonl"
    session.write_text(
        '{"direction": "client_to_server", "message": {"jsonrpc": "2.0", "id": 1, "method": "ping"}}\n'
    )
    (temporary := folder / "temporary").mkdir()
    env = {
        **os.environ,
        "BROWSER": f"{sys.executable} {browser} %s",
        "OPENED": str(pipe),
        "TMPDIR": str(temporary),
    }
    words = [sys.executable, "-m", "mcprev", "dev", "--open", str(session)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            url, _, token = process.stdout.readline().split()[-1].partition("/#token=")
            argv, place, mode, text = json.loads(pipe.read_text())
            file = Path(place)
            assert (mode, file.parent) == (stat.S_IRUSR | stat.S_IWUSR, temporary)
            assert re.findall(r'url=([^"]+)"', text) == [f"{url}/#token={token}"]
            yield url, token, argv, file
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
    assert process.returncode == 0
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform == "win32", reason="there a user cannot read the arguments of another's processes"
)
def test_no_argument_of_the_browser_has_the_token_and_its_file_goes_when_the_page_is_there(
    tmp_path: Path,
) -> None:
    with command(tmp_path) as (url, token, argv, file):
        assert len(token) == 43
        assert token not in " ".join(argv)
        assert asked(f"{url}/")
        assert file.exists()  # the browser may still have to read it
        assert asked(f"{url}/api/state", token)
        assert not file.exists()


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform == "win32", reason="there a user cannot read the arguments of another's processes"
)
def test_the_file_goes_with_the_command_if_no_page_came(tmp_path: Path) -> None:
    with command(tmp_path) as (_, _, _, file):
        assert file.exists()
    assert not file.exists()


def test_without_a_place_for_the_file_no_browser_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr("webbrowser.open", started.append)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    page = BrowserPage()
    page.open("http://127.0.0.1:1/#token=secret")
    page.remove()
    assert started == []
