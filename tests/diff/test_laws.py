"""Laws of every comparison: equal inputs give no change, and swapped inputs give the mirrored changes."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations
from random import Random

import pytest

from diff.diffing import PAIRS, report, revision_from, revision_of
from fuzz.fuzzing import each_once
from helpers.support import (
    DATED,
    FIFTH,
    FOLDER,
    FOURTH,
    REVISIONS,
    THIRD,
    load,
    needs_upstream,
    upstream_text,
)
from mcprev_codegen import ir
from mcprev_codegen.diff import Change, Place, Report, Verdict, compare_revisions, table
from mcprev_codegen.typescript.printer import print_module


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_revision_against_itself_gives_nothing(revision: str) -> None:
    assert compare_revisions(FOLDER, load(revision), load(revision)).changes == ()


@needs_upstream
@pytest.mark.parametrize("revision", DATED)
def test_a_pinned_revision_against_upstreams_own_file_gives_nothing(revision: str) -> None:
    theirs = revision_of(upstream_text(revision), revision)
    assert compare_revisions(FOLDER, load(revision), theirs).changes == ()
    assert compare_revisions(FOLDER, theirs, load(revision)).changes == ()


@needs_upstream
@pytest.mark.parametrize("revision", DATED)
def test_a_reformatted_file_gives_nothing(revision: str) -> None:
    text = upstream_text(revision)
    indented = re.sub(r"\n  +", "\n\t\t", text).replace('" | ', '"\n    | ')
    reformatted = re.sub(r"(?m)^(\s*\w+\??: [\w.]+);$", r"\1 ;\n", indented)
    assert reformatted.count("\n") > text.count("\n")
    old, new = revision_of(text, revision), revision_of(reformatted, revision)
    assert compare_revisions(FOLDER, old, new).changes == ()


@pytest.mark.parametrize("revision", DATED)
@pytest.mark.parametrize("seed", range(3))
@each_once
def test_reordered_declarations_members_and_literals_give_nothing(revision: str, seed: int) -> None:
    module = load(revision).declared.module
    shuffled = revision_from(_shuffled(module, Random(seed)), revision)  # noqa: S311 - no secret
    assert compare_revisions(FOLDER, revision_from(module, revision), shuffled).changes == ()


def _shuffled(module: ir.Module, random: Random) -> ir.Module:
    def shuffle(node: ir.Node) -> ir.Node:
        match node:
            case ir.Interface(fields=fields) | ir.Obj(fields=fields):
                return replace(node, fields=tuple(random.sample(fields, len(fields))))
            case ir.Union(members) if all(isinstance(m, ir.Lit | ir.Prim) for m in members):
                return ir.Union(tuple(random.sample(members, len(members))))
            case _:
                return node

    shuffled = ir.map_nodes(module, shuffle)
    return ir.Module(tuple(random.sample(shuffled.decls, len(shuffled.decls))))


def test_lines_that_move_keep_every_fingerprint() -> None:
    old, text = load(THIRD), print_module(load(FOURTH).declared.module)
    here = compare_revisions(FOLDER, old, revision_of(text, FOURTH))
    moved = compare_revisions(FOLDER, old, revision_of("\n\n\n// far below\n\n" + text, FOURTH))
    lines = [(c.new.span.line if c.new and c.new.span else 0) for c in here.changes]
    below = [(c.new.span.line if c.new and c.new.span else 0) for c in moved.changes]
    assert lines != below
    assert [c.fingerprint for c in here.changes] == [c.fingerprint for c in moved.changes]


def test_a_reordered_side_keeps_every_fingerprint() -> None:
    module = load(FIFTH).declared.module
    old = load(FOURTH)
    here = compare_revisions(FOLDER, old, revision_from(module, FIFTH))
    shuffled = compare_revisions(
        FOLDER, old, revision_from(_shuffled(module, Random(7)), FIFTH)  # noqa: S311 - no secret
    )
    assert {c.fingerprint for c in here.changes} == {c.fingerprint for c in shuffled.changes}


# -- mirrors -------------------------------------------------------------------------------------------------------

Side = tuple[str, str] | None
Seen = tuple[str, str, Side, Side, tuple[str, ...], tuple[str, ...], bool]


def _side(place: Place | None) -> Side:
    return (place.path, place.text) if place else None


def _seen(change: Change) -> Seen:
    harmless = change.worst is Verdict.OK
    return (
        f"{change.id}:{change.case}", change.level.value, _side(change.old), _side(change.new),
        change.senders, change.methods, harmless,
    )  # fmt: skip


def _mirrored(change: Change) -> Seen:
    case = table().rules[change.id].cases[change.case]
    _, level, old, new, senders, methods, _ = _seen(change)
    rule, _, name = case.mirror.partition(":")
    mirror = table().rules[rule].cases[name]
    overridden = (change.old_to_new.reason, change.new_to_old.reason) != (
        case.old_to_new.reason, case.new_to_old.reason,
    )  # fmt: skip
    harmless = overridden or {mirror.old_to_new.verdict, mirror.new_to_old.verdict} == {Verdict.OK}
    return (case.mirror, level, new, old, senders, methods, harmless)


@pytest.mark.parametrize(("old", "new"), list(permutations(DATED, 2)))
def test_the_way_back_mirrors_the_way_there(old: str, new: str) -> None:
    forth, back = report(old, new), report(new, old)
    assert sorted(map(repr, map(_mirrored, forth.changes))) == sorted(map(repr, map(_seen, back.changes)))
    assert _names(forth) == tuple(reversed(_names(back)))


def _names(told: Report) -> tuple[set[str], set[str]]:
    groups = (told.types, told.requests, told.notifications)
    return {n for g in groups for n in g.added}, {n for g in groups for n in g.removed}


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_whoever_breaks_one_way_is_harmed_the_other_way_in_the_mirror(old: str, new: str) -> None:
    forth = {c.path: c for c in report(old, new).changes if c.id == "field-became-required"}
    back = {c.path: c for c in report(new, old).changes if c.id == "field-became-optional"}
    assert forth.keys() == back.keys()
    for path, change in forth.items():
        assert change.old_to_new.verdict is back[path].new_to_old.verdict


def test_renames_are_found_over_several_revisions() -> None:
    told = report(DATED[0], FIFTH)
    assert set(told.renamed) == {
        ("ResourceReference", "ResourceTemplateReference"),
        ("JSONRPCError", "JSONRPCErrorResponse"),
    }
    assert {c.path for c in told.changes if c.id == "type-kind-changed"} == {"JSONRPCResponse"}
