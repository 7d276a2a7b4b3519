"""Generates `generated/` and `docs/revisions/` from `schema/`, revisions in parallel; `output_folder` writes the files.

Files are written only after everything was generated, so that an error leaves the packages unchanged.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from mcprev_codegen.build.pages import PAGES_KNOWN_BY, comparison_pages, is_page
from mcprev_codegen.checkout import Decision, decision_status, missing_steps
from mcprev_codegen.emit import TARGETS, RevisionChain, project_file, with_chosen_names
from mcprev_codegen.errors import InputError
from mcprev_codegen.facts import Revision, dated, load_custom, load_pinned, load_versions
from mcprev_codegen.inputs import (
    SchemaFolder,
    extension_versions,
    is_dated,
    joined_name,
    load_pins,
    refuse_link,
    resolved,
    write_new,
)
from mcprev_codegen.output_folder import Tree, apply_plans, planned_changes
from mcprev_codegen.python import is_identifier

PACKAGE: Final = "mcprev_types"
_IMPORTED: Final = sys.stdlib_module_names | {"msgspec", "pydantic", "pydantic_core", "typing_extensions"}
"""Packages that generated modules, or what they import, would no longer find."""
DEFAULT_TARGET: Final = "pydantic"
ReportProgress = Callable[[str, int, int], None]
"""Called with the name of a finished revision, the number of finished revisions and the total."""


@dataclass(frozen=True, slots=True)
class Result:
    """The files of a run, and how they differ from the files on disk."""

    files: Mapping[Path, str]
    """Text by path."""
    written: tuple[Path, ...]
    """Paths that were missing or different."""
    deleted: tuple[Path, ...]
    """Generated files that are obsolete."""
    foreign: tuple[Path, ...]
    """Files in generated folders that are not generated; they are kept."""
    decisions: tuple[Decision, ...]
    """The open decisions."""
    warnings: tuple[str, ...] = ()
    """Parts of a file that were ignored, each with its place."""

    @property
    def changed(self) -> tuple[Path, ...]:
        """The paths whose content changed."""
        return (*self.written, *self.deleted)


def generate(
    folder: SchemaFolder,
    out: Path,
    only: Sequence[str] = (),
    *,
    target: str = DEFAULT_TARGET,
    custom: Revision | None = None,
    docs: Path | None = None,
    write: bool = True,
    report: ReportProgress = lambda _name, _done, _all: None,
) -> Result:
    """Generate the pinned revisions (or `only` some of them) into the package folder `out`, for one of `TARGETS`.

    The files next to the packages are written unless `only` is given and the folder has an index. `custom` is a file
    that is not pinned, to generate instead. `docs` is the folder of the pages that compare revisions; if it is given,
    the skeleton of a missing step module is written too. With `write=False` nothing is written, and the result lists
    the changes. Raises `CodegenError`, with nothing written.
    """
    ours = resolved(folder.path.parent / "generated")
    if target != DEFAULT_TARGET and resolved(out).is_relative_to(ours):
        raise InputError(
            f"{out}: this folder is for the packages of target {DEFAULT_TARGET}; pass another one"
        )
    kind = TARGETS[target]
    wanted = [custom.name] if custom else _pinned_names(folder, only, extensions=kind.extensions is not None)
    pinned = load_pinned(folder)
    versions = {} if custom or kind.extensions is None else load_versions(folder)
    status = decision_status(folder, pinned, versions)
    custom = custom and with_chosen_names(custom, kind.reserved)
    if not (out / "index.py").is_file():
        wanted = _with_bases(wanted, pinned, versions)
    complete = [name for name in dated(folder) if name not in status.pending]
    job = _Job(target, custom, pinned, versions, complete)
    purpose = f" for the target {target}"
    place = Tree(
        out, {}, whole=False, is_generated=kind.is_generated, known_by=kind.known_by, purpose=purpose
    )
    planned_changes(place)  # refuses a folder before the packages are made, which takes long
    plans = [planned_changes(_tree(job, place, wanted, status.pending, report, whole=not only))]
    skeletons: dict[Path, str] = {}
    if docs is not None:
        pages = comparison_pages(folder, [pinned[name] for name in dated(folder)], [*versions.values()])
        plans.append(
            planned_changes(Tree(docs, pages, whole=True, is_generated=is_page, known_by=PAGES_KNOWN_BY))
        )
        skeletons = missing_steps(folder, pinned, status.pending)
    if write:
        apply_plans(plans)
        for path, text in skeletons.items():
            write_new(path, text)
    if skeletons and write:
        status = decision_status(folder, pinned, versions)
    return Result(
        {p.tree.target / name: text for p in plans for name, text in p.tree.files.items()} | skeletons,
        (*(p.tree.target / name for p in plans for name in p.written), *skeletons),
        tuple(p.tree.target / name for p in plans for name in p.deleted),
        tuple(p.tree.target / name for p in plans for name in p.foreign),
        () if custom else status.decisions,
        (*custom.warnings, *kind.doubts(custom)) if custom else (),
    )


def _with_bases(
    wanted: list[str], pinned: Mapping[str, Revision], versions: Mapping[str, Revision]
) -> list[str]:
    """Return names with the revisions before them that versions of extensions among them are based on."""
    bases = {one.negotiated_as for label, one in versions.items() if label in wanted}
    return [*(name for name in pinned if name in bases and name not in wanted), *wanted]


def _pinned_names(folder: SchemaFolder, only: Sequence[str], *, extensions: bool) -> list[str]:
    """Return the names of the revisions to generate: `only` some, or all, and those of the versions of extensions.

    Raises `InputError` if one is not pinned.
    """
    names = list(load_pins(folder))
    if extensions:
        names += [joined_name(e.name, version) for e, pins in extension_versions(folder) for version in pins]
    if unknown := [name for name in only if name not in names]:
        raise InputError(f"revision '{unknown[0]}' is not pinned; pinned are {', '.join(names) or 'none'}")
    if not names:
        raise InputError("no revision is pinned; run `mcprev import PATH_OR_URL --revision REV` first")
    return [name for name in names if not only or name in only]


def generate_project(
    folder: SchemaFolder,
    schema_file: Path,
    out: Path,
    name: str | None = None,
    *,
    like: str | None = None,
    overlay: bool = True,
    names: Path | None = None,
    roots: Sequence[str] = (),
    strict: bool = False,
    open_unions: bool = False,
    target: str = DEFAULT_TARGET,
    write: bool = True,
) -> Result:
    """Generate an installable package from a schema.ts that is not pinned into the folder `out`.

    The package has the name of the folder. `pyproject.toml` is written unless it exists. Other files in the folder are
    not changed, so that it can be a project with files of its own. `name`, `like`, `overlay`, `names`, `roots`,
    `strict` and `open_unions` are those of `facts.load_custom`. Raises as `generate` does.
    """
    distribution = resolved(out).name
    package = re.sub(r"[-.]+", "_", distribution)
    if not (package.isascii() and is_identifier(package)) or package in _IMPORTED:
        raise InputError(
            f"{out}: the package is named after this folder, but '{package}' is not a valid package name, "
            "or that of a package that its modules import"
        )
    custom = load_custom(folder, schema_file, name, like, overlay=overlay, names=names, roots=roots, strict=strict, open_unions=open_unions)
    project = out / "pyproject.toml"
    refuse_link(project)
    result = generate(folder, out / package, target=target, custom=custom, write=write)
    if project.exists():
        if package in project.read_text(encoding="utf-8", errors="replace"):
            return result
        warning = f"{project}: kept; it does not name the package '{package}', so add it there"
        return replace(result, warnings=(*result.warnings, warning))
    text = project_file(distribution, package, custom, TARGETS[target].dependencies)
    if write:
        write_new(project, text)
    return replace(result, files={**result.files, project: text}, written=(*result.written, project))


@dataclass(frozen=True, slots=True)
class _Job:
    """The inputs of every package of a run; sent to the worker processes."""

    target: str
    custom: Revision | None
    pinned: Mapping[str, Revision]
    """Oldest first."""
    versions: Mapping[str, Revision]
    """The versions of extensions by label, those of one oldest first."""
    complete: Sequence[str]
    """The dated revisions that are not pending, oldest first; their packages are neighbours of each other."""

    def revision(self, name: str) -> Revision:
        """Return the revision that is not pinned if there is one, else a pinned one, or a version of an extension."""
        return self.custom or self.pinned.get(name) or self.versions[name]


def _tree(
    job: _Job,
    place: Tree,
    names: Sequence[str],
    pending: Collection[str],
    report: ReportProgress,
    *,
    whole: bool,
) -> Tree:
    """Return a folder with its files; those beside the packages only if they are `whole` or have no index yet."""
    made = dict(_packages(job, names, report))
    files = {path: text for name in names for path, text in made[name].items()}
    if whole or not (place.target / "index.py").is_file():
        revisions = [job.revision(name) for name in names if name not in job.versions]
        latest = ([r for r in revisions if r.name in job.complete and r.pin is not None] or revisions)[-1]
        files |= TARGETS[job.target].shared(revisions, pending, latest, place.target.name)
        versions = [job.versions[name] for name in names if name in job.versions]
        if (beside := TARGETS[job.target].extensions) is not None and versions:
            files |= beside(versions)
    return replace(place, files=files, whole=whole)


def _packages(
    job: _Job, names: Sequence[str], report: ReportProgress
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield every package; in worker processes if there are several packages and cores."""
    workers = min(len(names), os.cpu_count() or 1)
    if workers == 1:
        for done, name in enumerate(names, 1):
            yield name, _package(job, name)
            report(name, done, len(names))
        return
    # A forked worker would inherit locks that other threads of the caller hold.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        largest_first = sorted(names, reverse=True)
        futures = {pool.submit(_package, job, name): name for name in largest_first}
        for done, future in enumerate(as_completed(futures), 1):
            yield futures[future], future.result()
            report(futures[future], done, len(names))


def _package(job: _Job, name: str) -> Mapping[str, str]:
    """Return the files of one revision; runs in a worker process."""
    revision, files = job.revision(name), TARGETS[job.target].files
    if revision.pin is None and revision.like is None:
        return files(revision, RevisionChain([revision], None, ()))
    if revision.extension is not None:
        return files(revision, _versions_around(job, revision))
    order = list(job.pinned)
    place = order.index(revision.negotiated_as)
    chain = [job.pinned[n] for n in order[:place] if n in job.complete]
    later = [job.pinned[n] for n in order[place + 1 :] if n in job.complete]
    neighbours = RevisionChain([*chain, revision], chain[-1] if chain else None, later)
    return files(revision, neighbours)


def _versions_around(job: _Job, version: Revision) -> RevisionChain:
    """Return the versions of an extension before and after one; a draft comes after all that are final."""
    own = [one for one in job.versions.values() if one.extension == version.extension]
    place = own.index(version)
    before = [one for one in own[:place] if is_dated(one.name)]
    later = [one for one in own[place + 1 :] if is_dated(one.name)]
    return RevisionChain([*before, version], before[-1] if before else None, later)
