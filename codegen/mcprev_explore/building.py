"""Builds the site: loads revisions, renders all pages, and writes them together or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mcprev_codegen.diff import UnknownRevisionError, load_input
from mcprev_codegen.errors import InputError
from mcprev_codegen.facts import Revision, load_pinned
from mcprev_codegen.inputs import SchemaFolder
from mcprev_codegen.output_folder import Tree, apply_plans, planned_changes
from mcprev_explore.book import Book, columns_of
from mcprev_explore.ladder import Ladder
from mcprev_explore.pages import MARK, Site


@dataclass(frozen=True, slots=True)
class Built:
    """What a run wrote, or would write."""

    files: int
    size: int
    """The bytes of all files."""
    written: tuple[str, ...]
    deleted: tuple[str, ...]
    foreign: tuple[str, ...]
    """Files in the folder that are not of the site; they are kept."""
    warnings: tuple[str, ...]


def load_revisions(folder: SchemaFolder, schemas: Sequence[str]) -> list[tuple[Revision, str]]:
    """Return the revisions of the site with their sources: the given ones in their order, else all pinned ones.

    Each is a pinned revision or a schema.ts, as `mcprev diff` takes them. Raises `CodegenError`.
    """
    if not schemas:
        return [(r, f"schema/{name}/schema.ts") for name, r in load_pinned(folder).items()]
    found: list[tuple[Revision, str]] = []
    for name in dict.fromkeys(schemas):
        try:
            revision = load_input(folder, name)
        except UnknownRevisionError as error:
            raise InputError(str(error)) from None
        source = f"schema/{revision.name}/schema.ts" if revision.pin else revision.declared.path
        found.append((revision, source))
    return found


def site_files(
    folder: SchemaFolder, revisions: Sequence[tuple[Revision, str]], ladder: Ladder
) -> dict[str, str]:
    """Return every file of the site by its path; the same input gives the same files."""
    return Site(Book(folder, columns_of(revisions), ladder)).files()


def build_site(
    folder: SchemaFolder, schemas: Sequence[str], out: Path, ladder: Ladder, *, write: bool
) -> Built:
    """Build the site into a folder that is empty or has one. Raises `CodegenError`, with nothing written."""
    place = Tree(
        out, {}, whole=True, is_generated=_is_page, known_by=("index.html",), command="mcprev explore"
    )
    planned_changes(place)  # refuses a folder before the pages are made, which takes long
    revisions = load_revisions(folder, schemas)
    files = site_files(folder, revisions, ladder)
    plan = planned_changes(
        Tree(
            out, files, whole=True, is_generated=_is_page, known_by=("index.html",), command="mcprev explore"
        )
    )
    if write:
        apply_plans([plan])
    warnings = tuple(warning for revision, _ in revisions for warning in revision.warnings)
    size = sum(len(text.encode()) for text in files.values())
    return Built(len(files), size, plan.written, plan.deleted, plan.foreign, warnings)


def _is_page(name: str, head: str) -> bool:
    """Return whether a file is one of a site, by its path and the start of its text."""
    return name.endswith((".html", ".css", ".js")) and MARK in head
