"""Known mutations are found with the right verdicts; messages of one side prove the verdicts on the other."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import pytest
from hypothesis import given, settings, strategies as st

from diff.diffing import revision_from, without_prose
from diff.mutations import Mutation, Object, Told, mutations
from fuzz.fuzzing import sampled, sampled_of
from helpers.corpus import Corpus
from helpers.support import DATED, complaints, load, validator
from mcprev_codegen import ir
from mcprev_codegen.diff import Change, Level, Report, compare
from mcprev_codegen.diff.comparison.view import View
from mcprev_codegen.emit.json_schema import Renderer
from mcprev_codegen.facts.revision import Revision


@cache
def _mutations(name: str) -> list[Mutation]:
    return mutations(without_prose(name))


@st.composite
def _some(draw: st.DrawFn) -> tuple[str, list[Mutation]]:
    name = draw(st.sampled_from(DATED))
    kinds = sorted({m.name for m in _mutations(name)})
    chosen: list[Mutation] = []
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4, unique=True)):
        mutation = draw(st.sampled_from([m for m in _mutations(name) if m.name == kind]))
        if all(_apart(mutation, other) for other in chosen):
            chosen.append(mutation)
    return name, chosen


def _apart(one: Mutation, other: Mutation) -> bool:
    """Whether two mutations are about different things; a rename moves every path below it."""
    tables = {t.path for t in one.told} & {t.path for t in other.told}
    return one.type != other.type and not tables


@pytest.mark.slow
@given(_some())
@settings(max_examples=sampled(12))
def test_random_known_mutations_are_found_and_nothing_else(case: tuple[str, list[Mutation]]) -> None:
    name, chosen = case
    old, new = _mutated(name, chosen)
    expected = sorted((t for mutation in chosen for t in mutation.told), key=repr)
    assert _told(compare(old.revision, new.revision)) == expected


@given(_some())
@settings(max_examples=sampled(5))
def test_the_way_back_from_random_mutations_has_the_mirrors(case: tuple[str, list[Mutation]]) -> None:
    name, chosen = case
    old, new = _mutated(name, chosen)
    back = compare(new.revision, old.revision)
    harmed = {
        (c.new.path if c.new else c.old.path if c.old else "")
        for c in compare(old.revision, new.revision).changes
        if c.worst != "ok"
    }
    assert {c.old.path if c.old else c.path for c in back.changes if c.worst != "ok"} >= harmed - _codes(back)


def _codes(told: Report) -> set[str]:
    """Constants: to get one back is no harm."""
    return {c.path for c in told.changes if c.kind == "constant"}


def _mutated(name: str, chosen: list[Mutation]) -> tuple[View, View]:
    module: ir.Module = load(name).declared.module
    for mutation in sorted(chosen, key=lambda m: m.name.startswith("rename")):
        module = mutation.apply(module)
    return without_prose(name), View(revision_from(module, name))


def _told(report: Report) -> list[Told]:
    changes = [c for c in report.changes if c.level is not Level.DOC]
    return sorted(
        (Told(c.id, c.path, c.old_to_new.verdict.value, c.new_to_old.verdict.value) for c in changes),
        key=repr,
    )


def _kinds(name: str) -> list[str]:
    return sorted({mutation.name for mutation in _mutations(name)})


@pytest.mark.parametrize("name", DATED)
def test_every_kind_of_mutation_in_every_revision_that_has_it(name: str) -> None:
    """In `make fuzz`; in `make test`, in the first revision that has it."""
    before = {kind for other in DATED[: DATED.index(name)] for kind in _kinds(other)}
    every = _kinds(name)
    for kind in sampled_of(every, [kind for kind in every if kind not in before]):
        own = [m for m in _mutations(name) if m.name == kind]
        mutation = own[len(own) // 3]
        old, new = _mutated(name, [mutation])
        told = compare(old.revision, new.revision)
        assert _told(told) == sorted(mutation.told, key=repr), (kind, mutation.type)
        _prove(old, new, mutation, [c for c in told.changes if c.level is Level.WIRE])


# -- proof by decoding ---------------------------------------------------------------------------------------------


def _prove(old: View, new: View, mutation: Mutation, changes: list[Change]) -> None:
    """Samples of one side against the schema of the other: what is ok decodes, what is not has a witness."""
    if mutation.type not in old.schema.types or mutation.type not in new.schema.types:
        return
    of_old, of_new = _checker(old, mutation.type), _checker(new, mutation.type)
    for sender, own, other, verdicts, witness in (
        (old, of_old, of_new, {c.old_to_new.verdict.value for c in changes}, mutation.old_witness),
        (new, of_new, of_old, {c.new_to_old.verdict.value for c in changes}, mutation.new_witness),
    ):
        for sample in _samples(sender, mutation.type):
            refused = complaints(other, sample)
            assert not refused or verdicts - {"ok"}, (mutation.name, mutation.type, refused)
        if witness is not None:
            value = witness(_smallest(sender, mutation.type))
            assert complaints(own, value) == []
            assert complaints(other, value) != []
            assert verdicts - {"ok"}


def _samples(side: View, name: str) -> list[Any]:
    return list(Corpus(_plain(side)).samples(name))


def _smallest(side: View, name: str) -> Object:
    return cast("Object", Corpus(_plain(side)).sample(ir.Ref(name), full=False))


def _plain(side: View) -> Revision:
    """The revision as the comparison sees it: without the overlay."""
    own = side.revision
    return Revision(
        own.name, None, own.declared, side.schema, side.schema, own.facts, own.methods, own.senders
    )


def _checker(side: View, name: str) -> Any:
    return validator(Renderer(side.schema).definitions(), name)
