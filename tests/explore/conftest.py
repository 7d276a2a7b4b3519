"""The site of all revisions, built once for each process of the tests."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import mcprev_explore
from explore.page_tree import Element, read_page
from mcprev.cli import explore as command
from mcprev_codegen.inputs import schema_folder

Files = Mapping[str, str]


@pytest.fixture(scope="session")
def ladder() -> mcprev_explore.Ladder:
    """What the runtime hands to the site."""
    found = command.site_ladder(mcprev_explore)
    assert isinstance(found, mcprev_explore.Ladder)
    return found


@pytest.fixture(scope="session")
def site(ladder: mcprev_explore.Ladder) -> Files:
    """The files of the site of all pinned revisions."""
    folder = schema_folder()
    return mcprev_explore.site_files(folder, mcprev_explore.load_revisions(folder, ()), ladder)


@pytest.fixture(scope="session")
def pages(site: Files) -> Mapping[str, Element]:
    """The pages of the site, read."""
    return {name: read_page(text) for name, text in site.items() if name.endswith(".html")}
