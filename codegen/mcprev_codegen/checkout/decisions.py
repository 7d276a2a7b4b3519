"""Open decisions: facts about a revision that the schema does not state, each with the file to add it to.

A dated revision is *pending* until it has a row in the table of revisions, a step module without undecided entries,
and the capability and header parameter of each new method. The packages of a pending revision are generated, but
`latest` and the deltas of other revisions ignore it, and the runtime does not offer it. Missing descriptions and
leftovers of a removed revision are listed too, but keep no revision pending.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.checkout.runtime import Runtime, runtime_of
from mcprev_codegen.checkout.step_modules import questions, skeleton
from mcprev_codegen.errors import CodegenError, clean
from mcprev_codegen.facts import (
    DESCRIPTIONS_FILE,
    OVERLAY_FILE,
    Method,
    Revision,
    Side,
    load_pinned,
    load_versions,
)
from mcprev_codegen.inputs import SchemaFolder, extension_folder, is_dated, schema_folder
from mcprev_codegen.support import Kind

_NO_STEP: Final = "the step module is missing: `mcprev generate` writes its skeleton"
_HEADER_PARAMS: Final = ("name", "uri")
"""The parameters that the Mcp-Name header repeats, for the methods that have had them so far."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One open decision."""

    revision: str
    path: Path
    """The file to add the decision to."""
    line: int | None
    question: str
    blocks: bool = True
    """Whether the revision is pending until this is decided."""

    def __str__(self) -> str:
        where = os.path.relpath(self.path) + (f":{self.line}" if self.line else "")
        return clean(f"{self.revision}  {where}: {self.question}")


@dataclass(frozen=True, slots=True)
class Status:
    """The open decisions of a schema folder."""

    decisions: tuple[Decision, ...]

    @property
    def pending(self) -> frozenset[str]:
        """The dated revisions with blocking decisions."""
        return frozenset(d.revision for d in self.decisions if d.blocks)


def decision_status(
    folder: SchemaFolder,
    revisions: Mapping[str, Revision],
    versions: Mapping[str, Revision] = MappingProxyType({}),
) -> Status:
    """Return the open decisions by revision, oldest first.

    `revisions` are all pinned revisions, `versions` the versions of extensions whose decisions are listed behind them.
    """
    runtime = runtime_of(folder)
    found: list[Decision] = []
    complete: Revision | None = None
    for revision in revisions.values():
        own = [] if complete is None else list(_methods(folder, complete, revision))
        if runtime is not None and revision in _dated(revisions):
            own += _missing(runtime, complete, revision)
            complete = complete if own else revision
        else:
            if runtime is not None and complete is not None and not any(d.blocks for d in found):
                own += _step(runtime, revision.name, needed=any(questions(complete, revision)))
            own = [replace(decision, blocks=False) for decision in own]
        found += [*own, *_undescribed(folder, revision)]
    for version in versions.values():
        if version.extension is not None:
            found += _undescribed(extension_folder(folder, version.extension.name), version)
    return Status((*found, *(_left_over(runtime, revisions) if runtime else ())))


def decision_lines(folder: SchemaFolder) -> list[str]:
    """Return the open decisions of a schema folder as lines of text, or the error that prevents reading the schemas."""
    try:
        return [
            str(decision)
            for decision in decision_status(folder, load_pinned(folder), load_versions(folder)).decisions
        ]
    except CodegenError as error:
        return str(error).split("\n")


def checkout_lines() -> list[str]:
    """Return the lines for the checkout that this module is in; none if the package is installed."""
    try:
        folder = schema_folder()
    except CodegenError:
        return []
    return decision_lines(folder) if runtime_of(folder) else []


def _methods(folder: SchemaFolder, before: Revision, revision: Revision) -> Iterator[Decision]:
    """Yield the decisions about new methods that the schema does not answer."""
    path = folder.path / OVERLAY_FILE
    headers = any(m.name_param for m in before.methods.values())
    for name, method in revision.methods.items():
        if name in before.methods:
            continue
        if method.capability is None and name not in revision.facts.capability:
            question = f"'{name}#capability': state the capability that it requires, or \"\" for none"
            yield Decision(revision.name, path, None, question)
        named = [n for n in _HEADER_PARAMS if n in _required(revision, method)]
        if headers and named and Side.CLIENT in method.senders and name not in revision.facts.name_param:
            question = f"'{name}#name_param': state whether the Mcp-Name header repeats its '{named[0]}', or \"\" for none"
            yield Decision(revision.name, path, None, question)


