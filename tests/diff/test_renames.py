"""Renamed types are recognised by their uses, and no other types are."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations

import pytest

from diff.diffing import report, revision_from, revision_of, without_prose
from diff.mutations import UNLIKE, is_used
from fuzz.fuzzing import sampled
from helpers.support import DATED, FIRST, FOURTH, SECOND, load
from mcprev_codegen import ir
from mcprev_codegen.diff import Report, Verdict, compare
from mcprev_codegen.typescript.printer import print_module
from rehearsal.changes import renamed

LIKELY = (
    ("PromptArgument", "PromptParameter"),
    ("ToolAnnotations", "ToolHints"),
    ("ModelPreferences", "SamplingPriorities"),
    ("ResourceContents", "FileData"),
    ("Annotations", "Audience"),
    ("Role", "Speaker"),
    ("ContentBlock", "Part"),
    ("ListToolsResult", "ToolPage"),  # a result, which its name alone ties to its request
    ("CallToolResult", "Outcome"),
    ("ElicitResult", "Reply"),
)


def _told(name: str, module: ir.Module) -> Report:
    return compare(without_prose(name).revision, revision_from(module, name))


@pytest.mark.parametrize(("name", "other"), LIKELY)
def test_a_pin_whose_type_has_another_name_shows_the_rename_and_nothing_else(name: str, other: str) -> None:
    text = re.sub(rf"\b{name}\b", other, print_module(load(FOURTH).declared.module))
    told = compare(load(FOURTH), revision_of(text, FOURTH))
    assert told.renamed == ((name, other),)
    assert [c.id for c in told.changes] == ["type-renamed"]


TOGETHER = (
    {"Prompt": "Template", "PromptArgument": "Blank"},  # the one is used by the other
    {"TextContent": "Words", "ImageContent": "Picture", "AudioContent": "Sound"},  # alternatives of one union
    {"Annotations": "Hints", "Role": "Speaker", "SamplingMessage": "Turn"},
    {"ListToolsResult": "Page", "ListPromptsResult": "Sheet", "CompleteResult": "Ending"},
)


@pytest.mark.parametrize("names", TOGETHER)
def test_several_types_of_one_place_are_told_apart(names: dict[str, str]) -> None:
    module = load(FOURTH).declared.module
    for name, other in names.items():
        module = renamed(name, other)(module)
    told = _told(FOURTH, module)
    assert dict(told.renamed) == names
    assert {c.id for c in told.changes} == {"type-renamed"}


def _some(name: str) -> list[str]:
    """Types that are used and are no messages, which would need a method."""
    side = without_prose(name)
    used = [t for t in load(name).declared.types if is_used(side, t) and side.transport(t) is None]
    return used[:: len(used) // min(sampled(2), 8)]


@pytest.mark.parametrize(("name", "type_"), [(name, type_) for name in DATED for type_ in _some(name)])
def test_a_stranger_at_the_same_place_is_no_rename(name: str, type_: str) -> None:
    """The type goes, and one that shares none of its members or values stands wherever it stood."""
    stranger = ir.Interface(
        UNLIKE, fields=(ir.Field("zzOne", ir.Prim("string")), ir.Field("zzTwo", ir.Prim("string")))
    )

    def swap(decl: ir.Decl) -> ir.Decl:
        return stranger if decl.name == UNLIKE else decl

    module = renamed(type_, UNLIKE)(load(name).declared.module)
    told = _told(name, ir.Module(tuple(map(swap, module.decls))))
    assert told.renamed == ()
    assert (type_ in told.types.removed, UNLIKE in told.types.added) == (True, True)


@pytest.mark.parametrize("type_", ["TextContent", "PromptArgument", "Implementation", "ModelHint"])
def test_the_same_shape_at_another_place_is_no_rename(type_: str) -> None:
    """The type goes with every member that holds it; its like comes, but is used elsewhere."""
    module = load(FIRST).declared.module
    decl = next(d for d in module.decls if d.name == type_)
    assert isinstance(decl, ir.Interface)

    def without(node: ir.Node) -> ir.Node:
        match node:
            case ir.Ref(name) if name == type_:
                return ir.Prim("string")
            case ir.Interface(name="Root"):
                return replace(node, fields=(*node.fields, ir.Field("zz", ir.Ref(UNLIKE), optional=True)))
            case _:
                return node

    gone = ir.Module(tuple(d for d in module.decls if d.name != type_))
    changed = ir.map_nodes(gone, without)
    told = _told(FIRST, ir.Module((*changed.decls, replace(decl, name=UNLIKE))))
    assert told.renamed == ()


def test_another_value_of_a_literal_member_is_no_rename() -> None:
    text = print_module(load(SECOND).declared.module)
    other = re.sub(r"\bAudioContent\b", "VideoContent", text).replace('"audio"', '"video"')
    told = compare(without_prose(SECOND).revision, revision_of(other, SECOND))
    assert told.renamed == ()
    assert any(c.worst is not Verdict.OK for c in told.changes)


def test_results_of_one_shape_are_not_guessed_apart() -> None:
    """What answers which request is not to be seen, once their names say nothing."""
    text = print_module(load(FOURTH).declared.module)
    other = re.sub(r"\bGetTaskResult\b", "Aaa", re.sub(r"\bCancelTaskResult\b", "Bbb", text))
    told = compare(without_prose(FOURTH).revision, revision_of(other, FOURTH))
    assert told.renamed == ()
    assert {c.path for c in told.changes if c.id == "result-changed"} == {
        "method:tasks/get", "method:tasks/cancel",
    }  # fmt: skip


TRUE = {
    "ResourceReference": "ResourceTemplateReference",
    "JSONRPCError": "JSONRPCErrorResponse",
}
"""What upstream has called otherwise, by the first name."""


@pytest.mark.parametrize(("old", "new"), list(permutations(DATED, 2)))
def test_between_pins_only_upstreams_renames_are_told(old: str, new: str) -> None:
    pairs = set(TRUE.items()) | {(b, a) for a, b in TRUE.items()}
    there, here = load(old).declared.types, load(new).declared.types
    expected = {(a, b) for a, b in pairs if a in there and b in here and a not in here and b not in there}
    assert set(report(old, new).renamed) == expected
