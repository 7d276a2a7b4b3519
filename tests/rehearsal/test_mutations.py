"""The mutations of the rehearsal: each changes what it says, can be printed, and is drawn again by the same seed."""

from __future__ import annotations

import shutil
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pytest

from fuzz.fuzzing import sampled_of
from helpers.support import DATED, SCHEMA, load
from mcprev.conversion.rules import Rules
from mcprev_codegen import ir
from mcprev_codegen.facts import load as sources
from mcprev_codegen.inputs import SchemaFolder
from mcprev_codegen.lineage import deltas as lineage, pairs
from mcprev_codegen.resolve.schema import Schema
from mcprev_codegen.typescript import reader as typescript
from mcprev_codegen.typescript.printer import print_module
from rehearsal import recipe
from rehearsal.changes import constant
from rehearsal.mutations import KINDS, Mutation, next_revision, plan
from rehearsal.scratch import Scratch

NEWEST = DATED[-1]
MODULE = ir.contract(load(NEWEST).declared.module)
MUTATIONS = list(chain.from_iterable(make(MODULE) for make in KINDS.values()))
SOME = [*{each.kind: each for each in MUTATIONS}.values()]
"""One mutation of each kind."""
SEEDS = range(1, 11)
by_subject = pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: f"{m.kind} {m.subject}")


def test_every_kind_has_a_choice() -> None:
    assert all(list(make(MODULE)) for make in KINDS.values())


@by_subject
def test_a_mutation_changes_the_schema_and_keeps_it_in_order(mutation: Mutation) -> None:
    changed = mutation.change(MODULE)
    assert changed != MODULE
    parsed = typescript.parse(print_module(changed), "schema.ts")
    assert parsed == changed
    assert parsed.types.keys() >= mutation.types.keys()
    schema = Schema(changed)
    schema.check_aliases()
    declared = set(schema.types)
    assert set(ir.references(changed)) <= declared
    for place in mutation.fields:
        type_name, _, member = place.partition(".")
        assert schema.flat(type_name).get(member)


@by_subject
def test_what_is_decided_is_about_what_is_there(mutation: Mutation) -> None:
    types = {*mutation.change(MODULE).types, *load(NEWEST).schema.types}
    for decision in mutation.decisions:
        assert decision.direction in {"DOWN", "UP"}
        if decision.part == "accepted":
            assert decision.key.partition(".")[0] in types
            assert not decision.code
            continue
        assert decision.part in {"substitutes", "before", "missing"}
        assert decision.part == "missing" or decision.key in types
        assert f"def {decision.rule}(" in decision.code
        compile(decision.code, "step", "exec")
    for pointer, _, new in mutation.overlay:
        facet = pointer.partition("#")[2]
        assert facet in {"capability", "name_param", "was"}
        assert new or facet == "capability"


@pytest.mark.parametrize("mutation", sampled_of(MUTATIONS, SOME), ids=lambda m: f"{m.kind} {m.subject}")
def test_what_a_mutation_leaves_open_is_decided(mutation: Mutation, tmp_path: Path) -> None:
    """As the step module between the newest revision and one with this change alone."""
    name = next_revision(NEWEST)
    shutil.copytree(SCHEMA, tmp_path / "schema")
    recipe.write_overlay(Scratch(tmp_path), mutation, name)
    changed = mutation.change(constant("LATEST_PROTOCOL_VERSION", name)(MODULE))
    path = tmp_path / "schema.ts"
    path.write_text(print_module(changed), encoding="utf-8")
    old, new = load(NEWEST), sources.load_file(SchemaFolder(tmp_path / "schema"), path, name)
    names = pairs.pairing(old, new)
    back = {older: newer for newer, older in names.items()}
    for direction, deltas in (
        ("DOWN", lineage.conversion_deltas(new, old, names)),
        ("UP", lineage.conversion_deltas(old, new, back)),
    ):
        space: dict[str, Any] = {"Rules": Rules, **{d.rule: d.rule for d in mutation.decisions}}
        decided: Rules = eval(recipe.rules(mutation.decisions, direction), space)  # noqa: S307 - our own text
        assert decided.open_members(cast("Any", deltas)) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_has_one_mutation_of_each_kind(seed: int) -> None:
    made = plan(MODULE, NEWEST, seed)
    assert [m.kind for m in made.mutations] == list(KINDS)
    about = list(chain.from_iterable(m.about for m in made.mutations))
    assert len(about) == len(set(about))
    again = plan(MODULE, NEWEST, seed)
    assert (again.text, again.revision) == (made.text, made.revision)
    parsed = typescript.parse(made.text, "schema.ts")
    assert parsed == made.module
    assert parsed.consts["LATEST_PROTOCOL_VERSION"].value == made.revision == next_revision(NEWEST)


def test_seeds_differ() -> None:
    assert len({plan(MODULE, NEWEST, seed).text for seed in SEEDS}) == len(SEEDS)


def test_the_next_revision_is_a_date_to_come() -> None:
    assert next_revision("2031-07-28") == "2032-01-01"
    assert next_revision(NEWEST) > NEWEST
