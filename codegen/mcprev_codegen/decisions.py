"""What a person has to decide before a revision is complete, each with the file to write it in.

A dated revision is *pending* until it has a row and a step module in which nothing is undecided: packages are
generated for it, but `latest` and the deltas of the others stay where they are, and the runtime does not offer it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mcprev_codegen import steps
from mcprev_codegen.sources import Revision
from mcprev_codegen.steps import Runtime


@dataclass(frozen=True, slots=True)
class Decision:
    """One open question."""

    revision: str
    path: Path
    """The file to write the answer in."""
    line: int | None
    what: str
    blocks: bool = True
    """Whether the revision is pending until it is answered."""

    def __str__(self) -> str:
        where = os.path.relpath(self.path) + (f":{self.line}" if self.line else "")
        return f"{self.revision}  {where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Status:
    """What is open in a schema folder."""

    decisions: tuple[Decision, ...]

    @property
    def pending(self) -> frozenset[str]:
        """The dated revisions that are not complete."""
        return frozenset(d.revision for d in self.decisions if d.blocks)


def status(folder: Path, revisions: Mapping[str, Revision]) -> Status:
    """Everything that is open, by revision, oldest first; `revisions` are all that are pinned."""
    runtime = steps.runtime_of(folder)
    if runtime is None:
        return Status(())
    found: list[Decision] = []
    complete: Revision | None = None
    for revision in _dated(revisions):
        mine = list(_missing(runtime, complete, revision))
        found += mine
        complete = complete if mine else revision
    return Status((*found, *_left_over(runtime, revisions)))


def _dated(revisions: Mapping[str, Revision]) -> list[Revision]:
    return [r for r in revisions.values() if r.pin is not None and r.pin.status == "final"]


def _missing(runtime: Runtime, before: Revision | None, revision: Revision) -> Iterator[Decision]:
    name = revision.name
    if name not in runtime.rows():
        like = f"replace(<row of {before.name}>, name={name!r}, ...)" if before else "Revision(...)"
        yield Decision(
            name, runtime.table, None, f"add the row of the revision, {like}, and list it in _ROWS"
        )
    if before is None:
        return
    step = runtime.step(name)
    if not step.is_file():
        yield Decision(name, step, None, "the step module is missing: `mcprev generate` writes its skeleton")
        return
    for line, member, text in runtime.undecided(name):
        yield Decision(name, step, line, f"{member}: {text}")


def _left_over(runtime: Runtime, revisions: Mapping[str, Revision]) -> Iterator[Decision]:
    """What is still there of a revision that was taken out."""
    for name, line in runtime.rows().items():
        if name not in revisions:
            yield Decision(name, runtime.table, line, "not pinned any more: take the row out", blocks=False)
    needed = {runtime.step(name) for name in list(revisions)[1:]}
    for path in sorted(runtime.step("*").parent.glob(runtime.step("*").name)):
        if path not in needed:
            name = path.stem.removeprefix("step_").replace("_", "-")
            yield Decision(name, path, None, "no revision comes before it: delete the module", blocks=False)


def skeletons(folder: Path, revisions: Mapping[str, Revision], pending: Collection[str]) -> dict[Path, str]:
    """The step module to write, by its path: that of the oldest pending revision, when it has none."""
    runtime = steps.runtime_of(folder)
    before: Revision | None = None
    for revision in _dated(revisions):
        if revision.name not in pending:
            before = revision
        elif runtime is not None and before is not None:
            path = runtime.step(revision.name)
            return {} if path.exists() else {path: steps.skeleton(before, revision)}
    return {}
