"""The site of `mcprev explore` beside the page: only its files are served, and as documents of another origin (SEC-6)."""

from __future__ import annotations

from pathlib import Path

import pytest

import mcprev
from dev.inspected import in_memory, opened
from helpers.running import run
from mcprev.dev.explore_site import POLICY, ExploreSite


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    (site / "type").mkdir(parents=True)
    (site / "index.html").write_text("<p>start</p>")
    (site / "site.js").write_text("'use strict';")
    (site / "notes.txt").write_text("mine")
    (site / ".secret.html").write_text("hidden")
    (site / "type" / "Tool.html").write_text("<p>Tool</p>")
    (tmp_path / "outside.html").write_text("outside")
    (site / "type" / "link.html").symlink_to(tmp_path / "outside.html")
    return site


def empty() -> mcprev.App:
    return mcprev.App("empty", "1.0")


SERVED = [
    ("/explore/", "text/html; charset=utf-8", "<p>start</p>"),
    ("/explore/index.html", "text/html; charset=utf-8", "<p>start</p>"),
    ("/explore/site.js", "text/javascript; charset=utf-8", "'use strict';"),
    ("/explore/type/Tool.html", "text/html; charset=utf-8", "<p>Tool</p>"),
]
NOT_SERVED = [
    "/explore/notes.txt", "/explore/.secret.html", "/explore/type/link.html", "/explore/type/None.html", "/explore/type",
    "/explore/%2e%2e/outside.html", "/explore/..%2foutside.html", "/explore//outside.html", "/explore/type/a/b.html", "/explore",
]  # fmt: skip


def test_its_files_are_served_as_documents_of_another_origin(folder: Path) -> None:
    async def scenario() -> None:
        async with opened(in_memory(empty()), explore=ExploreSite(str(folder))) as page:
            for path, kind, text in SERVED:
                async with page.session.get(f"{page.url}{path}") as response:
                    assert (response.status, response.headers["Content-Type"]) == (200, kind), path
                    assert await response.text() == text
                    told = response.headers
                    assert told["Content-Security-Policy"] == POLICY.decode()
                    assert "allow-same-origin" not in told["Content-Security-Policy"]
                    assert told["X-Content-Type-Options"] == "nosniff"
            async with page.session.head(f"{page.url}/explore/") as response:
                assert (response.status, await response.text()) == (200, "")
            async with page.session.post(f"{page.url}/explore/") as response:
                assert response.status == 405
            async with page.session.get(
                f"{page.url}/explore/", headers={"Host": "rebound.example"}
            ) as response:
                assert response.status == 403

    run(scenario())


def test_no_other_file_is_served(folder: Path) -> None:
    async def scenario() -> None:
        async with opened(in_memory(empty()), explore=ExploreSite(str(folder))) as page:
            for path in NOT_SERVED:
                async with page.session.get(f"{page.url}{path}") as response:
                    assert response.status == 404, path

    run(scenario())


@pytest.mark.parametrize("explore", [None, ExploreSite("https://docs.example/explore/")])
def test_without_a_folder_nothing_is_served_and_the_page_is_told_where_the_site_is(
    explore: ExploreSite | None,
) -> None:
    async def scenario() -> None:
        async with opened(in_memory(empty()), explore=explore) as page:
            async with page.session.get(f"{page.url}/explore/") as response:
                assert response.status == 404
            hello = await page.until("hello", lambda _: True)
            assert hello["explore"] == (None if explore is None else "https://docs.example/explore")

    run(scenario())