def _required(revision: Revision, method: Method) -> set[str]:
    if method.kind is not Kind.REQUEST or method.params is None:
        return set()
    return {f.name for f in revision.schema.flatten(ir.Ref(method.params)).fields if not f.field.optional}


def _undescribed(folder: SchemaFolder, revision: Revision) -> Iterator[Decision]:
    """Yield a decision that lists the types and constants without a description; contracts contain no prose."""
    path = folder.path / DESCRIPTIONS_FILE
    declared = revision.declared
    own = [decl for decl in declared.module.decls if revision.is_own(decl) and not decl.doc.text]
    names = [f"[types.{decl.name}]" for decl in own if not isinstance(decl, ir.Const)]
    names += [f"[constants] {decl.name}" for decl in own if isinstance(decl, ir.Const)]
    if names:
        question = f"{len(names)} without a description: {', '.join(names)}"
        yield Decision(revision.label, path, None, question, blocks=False)


def _dated(revisions: Mapping[str, Revision]) -> list[Revision]:
    return [r for r in revisions.values() if r.pin is not None and is_dated(r.name)]


def _missing(runtime: Runtime, before: Revision | None, revision: Revision) -> Iterator[Decision]:
    name = revision.name
    if name not in runtime.rows():
        like = f"replace(<row of {before.name}>, name={name!r}, ...)" if before else "Revision(...)"
        yield Decision(
            name, runtime.table, None, f"add the row of the revision, {like}, and list it in _ROWS"
        )
    if before is not None:
        yield from _step(runtime, name, needed=True)
        yield from _results(runtime, before, revision)


def _results(runtime: Runtime, before: Revision, revision: Revision) -> Iterator[Decision]:
    """Yield the new required members that a result lacks which the runtime makes itself."""
    for made in runtime.made_results():
        if made.type not in revision.schema.types or made.type not in before.schema.types:
            continue  # what makes a result of a new type was written for it
        for member in sorted(_needed(revision, made.type) - _needed(before, made.type)):
            if made.given.isdisjoint((member, revision.names.attribute(member))):
                question = (
                    f"{made.type}.{member}: {revision.name} requires it, and the runtime makes this result without it: "
                    "give it here, or state a default in schema/overlay.toml"
                )
                yield Decision(revision.name, made.path, made.line, question)


def _needed(revision: Revision, name: str) -> frozenset[str]:
    """Return the members of a type that a constructor has to be given."""
    return frozenset(
        f.name
        for f in revision.schema.flat(name).fields
        if not f.field.optional
        and revision.schema.literal(revision.schema.follow(f.field.type)) is None
        and revision.default(f.declared_in, f.name) is None
    )


def _step(runtime: Runtime, name: str, *, needed: bool) -> Iterator[Decision]:
    """Yield the undecided entries of a step module, or the module itself if it is missing although it is needed."""
    if runtime.step(name).is_file():
        for line, member, text in runtime.undecided(name):
            yield Decision(name, runtime.step(name), line, f"{member}: {text}")
    elif needed:
        yield Decision(name, runtime.step(name), None, _NO_STEP)


def _left_over(runtime: Runtime, revisions: Mapping[str, Revision]) -> Iterator[Decision]:
    """Yield the leftovers of removed revisions."""
    for name, line in runtime.rows().items():
        if name not in revisions:
            yield Decision(name, runtime.table, line, "no longer pinned: remove the row", blocks=False)
    needed = {runtime.step(name) for name in list(revisions)[1:]}
    for path in runtime.steps():
        if path not in needed:
            name = path.stem.removeprefix("step_").replace("_", "-")
            yield Decision(name, path, None, "no revision comes before it: delete the module", blocks=False)


def missing_steps(
    folder: SchemaFolder, revisions: Mapping[str, Revision], pending: Collection[str]
) -> dict[Path, str]:
    """Return the step module to write, by path, if it does not exist yet.

    It is that of the oldest pending revision, or of a draft with members to decide.
    """
    runtime = runtime_of(folder)
    if runtime is None:
        return {}
    before: Revision | None = None
    for revision in revisions.values():
        if revision in _dated(revisions) and revision.name not in pending:
            before = revision
        elif before is not None:
            path = runtime.step(revision.name)
            wanted = revision.name in pending or any(questions(before, revision))
            return {path: skeleton(before, revision)} if wanted and not path.exists() else {}
    return {}
