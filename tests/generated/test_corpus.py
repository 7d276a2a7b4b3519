"""Every type of every revision accepts every valid message, writes it back unchanged, and rejects invalid ones.

Hypothesis derives valid messages from the schema: all combinations of optional members, whole numbers, whole floats,
huge numbers, null where it is allowed, unknown members and content. Invalid messages come from a table: each member is
removed or replaced by values of every other kind. `corpus` decides from the schema alone which messages are valid.

A type that is declared as in an older revision, with all that it refers to, has the same models, which a test shows. What
is true of them is tried at the oldest such revision; `make fuzz` tries every type of every revision.
"""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, cast

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import TypeAdapter, ValidationError
from typing_extensions import override

from fuzz.fuzzing import sampled
from helpers.corpus import Corpus, Judge, Mutation, mutations
from helpers.losses import losses
from helpers.support import (
    GENERATED,
    HAS_UPSTREAM,
    PYTHON_NAMES,
    REVISIONS,
    complaints,
    each_revision,
    faithful_definitions,
    load,
    needs_upstream,
    package,
    same,
    shipped_document,
    upstream_definitions,
    validator,
)
from mcprev_codegen import ir
from mcprev_codegen.ir.nodes import Json
from mcprev_codegen.python.names import module_name
from mcprev_types import Model


@cache
def facts_of(revision: str) -> dict[str, list[tuple[str, Json]]]:
    """What the overlay says of how messages are read, by the type that it says it of."""
    facts, found = load(revision).facts, dict[str, list[tuple[str, Json]]]()
    said: list[tuple[str, Json]] = [*facts.default.items(), *facts.closed.items()]
    for pointer, value in sorted([*said, *((pointer, "open") for pointer in facts.open)], key=repr):
        found.setdefault(pointer.partition(".")[0], []).append((pointer, value))
    return found


@cache
def references(revision: str, name: str) -> frozenset[str]:
    return frozenset(ir.references(load(revision).schema.types[name]))


@cache
def reached(revision: str, name: str) -> set[str]:
    """A type and all types that it refers to."""
    found, pending = {name}, [name]
    while pending:
        more = references(revision, pending.pop()) - found
        found |= more
        pending += more
    return found


def declared_before(revision: str, name: str) -> str | None:
    """The oldest revision in which a type, and all that it refers to, is declared as in this one."""
    types, facts = load(revision).schema.types, facts_of(revision)
    for before in REVISIONS[: REVISIONS.index(revision)]:
        older, said = load(before).schema.types, facts_of(before)
        if all(
            older.get(each) == types[each] and said.get(each) == facts.get(each)
            for each in reached(revision, name)
        ):
            return before
    return None


EVERY_TYPE: Final = [(revision, name) for revision in REVISIONS for name in load(revision).schema.types]
AS_BEFORE: Final = {each: before for each in EVERY_TYPE if (before := declared_before(*each))}
DECLARED = [(revision, name) for revision in REVISIONS for name in load(revision).declared.types]
each_type = pytest.mark.parametrize(
    ("revision", "name"), [each for each in EVERY_TYPE if each not in AS_BEFORE or sampled(1) > 1]
)


@cache
def corpus_of(revision: str, *, open_: bool = False) -> Corpus:
    return Corpus(load(revision), open_)


@cache
def adapter(revision: str, name: str) -> TypeAdapter[Any]:
    return TypeAdapter[Any](getattr(package(revision, "models"), PYTHON_NAMES.class_name(name)))


def read(revision: str, name: str, value: Json) -> Any:
    """Read a value with the model of a type, as a user would: `from_wire`, or an adapter for an alias."""
    model: Any = getattr(package(revision, "models"), PYTHON_NAMES.class_name(name))
    if isinstance(model, type) and issubclass(model, Model):
        return model.from_wire(value)
    return adapter(revision, name).validate_python(value, strict=True)


