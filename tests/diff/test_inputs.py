"""The inputs of a comparison: `latest`, files of git, URLs; invalid ones are refused with a message of one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Final

import pytest

from diff.diffing import run
from diff.mini import BASE
from helpers.shell import git
from helpers.support import DATED, FIFTH, FOLDER, FOURTH, ROOT, http_server
from mcprev_codegen.diff import load_input
from mcprev_codegen.diff.inputs import checkout_file
from mcprev_codegen.inputs import download as fetch

CHANGED: Final = BASE.replace("label?: string", "label: string")


def refused(*arguments: str, code: int = 3) -> str:
    """The one line that an error is told in."""
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    return line


def test_latest_is_the_newest_dated_revision() -> None:
    assert run(FOURTH, "latest").stdout == run(FOURTH, DATED[-1]).stdout


def test_latest_leaves_out_a_revision_that_is_not_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    class Status:
        pending: Final = frozenset({DATED[-1]})

    def status(_folder: Path, _revisions: object) -> type[Status]:
        return Status

    monkeypatch.setattr("mcprev_codegen.checkout.decision_status", status)
    assert run("latest", FIFTH).stdout == run(DATED[-2], FIFTH).stdout


def test_rules_of_prose_are_known_by_the_name_that_a_file_gives_itself(tmp_path: Path) -> None:
    """The same text under another name has only what the schema says, as the page about differences warns."""
    text = (ROOT / "schema" / FOURTH / "schema.ts").read_text(encoding="utf-8")
    declared = f'LATEST_PROTOCOL_VERSION = "{FOURTH}"'
    assert declared in text
    file = tmp_path / "schema.ts"
    file.write_text(text, encoding="utf-8")
    assert "CreateTaskResult" not in run(FOURTH, str(file)).stdout
    file.write_text(text.replace(declared, 'LATEST_PROTOCOL_VERSION = "mine"'), encoding="utf-8")
    assert "tools/call: no longer answered with CreateTaskResult" in " ".join(
        run(FOURTH, str(file)).stdout.split()
    )


# -- git -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose first commit has the mini protocol in a folder, and whose second one changed it."""
    path = tmp_path / "api" / "schema.ts"
    path.parent.mkdir()
    git(tmp_path, "init", "-q", "-b", "main")
    for text in (BASE, CHANGED):
        path.write_text(text, encoding="utf-8")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-q", "-m", "Change")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "old", ["HEAD~1:api/schema.ts", "HEAD~1:api", "main^:api/", "HEAD~1:./api/schema.ts"]
)
@pytest.mark.parametrize("new", ["main:api/schema.ts", "api/schema.ts", "api"])
def test_git_has_a_file_or_its_folder_at_a_ref(checkout: Path, old: str, new: str) -> None:
    assert checkout.is_dir()
    done = run(old, new)
    assert "Thing.label: became required" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("side", "why"),
    [
        ("HEAD:gone.ts", "path 'gone.ts' does not exist in 'HEAD'"),
        ("nowhere:api/schema.ts", "nowhere"),
        ("HEAD:.", "'schema.ts' does not exist in 'HEAD'"),
        ("HEAD:./gone.ts", "path 'gone.ts' does not exist in 'HEAD'"),
    ],
)
def test_what_git_does_not_have_is_said_in_one_line(checkout: Path, side: str, why: str) -> None:
    assert checkout.is_dir()
    line = refused(FOURTH, side)
    assert line.startswith(side)
    assert why in line


def test_outside_a_checkout_git_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert "not a git repository" in refused(FOURTH, "HEAD:schema.ts")


def test_a_file_whose_name_looks_like_a_ref_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("HEAD:schema.ts").write_text(BASE, encoding="utf-8")
    assert load_input(FOLDER, "HEAD:schema.ts").declared.path == "HEAD:schema.ts"
    assert checkout_file("HEAD:schema.ts") == "HEAD:schema.ts"


@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("api/schema.ts", "api/schema.ts"),
        ("{here}/api/schema.ts", "api/schema.ts"),
        ("/elsewhere/schema.ts", "/elsewhere/schema.ts"),
        ("HEAD~1:api/schema.ts", "api/schema.ts"),
        ("C:\\api\\schema.ts", "C:\\api\\schema.ts"),
        ("https://example.org/schema.ts", None),
    ],
)
def test_a_tool_is_pointed_to_the_file_of_the_checkout(checkout: Path, source: str, file: str | None) -> None:
    assert checkout_file(source.replace("{here}", str(checkout))) == file


# -- URLs ----------------------------------------------------------------------------------------------------------


class Site(BaseHTTPRequestHandler):
    """Answers by the path that is asked for."""

    def do_GET(self) -> None:
        answers: dict[str, Callable[[], None]] = {
            "/2099-01-01/schema.ts": lambda: self.answer(200, CHANGED, "text/plain"),
            "/page": lambda: self.answer(200, "<html>", "text/html; charset=utf-8"),
            "/moved": lambda: self.answer(302, "", location="/2099-01-01/schema.ts"),
            "/away": lambda: self.answer(
                302, "", location=f"http://localhost:{self.port}/2099-01-01/schema.ts"
            ),
            "/inside": lambda: self.answer(302, "", location="https://10.0.0.1/schema.ts"),
            "/file": lambda: self.answer(302, "", location="file:///etc/hosts"),
            "/circle": lambda: self.answer(302, "", location="/circle"),
        }
        answers.get(self.path, lambda: self.answer(404, ""))()

    @property
    def port(self) -> int:
        return int(self.connection.getsockname()[1])

    def answer(self, status: int, text: str, kind: str = "text/plain", location: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def site() -> Iterator[str]:
    with http_server(Site) as address:
        yield address


@pytest.mark.parametrize("path", ["/2099-01-01/schema.ts", "/moved"])
def test_a_url_is_a_side(site: str, path: str, tmp_path: Path) -> None:
    old = tmp_path / "schema.ts"
    old.write_text(BASE, encoding="utf-8")
    done = run(str(old), site + path)
    assert done.stdout.startswith(f"{old} → {site}{path}: 1 breaking")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/nothing", "404"),
        ("/page", "this is a web page; pass the URL of the raw file"),
        ("/away", "a private address"),
        ("/inside", "a private address"),
        ("/file", "cannot be fetched"),
        ("/circle", "cannot be fetched"),
    ],
)
def test_a_url_that_brings_no_schema_is_said_in_one_line(site: str, path: str, why: str) -> None:
    line = refused(FOURTH, site + path)
    assert line.startswith(site + path)
    assert why in line


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://192.0.2.1/schema.ts", "pass an https URL"),
        ("ftp://example.org/schema.ts", "pass an https URL"),
        ("https:///schema.ts", "pass an https URL"),
        ("https://[::1/schema.ts", "invalid URL"),
        ("file:///etc/hosts", "pass an https URL"),
    ],
)
def test_only_https_is_fetched_from_elsewhere(url: str, why: str) -> None:
    assert why in refused(FOURTH, url)


def test_a_body_is_bounded_in_size(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "LIMIT", len(CHANGED) - 1)
    assert "larger than" in refused(FOURTH, f"{site}/2099-01-01/schema.ts")
