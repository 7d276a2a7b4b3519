"""The site of docs/ as it is built: links, anchors, searching without a server, widths, and the accessibility checker of npm.

Without Zensical (`make docs` installs it) the tests are skipped; `MCPREV_SITE` names a site that is built already.
"""

from __future__ import annotations

import importlib.util
import os
import posixpath
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Final, cast
from urllib.parse import unquote, urlsplit

import pytest
from typing_extensions import override

from browser.conftest import WANTED, Open
from helpers.support import ROOT

BUILT: Final = os.environ.get("MCPREV_SITE")
HOSTS: Final = {"github.com", "modelcontextprotocol.io", "pypi.org", "zensical.org"}
"""What pages may link to. The repository's own pages are links of github.com, so that they work in the site and in a clone."""
PLATFORMS: Final = {
    "cloud.google.com", "developers.cloudflare.com", "devcenter.heroku.com", "docs.aws.amazon.com", "docs.horizon.prefect.io",
    "docs.railway.com", "fly.io", "learn.microsoft.com", "render.com", "tailscale.com",
}  # fmt: skip
"""What the page about hosting links to as well: the documentation of the platforms that it is about."""
AXE_RUN: Final = (
    "axe.run({preload: false}).then(found => found.violations.map(each => `${each.id}: ${each.nodes.map(node => node.html)}`))"
)

pytestmark = pytest.mark.skipif(not (WANTED or BUILT), reason="make browser and make docs run it")
in_chromium = pytest.mark.skipif(not WANTED, reason="make browser runs it")