def write(revision: str, name: str, message: Any) -> tuple[Json, bytes]:
    if isinstance(message, Model):
        return message.to_wire(), message.to_json()
    of = adapter(revision, name)
    return of.dump_python(message, mode="json", exclude_unset=True), of.dump_json(message, exclude_unset=True)


def round_trips(revision: str, name: str, value: Json) -> None:
    """A value comes back exactly, as a Python value and as JSON text, and is not touched on the way."""
    before = copy.deepcopy(value)
    wire, text = write(revision, name, read(revision, name, value))
    assert same(wire, before)
    assert same(json.loads(text), before)
    assert same(value, before), "reading changed its input"
    parsed = adapter(revision, name).validate_json(json.dumps(value), strict=True)
    assert same(write(revision, name, parsed)[0], before)


@cache
def judges(revision: str) -> tuple[Judge, Judge]:
    return Judge(load(revision), lenient=False), Judge(load(revision), lenient=True)


@cache
def shipped(revision: str, name: str) -> Any:
    return validator(shipped_document(revision)["$defs"], name)


@cache
def upstream(revision: str, name: str) -> Any:
    """Upstream's definition, those that are listed as lossy replaced by the faithful ones."""
    lossy = losses(revision)
    faithful = faithful_definitions(revision)
    mended = {n: faithful[n] if n in lossy else d for n, d in upstream_definitions(revision).items()}
    return validator(mended, name)


class WithoutDocs(ast.NodeTransformer):
    """Takes out docstrings, those of attributes included."""

    @override
    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else node


@cache
def written_models(revision: str) -> dict[str, list[str]]:
    """The statements that make each model of a revision, without docstrings and the names of revision and package."""
    found: dict[str, list[str]] = {}
    for path in (GENERATED / module_name(revision) / "models").glob("*.py"):
        for node in ast.walk(WithoutDocs().visit(ast.parse(path.read_text(encoding="utf-8")))):
            match node:
                case (
                    ast.ClassDef(name=name)
                    | ast.AnnAssign(target=ast.Name(name))
                    | ast.Assign(targets=[ast.Name(name)])
                ):
                    text = ast.unparse(node).replace(f"in MCP {revision}.", "in MCP revision.")
                    text = text.replace(f"{module_name(revision)}.", "package.").replace(
                        f"'{revision}'", "'revision'"
                    )
                    found.setdefault(name, []).append(text)
                case _:
                    pass
    return found


@pytest.mark.slow
def test_a_type_that_is_declared_as_before_has_the_models_of_before() -> None:
    for (revision, name), before in AS_BEFORE.items():
        for each in sorted(reached(revision, name)):
            model = PYTHON_NAMES.class_name(each)
            assert written_models(revision)[model] == written_models(before)[model], (revision, before)
    assert AS_BEFORE


@each_type
def test_plain_examples_round_trip_and_are_valid_by_our_schema(revision: str, name: str) -> None:
    for value in corpus_of(revision).samples(name):
        assert judges(revision)[0].accepts(ir.Ref(name), value)
        round_trips(revision, name, value)
        assert complaints(shipped(revision, name), value) == []


@needs_upstream
@pytest.mark.parametrize(("revision", "name"), DECLARED)
def test_plain_examples_are_valid_by_upstreams_schema(revision: str, name: str) -> None:
    for value in corpus_of(revision).samples(name):
        assert complaints(upstream(revision, name), value) == []


@each_type
def test_every_valid_value_round_trips_exactly(revision: str, name: str) -> None:
    @settings(max_examples=sampled(2))
    @given(corpus_of(revision, open_=True).values(name))
    def check(value: Json) -> None:
        round_trips(revision, name, value)

    check()


