"""The IR of every schema.ts against upstream's own schema.json, definition by definition.

The *compat* rendering reproduces upstream's generator, including the information it loses, and has the same meaning
everywhere. The *faithful* rendering, which the packages contain, differs in exactly the definitions that
`faithful_differences.toml` lists, each with a reason that is verified here. `normal_form` describes the differences
that it removes before the comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from helpers import normal_form
from helpers.losses import compat_definitions, computed, differing, losses, reason
from helpers.support import (
    FIFTH,
    FIRST,
    FOURTH,
    SECOND,
    THIRD,
    check_metaschema,
    each_dated,
    each_revision,
    faithful_definitions,
    load,
    needs_upstream,
    shipped_document,
    upstream_definitions,
    upstream_module,
)
from mcprev_codegen import ir
from mcprev_codegen.emit import json_schema as jsonschema
from mcprev_codegen.resolve.inline_objects import hoist
from mcprev_codegen.resolve.schema import Schema
from mcprev_types import index

# -- the oracle ------------------------------------------------------------------------------------------


@needs_upstream
@each_revision
def test_the_same_definitions_are_rendered(revision: str) -> None:
    rendered = compat_definitions(load(revision).declared)
    assert rendered.keys() == upstream_definitions(revision).keys()
    assert len(rendered) == index.REVISIONS[revision].types


@needs_upstream
@each_revision
def test_every_compat_definition_means_what_upstreams_means(revision: str) -> None:
    rendered = compat_definitions(load(revision).declared)
    assert differing(rendered, upstream_definitions(revision)) == set()


@needs_upstream
@each_revision
def test_every_compat_definition_of_upstreams_own_file_means_the_same_too(revision: str) -> None:
    rendered = compat_definitions(Schema(upstream_module(revision)))
    assert differing(rendered, upstream_definitions(revision)) == set()


@needs_upstream
@each_revision
def test_the_faithful_rendering_differs_exactly_where_listed(revision: str) -> None:
    faithful, theirs = faithful_definitions(revision), upstream_definitions(revision)
    assert differing(faithful, theirs) == losses(revision).keys()


@needs_upstream
@each_revision
def test_each_listed_reason_explains_its_difference_and_no_smaller_one_does(revision: str) -> None:
    theirs = upstream_definitions(revision)
    for name, code in losses(revision).items():
        assert reason(revision, name, theirs) == code, name


@each_dated
def test_what_is_listed_is_what_follows_from_our_renderings(revision: str) -> None:
    assert losses(revision) == computed(revision)


def test_the_reasons_add_up_over_the_first_five_revisions() -> None:
    counts = Counter(
        code for revision in (FIRST, SECOND, THIRD, FOURTH, FIFTH) for code in losses(revision).values()
    )
    assert counts == {"number": 137, "open": 14, "number+open": 8, "number+null": 6}


# -- what the packages ship ------------------------------------------------------------------------------


@pytest.mark.slow
@each_revision
def test_the_shipped_schema_is_valid_json_schema_2020_12(revision: str) -> None:
    document = shipped_document(revision)
    assert document["$schema"] == jsonschema.DIALECT
    check_metaschema(document)


@each_revision
def test_every_reference_of_the_shipped_schema_leads_somewhere(revision: str) -> None:
    definitions = shipped_document(revision)["$defs"]
    for name in definitions:
        normal_form.definition(name, definitions)


@each_revision
def test_without_the_overlay_the_shipped_schema_only_names_inline_objects(revision: str) -> None:
    """Hoisting changes no definition: opened again, each is the faithful one."""
    declared = load(revision).declared
    hoisted = hoist(declared)
    definitions = cast("dict[str, Any]", jsonschema.Renderer(hoisted).definitions())
    added = {name for name in definitions if name not in declared.types}
    faithful = faithful_definitions(revision)
    mine, theirs = opened(definitions, added), merged(declared, faithful)
    for name in declared.types:
        assert normal_form.definition(name, mine) == normal_form.definition(name, theirs), name


@each_revision
def test_the_shipped_schema_differs_from_the_faithful_one_only_where_the_overlay_says_so(
    revision: str,
) -> None:
    """The definitions that differ are those an overlay entry patches, and those that take them over."""
    current = load(revision)
    declared, schema = current.declared, current.schema
    shipped = shipped_document(revision)["$defs"]
    assert shipped == jsonschema.Renderer(schema).definitions()
    added = {name for name in shipped if name not in declared.types}
    mine = opened(shipped, added)
    theirs = merged(declared, faithful_definitions(revision))
    differ = {
        n for n in declared.types if normal_form.definition(n, mine) != normal_form.definition(n, theirs)
    }
    touched = {place.partition(".")[0] for place in current.facts.patched}
    assert differ == {name for name in declared.types if takes_over(schema, name, touched, added)}


def opened(definitions: Mapping[str, Any], added: set[str]) -> dict[str, Any]:
    """Definitions with references to hoisted objects replaced by what they refer to."""

    def open_(node: Any) -> Any:
        if isinstance(node, list):
            return [open_(item) for item in cast("Sequence[Any]", node)]
        if not isinstance(node, dict):
            return node
        found = cast("dict[str, Any]", node)
        if "$ref" in found and (name := found["$ref"].rpartition("/")[2]) in added:
            return open_(definitions[name])
        return {key: open_(value) for key, value in found.items()}

    return {name: open_(node) for name, node in definitions.items()}


def merged(schema: Schema, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Definitions with each intersection written as the one object it amounts to.

    Rendering an intersection as `allOf` and flattening it are two ways to say the same; hoisting flattens.
    """

    def merge(node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Intersection):
            flat = schema.flatten(node)
            return ir.Obj(tuple(f.field for f in flat.fields), flat.index)
        return node

    module = ir.map_nodes(schema.module, merge)
    return {**definitions, **jsonschema.Renderer(Schema(module)).definitions()}