class Parsed(HTMLParser):
    """The links of a page, what else it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := found.get(name))}
        if tag == "a" and (href := found.get("href")):
            self.links.append(href)
        if tag in {"script", "img", "iframe", "source"} and (source := found.get("src")):
            self.loads.append(source)
        if tag == "link" and (href := found.get("href")) and found.get("rel") != "canonical":
            self.loads.append(href)


@pytest.fixture(scope="module")
def site() -> Path:
    """The folder of the built site."""
    folder = ROOT / "build" / "site"
    if not BUILT:
        if importlib.util.find_spec("zensical") is None:
            pytest.skip("zensical is not installed: make docs")
        done = subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--clean", "--strict"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": "docs/.site"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        subprocess.run([sys.executable, "docs/.site/page_texts.py", str(folder)], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Parsed]:
    """The pages of the site by their paths; 404.html is for a server only, its links begin at the root of it."""
    found = {path.relative_to(site).as_posix(): path for path in site.rglob("*.html")}
    return {
        name: Parsed(path.read_text(encoding="utf-8")) for name, path in found.items() if name != "404.html"
    }


def test_every_page_of_the_docs_is_in_the_site(pages: dict[str, Parsed]) -> None:
    docs = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert set(pages) == {
        (path.with_name("index.html") if path.name == "README.html" else path).as_posix() for path in docs
    }


def test_nothing_that_builds_the_site_is_in_it(site: Path) -> None:
    assert [path.name for path in site.rglob("*.py*")] == []


def test_every_link_and_anchor_leads_somewhere(site: Path, pages: dict[str, Parsed]) -> None:
    dead: list[str] = []
    for name, page in pages.items():
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path)))
            path = name if not parts.path else "index.html" if path == "." else path
            if not (site / path).is_file():
                dead.append(f"{name}: {link}")
            elif parts.fragment and path in pages and unquote(parts.fragment) not in pages[path].anchors:
                dead.append(f"{name}: {link} (anchor)")
    assert dead == []


def test_every_page_has_a_title_and_a_description_of_its_own(site: Path, pages: dict[str, Parsed]) -> None:
    for pattern in (r"<title>(.+?)</title>", r'<meta name="description" content="(.+?)">'):
        found = [re.findall(pattern, (site / name).read_text(encoding="utf-8")) for name in pages]
        assert all(len(each) == 1 for each in found)
        assert len({each[0] for each in found}) == len(pages)


def test_what_llms_txt_names_is_in_the_site(site: Path) -> None:
    named = re.findall(r"\]\((\S+?)\): ", (site / "llms.txt").read_text(encoding="utf-8"))
    assert len(named) > len([*(ROOT / "docs").glob("*.md")])
    assert [path for path in named if not (site / path).is_file()] == []
    assert (site / "llms-full.txt").stat().st_size > 300_000


def test_pages_link_to_few_hosts_and_load_nothing_from_them(pages: dict[str, Parsed]) -> None:
    linked = {name: {urlsplit(link).netloc for link in page.links} - {""} for name, page in pages.items()}
    assert {host for name, hosts in linked.items() if name != "hosting.html" for host in hosts} <= HOSTS
    assert linked["hosting.html"] - HOSTS == PLATFORMS
    assert {load for page in pages.values() for load in page.loads if urlsplit(load).netloc} == set()


def test_a_link_to_the_repository_names_a_file_that_is_there(pages: dict[str, Parsed]) -> None:
    prefix = "https://github.com/mcprev/mcprev/"
    linked = {
        link.removeprefix(prefix) for page in pages.values() for link in page.links if link.startswith(prefix)
    }
    paths = {
        path
        for kind, _, path in (each.partition("/main/") for each in linked)
        if kind in {"tree", "blob", "edit"}
    }
    assert paths
    assert [path for path in sorted(paths) if not (ROOT / unquote(path)).exists()] == []


@in_chromium
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_ask_nobody_and_are_accessible(
    site: Path, pages: dict[str, Parsed], open_page: Open, axe: Path, width: int
) -> None:
    wrong: list[str] = []
    page = open_page((site / "index.html").as_uri(), width=width, wait=False)
    for name in sorted(pages):
        page.goto((site / name).as_uri())
        page.wait_for_function("() => document.querySelectorAll('.md-content').length === 1")
        if page.evaluate("document.documentElement.scrollWidth") > width:
            wrong.append(f"{name} is wider than {width} px")
        page.evaluate(axe.read_text(encoding="utf-8"))
        wrong += [f"{name}: {each[:500]}" for each in cast("list[str]", page.evaluate(AXE_RUN))]
    assert wrong == []


@in_chromium
def test_searching_works_in_a_page_that_was_opened_as_a_file(site: Path, open_page: Open) -> None:
    page = open_page(
        (site / "reference" / "app.html").as_uri(), wait=False, quiet=False
    )  # Chromium tells of the anchor
    page.locator(".md-search__button").click()
    page.wait_for_function("() => document.querySelector('iframe')?.contentWindow.onmessage")
    field = page.get_by_role("combobox", name="Search")
    field.press_sequentially("rolling", delay=20)
    page.get_by_role("option", name="Change the version of a program").wait_for()
    assert field.input_value() == "rolling", "what is typed stays"
    field.press_sequentially(" restart", delay=20)
    assert field.input_value() == "rolling restart"
    page.get_by_role("option", name="Change the version of a program").click()
    page.wait_for_url("**/scaling.html*#change-the-version-of-a-program")


@pytest.mark.parametrize(
    ("page", "written", "leads_to"),
    [
        ("servers", "mcprev.ToolError", "errors.html#mcprev.ToolError"),
        ("servers", "App", "app.html#mcprev.App"),
        ("stores", "StoreError", "errors.html#mcprev.StoreError"),
        ("tools", "App.from_folder", "app.html#mcprev.App.from_folder"),
        ("auth", "Provider.keycloak(id, secret, url=..., realm=...)", "tokens.html#mcprev.Provider.keycloak"),
    ],
)
def test_public_names_in_guides_lead_to_the_reference(
    site: Path, page: str, written: str, leads_to: str
) -> None:
    text = (site / f"{page}.html").read_text(encoding="utf-8")
    links = re.findall(
        rf'<a [^>]*href="reference/{re.escape(leads_to)}"[^>]*><code>{re.escape(written)}</code>', text
    )
    assert links
    assert all("autorefs" in link for link in links)


@pytest.mark.parametrize(
    ("page", "written"), [("porting", "Middleware"), ("typescript", "Record"), ("packages", "ServerHandler")]
)
def test_a_name_that_means_something_else_in_a_guide_is_no_link(site: Path, page: str, written: str) -> None:
    text = (site / f"{page}.html").read_text(encoding="utf-8")
    assert f"<code>{written}</code>" in text
    assert re.findall(rf"<a [^>]*><code>{written}</code>", text) == []