@each_revision
def test_generated_values_are_valid_by_our_schema_and_upstreams(revision: str) -> None:
    names = list(load(revision).schema.types)
    declared = load(revision).declared.types

    @settings(max_examples=sampled(30))
    @given(st.sampled_from(names).flatmap(lambda n: st.tuples(st.just(n), corpus_of(revision).values(n))))
    def check(case: tuple[str, Json]) -> None:
        name, value = case
        assert judges(revision)[0].accepts(ir.Ref(name), value)
        assert complaints(shipped(revision, name), value) == []
        if name in declared and HAS_UPSTREAM:
            assert complaints(upstream(revision, name), value) == []

    check()


@each_type
def test_a_mutated_message_is_accepted_only_where_the_schema_accepts_it(revision: str, name: str) -> None:
    strict, lenient = judges(revision)
    for mutation in mutations(corpus_of(revision), name):
        value = mutation.value
        if strict.accepts(mutation.type, value):
            round_trips(revision, name, value)
        elif lenient.accepts(ir.Ref(name), value):
            is_tolerated(revision, name, mutation)
        else:
            rejects(revision, name, mutation)


@each_revision
def test_every_probe_is_tried_for_each_member_where_it_is_declared(revision: str) -> None:
    schema, members, declared = load(revision).schema, set[str](), set[str]()
    for name in schema.types:
        for type_ in map(schema.follow, schema.members(ir.Ref(name))):
            for f in schema.flat(type_.name).fields if isinstance(type_, ir.Ref) else ():
                members.add(f"{f.declared_in}.{f.name}: {f.field.type}")
                if f.declared_in == name:
                    declared.add(f"{name}.{f.name}: {f.field.type}")
    assert members == declared


def is_tolerated(revision: str, name: str, mutation: Mutation) -> None:
    """A null that reads as absent is left out again; a member with a default is not added.

    In a union, the value may also belong to another member, to which the null is an unknown one that is kept.
    """
    wire, _ = write(revision, name, read(revision, name, mutation.value))
    value, expected = mutation.value, [mutation.value]
    if isinstance(value, dict) and mutation.member in value and value[mutation.member] is None:
        without: Json = {key: item for key, item in value.items() if key != mutation.member}
        expected = [without] if mutation.type == ir.Ref(name) else [without, value]
    assert any(same(wire, one) for one in expected), mutation.what


def rejects(revision: str, name: str, mutation: Mutation) -> None:
    """The model refuses the value, and its error points at the member, or at the object whose tag is wrong."""
    with pytest.raises(ValidationError) as caught:
        read(revision, name, mutation.value)
    if mutation.member:
        errors = caught.value.errors(include_url=False)
        assert any(mutation.member in e["loc"] or "tag" in e["type"] for e in errors), mutation.what


def places(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from places(item, (*path, number))


def replaced(value: Json, path: tuple[str | int, ...], new: Json) -> Json:
    if not path:
        return new
    changed: Any = copy.copy(value)
    changed[path[0]] = replaced(changed[path[0]], path[1:], new)
    return cast("Json", changed)


@st.composite
def damaged(draw: st.DrawFn, revision: str) -> tuple[str, Json, bool]:
    """A valid message with something else put somewhere deep inside it, and whether that is null."""
    name = draw(st.sampled_from(list(load(revision).schema.types)))
    value = draw(corpus_of(revision, open_=True).values(name))
    path = draw(st.sampled_from(list(places(value))))
    probe = draw(
        st.sampled_from([None, True, 1, 1.0, 1.5, "x", [], {}, ["x"], {"type": "text"}, {"type": "x"}])
    )
    return name, replaced(value, path, cast("Json", probe)), probe is None


@each_revision
def test_damage_deep_inside_is_judged_as_the_schema_judges_it(revision: str) -> None:
    strict, lenient = judges(revision)

    @settings(max_examples=sampled(50))
    @given(damaged(revision))
    def check(case: tuple[str, Json, bool]) -> None:
        name, value, null = case
        if strict.accepts(ir.Ref(name), value) and not null:
            round_trips(revision, name, value)
        elif lenient.accepts(ir.Ref(name), value):
            read(revision, name, value)
        else:
            with pytest.raises(ValidationError):
                read(revision, name, value)

    check()
