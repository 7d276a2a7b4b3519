"""Published servers, and one server of each release of the official SDKs, used from the page of `mcprev dev` alone.

    PYTHONPATH=tests python -m interop.used [--only NAME] [--table FILE]

Chromium does what a user does: it fills in the forms, calls every tool, answers what the server asks, reads every list,
follows updates, and makes one call at every revision. What it typed is in used.toml; what the page showed is the table, which is
made of what was seen last of each server: with --only, one is used again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from playwright.sync_api import Error, sync_playwright

from browser.conftest import ARGUMENTS, CHROMIUM
from browser.test_dev_page import dev
from interop.peers import INTEROP, MCP, NODE, PEERS, Peer
from interop.visit import FEATURES, Seen, Visit
from mcprev.revisions import DEFAULT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SDK: Final = "sdk"
PUBLISHED: Final = (
    ("everything", "2026.8.31"),
    ("sequential-thinking", "2026.8.31"),
    ("time", "2026.10.19"),
    ("git", "2026.10.19"),
    ("fetch", "2026.10.24"),
)
"""The official servers of npm and PyPI, at the releases of the Makefile."""


@dataclass(frozen=True)
class Server:
    """A server, how it is started, and what is typed into its forms."""

    title: str
    command: tuple[str, ...]
    typed: Mapping[str, Any] = field(default_factory=dict[str, Any])


def servers() -> list[Server]:
    """All that are installed: the published ones first."""
    typed = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    found: list[Server] = []
    for name, release in PUBLISHED:
        place = INTEROP / f"{name}-{release}"
        how = typed[name]
        program: tuple[str, ...] = (str(place / "bin" / how.get("program", "")),)
        if "package" in how:
            program = (str(NODE), str(place / "node_modules" / "@modelcontextprotocol" / how["package"]))
        if (place / ".ready").exists():
            found.append(Server(f"{name} {release}", (*program, *how.get("options", ())), how))
    return found + [
        Server(
            f"{'Python' if peer.name == MCP else 'TypeScript'} SDK {peer.release}",
            peer.script("server"),
            typed[SDK],
        )
        for peer in PEERS
        if peer.transport == "stdio" and peer.mode == "auto" and _installed(peer)
    ]


def _installed(peer: Peer) -> bool:
    return (peer.folder / ".ready").exists()


# -- what servers look at ----------------------------------------------------------------------------------------


@contextmanager
def surroundings() -> Iterator[dict[str, str]]:
    """A repository with a change in it, and a web page."""
    with tempfile.TemporaryDirectory() as folder:
        repository, web = Path(folder) / "repository", Path(folder) / "web"
        repository.mkdir()
        web.mkdir()
        (web / "page.html").write_text("<title>Tea</title><p>Tea is <b>hot</b>.</p>", encoding="utf-8")
        handler = partial(Quiet, directory=str(web))
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            git = ("git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@example.com")
            (repository / "a.txt").write_text("a\n", encoding="utf-8")
            for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "Begin")):
                subprocess.run([*git, *words], check=True)
            for name in ("user.name", "user.email"):
                subprocess.run([*git, "config", name, "a"], check=True)
            (repository / "a.txt").write_text("b\n", encoding="utf-8")
            yield {"repo": str(repository), "web": f"http://127.0.0.1:{server.server_address[1]}"}
            server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and prints nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


def placed(value: Any, places: Mapping[str, str]) -> Any:
    """A value with the names in braces replaced."""
    if isinstance(value, str):
        for name, place in places.items():
            value = value.replace(f"{{{name}}}", place)
        return value
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: placed(each, places) for name, each in members.items()}
    if isinstance(value, list):
        return [placed(each, places) for each in cast("tuple[Any, ...]", value)]
    return value


# -- the run -----------------------------------------------------------------------------------------------------


def use(browser: Browser, server: Server) -> Seen:
    """Use one server from a page of its own."""
    seen = Seen()
    with surroundings() as places, dev("-e", "NO_PROXY=127.0.0.1", "--", *server.command) as url:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        try:
            Visit(page, placed(server.typed, places), seen).all(url)
        except (Error, AssertionError) as error:
            seen.notes.append(f"the visit ended: {' '.join(str(error).split())[:300]}")
        finally:
            page.close()
    return seen


def table(found: Mapping[str, Seen]) -> str:
    """The tables of docs: what was used of each server, one call at each revision, and what failed."""
    lines = [
        f"| server | speaks | {' | '.join(FEATURES)} |",
        "|---" * (2 + len(FEATURES)) + "|",
        *(
            f"| {title} | {seen.revision} | {' | '.join(seen.cells.get(name, '') for name in FEATURES)} |"
            for title, seen in found.items()
        ),
        "",
        "One call at each revision, with *every revision* beside its button:",
        "",
        f"| server | tool | {' | '.join(row.name for row in DEFAULT)} |",
        "|---" * (2 + len(DEFAULT)) + "|",
        *(
            f"| {title} | `{seen.called}` | {' | '.join(seen.at.get(row.name, '') for row in DEFAULT)} |"
            for title, seen in found.items()
        ),
        "",
    ]
    notes = [f"- {title}: {note}" for title, seen in found.items() for note in seen.notes]
    return "\n".join([*lines, "What failed, as the page showed it:", "", *notes]) + "\n"


def kept(server: Server) -> Path:
    """Where it is kept what was seen of a server."""
    return INTEROP / "used" / f"{server.title.replace(' ', '-')}.json"


def main(only: str | None, file: Path | None) -> int:
    """Use every server, or one."""
    (INTEROP / "used").mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, headless=True)
        for server in servers():
            if only is None or only in server.title:
                seen = use(browser, server)
                kept(server).write_text(json.dumps(asdict(seen)), encoding="utf-8")
                print(server.title, seen, file=sys.stderr)  # noqa: T201
        browser.close()
    found = {
        server.title: Seen(**json.loads(kept(server).read_text(encoding="utf-8")))
        for server in servers()
        if kept(server).exists()
    }
    print(table(found))  # noqa: T201
    if file is not None:
        begin, end = "<!-- used: begin -->\n", "<!-- used: end -->"
        text = file.read_text(encoding="utf-8")
        head, _, rest = text.partition(begin)
        file.write_text(f"{head}{begin}{table(found)}{end}{rest.partition(end)[2]}", encoding="utf-8")
    return 0 if not any(seen.wrong for seen in found.values()) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Use published servers from the page of mcprev dev.")
    parser.add_argument("--only", metavar="NAME")
    parser.add_argument(
        "--table", type=Path, metavar="FILE", help="write the table between its marks in this page"
    )
    options = parser.parse_args()
    sys.exit(main(options.only, options.table))