def takes_over(schema: Schema, name: str, touched: set[str], added: set[str]) -> bool:
    """Whether a definition shows a patched type: itself, a base, an alias or an inline object of it."""
    pending, seen = [name], set[str]()
    while pending:
        here = pending.pop()
        if here in touched:
            return True
        if here in seen:
            continue
        seen.add(here)
        decl = schema.types[here]
        if schema.is_object(ir.Ref(here)):
            pending += schema.supertypes(here)
            inside = [m for f in schema.flat(here).fields for m in ir.references(f.field.type)]
        else:
            inside = list(ir.references(decl))
        pending += [m for m in inside if m in added or not schema.is_object(ir.Ref(m))]
    return False


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ({"const": "a", "type": "string"}, {"enum": ["a"]}, True),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, True),
        ({"type": "object", "additionalProperties": {}}, {"type": "object"}, True),
        ({"type": "object", "properties": {}, "required": []}, {"type": "object"}, True),
        ({"type": "object", "required": ["a", "b"]}, {"type": "object", "required": ["b", "a"]}, True),
        ({"$ref": "#/$defs/Alias"}, {"type": "string"}, True),
        ({"$ref": "#/$defs/Thing"}, {"type": "object", "properties": {"a": {}}}, False),
        ({"type": "integer"}, {"type": "number"}, False),
        ({"anyOf": [{"const": "a", "type": "string"}, {"type": "string"}]}, {"type": "string"}, False),
        ({"const": 1, "type": "integer"}, {"const": True, "type": "boolean"}, False),
        ({"type": "string", "format": "uri"}, {"type": "string"}, False),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}, False),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "object"}, False),
    ],
)
def test_the_normal_form_levels_spelling_and_nothing_else(
    left: dict[str, Any], right: dict[str, Any], *, equal: bool
) -> None:
    definitions: dict[str, Any] = {
        "Alias": {"type": "string"},
        "Thing": {"type": "object", "properties": {"a": {}}},
    }
    assert (normal_form.schema(left, definitions) == normal_form.schema(right, definitions)) is equal
