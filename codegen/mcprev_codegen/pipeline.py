"""From `schema/` to `generated/` and `docs/`: every revision side by side, built beside, then swapped in.

Nothing is written until everything is generated, so that an error leaves the packages as they were.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from mcprev_codegen import docs_revisions, emit, sources
from mcprev_codegen.emit import Neighbours
from mcprev_codegen.errors import InputError
from mcprev_codegen.naming import module_name
from mcprev_codegen.revisions import load_pins
from mcprev_codegen.sources import Revision

PACKAGE: Final = "mcprev_types"
Report = Callable[[str, int, int], None]
"""Told the name of a finished revision, how many are finished and how many there are."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a run made, and what of it differs from what was there."""

    files: Mapping[Path, str]
    """Text by path."""
    changed: tuple[Path, ...]
    """Paths that were missing, different or are no longer made."""


@dataclass(frozen=True, slots=True)
class _Tree:
    """The files of one folder; a whole one holds nothing else."""

    target: Path
    files: Mapping[str, str]
    whole: bool


def generate(
    folder: Path,
    target: Path,
    only: Sequence[str] = (),
    *,
    schema_file: Path | None = None,
    docs: Path | None = None,
    write: bool = True,
    report: Report = lambda _name, _done, _all: None,
) -> Result:
    """Generate the pinned revisions (or `only` some of them) into the folder `target`.

    The files beside the packages are written with all of them, or when the target has none yet.
    `schema_file` takes the one revision in `only` from a file that is not pinned; `docs` is a folder for the
    pages that compare the revisions. With `write=False` nothing is written and the result says what would
    change. Raises `CodegenError`, with nothing written.
    """
    names = list(load_pins(folder))
    if schema_file is not None:
        if len(only) != 1:
            raise InputError("--schema needs exactly one revision: the name to generate the file under")
        names = [*names, *(n for n in only if n not in names)]
    if unknown := [name for name in only if name not in names]:
        raise InputError(f"no pinned revision '{unknown[0]}'; known: {', '.join(names) or 'none'}")
    wanted = [name for name in names if not only or name in only]
    if not wanted:
        raise InputError("nothing is pinned yet; run `mcprev import PATH_OR_URL --revision REV` first")
    made = dict(_packages(folder, wanted, schema_file, report))
    packages = {name: made[name] for name in wanted}
    files = {
        f"{module_name(n)}/{name}": text for n, package in packages.items() for name, text in package.items()
    }
    if not only or not (target / "index.py").is_file():
        files |= _shared(folder, packages, schema_file)
    trees = [_Tree(target, files, not only)]
    if docs is not None:
        trees.append(_Tree(docs, docs_revisions.render(folder), whole=True))
    changed = {tree.target: _changed(tree) for tree in trees}
    for tree in trees:
        if write and changed[tree.target]:
            _swap(tree)
    everything = {tree.target / name: text for tree in trees for name, text in tree.files.items()}
    return Result(everything, tuple(target / name for target, found in changed.items() for name in found))


def _shared(
    folder: Path, packages: Mapping[str, Mapping[str, str]], schema_file: Path | None
) -> dict[str, str]:
    revisions = [_load(folder, name, schema_file) for name in packages]
    final = [r for r in revisions if r.pin is not None and r.pin.status == "final"]
    latest = (final or revisions)[-1]
    return emit.shared_files(revisions, latest, packages[latest.name]["models.py"])


def _packages(
    folder: Path, names: Sequence[str], schema_file: Path | None, report: Report
) -> Iterator[tuple[str, dict[str, str]]]:
    """Every package, in processes side by side where there are several to make and cores to make them on."""
    workers = min(len(names), os.cpu_count() or 1)
    if workers == 1:
        for done, name in enumerate(names, 1):
            yield name, _package(folder, name, schema_file)
            report(name, done, len(names))
        return
    # Fresh interpreters: the caller may have threads, which a forked child would inherit half-dead.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        largest_first = sorted(names, reverse=True)
        futures = {pool.submit(_package, folder, name, schema_file): name for name in largest_first}
        for done, future in enumerate(as_completed(futures), 1):
            yield futures[future], future.result()
            report(futures[future], done, len(names))


def _package(folder: Path, name: str, schema_file: Path | None) -> dict[str, str]:
    """One revision's files; runs in a process of its own."""
    pins = load_pins(folder)
    order = list(pins)
    revision = _load(folder, name, schema_file)
    before = [n for n in order[: order.index(name) if name in order else None] if pins[n].status == "final"]
    after = [n for n in order[order.index(name) + 1 :] if pins[n].status == "final"] if name in order else []
    chain = [sources.load(folder, n) for n in before]
    following = sources.load(folder, after[0]) if after else None
    neighbours = Neighbours([*chain, revision], chain[-1] if chain else None, following)
    return emit.package_files(revision, neighbours)


def _load(folder: Path, name: str, schema_file: Path | None) -> Revision:
    if schema_file is not None:
        return sources.load_file(folder, schema_file, name)
    return sources.load(folder, name)


def _changed(tree: _Tree) -> list[str]:
    changed = [name for name, text in tree.files.items() if _read(tree.target / name) != text]
    if tree.whole and tree.target.is_dir():
        present = {str(p.relative_to(tree.target)) for p in tree.target.rglob("*") if p.is_file()}
        changed += [p for p in present - set(tree.files) if "__pycache__" not in p]
    return sorted(changed)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _swap(tree: _Tree) -> None:
    """Put the new files in the place of the old ones: each folder appears complete or not at all."""
    target = tree.target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
        fresh = Path(scratch) / "new"
        for name, text in tree.files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        if tree.whole:
            _replace(fresh, target, Path(scratch) / "old")
        else:
            target.mkdir(exist_ok=True)
            for part in sorted(fresh.iterdir()):
                _replace(part, target / part.name, Path(scratch) / f"old-{part.name}")


def _replace(fresh: Path, target: Path, aside: Path) -> None:
    if target.exists():
        target.rename(aside)
    try:
        fresh.rename(target)
    except OSError:
        if aside.exists():
            aside.rename(target)
        raise
