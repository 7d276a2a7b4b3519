"""The rule table: complete, mirrored, and with an example for each case."""

from __future__ import annotations

from itertools import permutations

import pytest

from diff.diffing import report, revision_of
from diff.mini import BASE, EDITS, Edit
from helpers.support import DATED, FIFTH, load
from mcprev_codegen.diff import Case, Change, Level, Report, Verdict, compare, table
from mcprev_codegen.typescript.printer import print_module

TAXONOMY = [
    "method-added",
    "method-removed",
    "direction-added",
    "direction-removed",
    "transport-changed",
    "params-required",
    "params-optional",
    "result-changed",
    "result-alternate-added",
    "result-alternate-removed",
    "type-added",
    "type-removed",
    "type-renamed",
    "type-kind-changed",
    "name-reused",
    "base-added",
    "base-removed",
    "field-added-optional",
    "field-added-required",
    "field-removed",
    "field-became-required",
    "field-became-optional",
    "field-moved-to-base",
    "field-moved-from-base",
    "field-inlined",
    "field-extracted",
    "type-widened",
    "type-narrowed",
    "type-changed",
    "type-equivalent",
    "literal-added",
    "literal-removed",
    "open-literal-added",
    "union-member-added",
    "union-member-removed",
    "union-member-reordered",
    "nullable-added",
    "nullable-removed",
    "openness-changed",
    "constraint-tightened",
    "constraint-loosened",
    "format-changed",
    "default-changed",
    "deprecated",
    "undeprecated",
    "internal",
    "public",
    "constant-added",
    "constant-removed",
    "constant-changed",
    "error-code-added",
    "error-code-removed",
    "error-code-changed",
    "doc-changed",
]

VERDICTS = {
    "field-added-required:any": ("breaking", "ok"),
    "field-added-optional:any": ("ok", "ok"),
    "field-removed:required": ("ok", "breaking"),
    "field-removed:optional": ("ok", "ok"),
    "field-became-required:any": ("breaking", "ok"),
    "field-became-optional:any": ("ok", "breaking"),
    "params-required:any": ("breaking", "ok"),
    "params-optional:any": ("ok", "breaking"),
    "type-widened:any": ("ok", "dangerous"),
    "union-member-added:any": ("ok", "dangerous"),
    "literal-added:any": ("ok", "dangerous"),
    "type-narrowed:any": ("breaking", "ok"),
    "union-member-removed:any": ("breaking", "ok"),
    "literal-removed:any": ("breaking", "ok"),
    "constraint-tightened:any": ("breaking", "ok"),
    "open-literal-added:any": ("ok", "ok"),
    "open-literal-removed:any": ("ok", "ok"),
    "type-equivalent:any": ("ok", "ok"),
    "field-extracted:any": ("ok", "ok"),
    "field-moved-to-base:any": ("ok", "ok"),
    "type-renamed:any": ("ok", "ok"),
    "type-changed:any": ("breaking", "breaking"),
    "transport-changed:any": ("breaking", "breaking"),
    "method-added:request": ("ok", "dangerous"),
    "method-added:gated-request": ("ok", "ok"),
    "method-removed:request": ("breaking", "ok"),
    "constant-removed:any": ("dangerous", "dangerous"),
    "error-code-changed:any": ("dangerous", "dangerous"),
    "deprecated:any": ("ok", "ok"),
    "doc-changed:any": ("ok", "ok"),
    "category-changed:any": ("ok", "ok"),
}
"""The verdict of each kind of change, old peer to new and new peer to old."""


def test_every_change_of_the_taxonomy_has_a_rule() -> None:
    assert set(TAXONOMY) - set(table().rules) == set()
    assert set(table().rules) - set(TAXONOMY) == {"open-literal-removed", "category-changed"}


def test_the_verdicts_are_those_of_the_taxonomy() -> None:
    for name, verdicts in VERDICTS.items():
        rule, _, case = name.partition(":")
        judged = table().rules[rule].cases[case]
        assert (judged.old_to_new.verdict.value, judged.new_to_old.verdict.value) == verdicts, name


CASES = [f"{rule.id}:{case}" for rule in table().rules.values() for case in rule.cases]


@pytest.mark.parametrize("name", CASES)
def test_each_rule_has_a_mirror_that_mirrors_back(name: str) -> None:
    case, mirror = _case(name), _case(_case(name).mirror)
    assert mirror.mirror == name
    assert mirror.level is case.level
    swap = {"wider": "narrower", "narrower": "wider"}
    assert mirror.effect.value == swap.get(case.effect.value, case.effect.value)


LOPSIDED = {
    "constant-added:any", "constant-removed:any", "error-code-added:any", "error-code-removed:any",
    "method-added:gated-request", "method-removed:gated-request",
    "method-added:gated-notification", "method-removed:gated-notification",
}  # fmt: skip
"""To lose a constant is a loss both ways, to gain one is none; a capability guards a new method, not a lost one."""


@pytest.mark.parametrize("name", sorted(set(CASES) - LOPSIDED))
def test_who_is_harmed_one_way_is_harmed_the_other_way_in_the_mirror(name: str) -> None:
    case, mirror = _case(name), _case(_case(name).mirror)
    assert (case.old_to_new.verdict is Verdict.OK) == (mirror.new_to_old.verdict is Verdict.OK)
    assert (case.new_to_old.verdict is Verdict.OK) == (mirror.old_to_new.verdict is Verdict.OK)


@pytest.mark.parametrize("name", CASES)
def test_each_reason_is_one_sentence(name: str) -> None:
    for judgement in (_case(name).old_to_new, _case(name).new_to_old):
        assert judgement.reason[0].isupper()
        assert judgement.reason.endswith(".")
        assert ". " not in judgement.reason


def test_only_what_is_sent_or_named_can_harm() -> None:
    for name in CASES:
        case = _case(name)
        if case.level in (Level.SOURCE, Level.DOC):
            assert {case.old_to_new.verdict, case.new_to_old.verdict} == {Verdict.OK}, name


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: f"{edit.rule} {edit.path}")
def test_each_example_shows_its_rule_and_the_way_back_its_mirror(edit: Edit) -> None:
    old, new = revision_of(BASE), revision_of(edit.applied())
    (forth,) = _found(compare(old, new).changes, edit.rule, edit.path)
    mirror = _case(edit.rule).mirror
    back = [c for c in compare(new, old).changes if f"{c.id}:{c.case}" == mirror]
    assert (forth.old and forth.old.path, forth.new and forth.new.path) in [
        (c.new and c.new.path, c.old and c.old.path) for c in back
    ]


@pytest.mark.slow
def test_every_case_of_every_rule_has_an_example() -> None:
    shown = {edit.rule for edit in EDITS} | {_case(edit.rule).mirror for edit in EDITS}
    shown |= {f"{c.id}:{c.case}" for told in _with_and_without_a_defaulted_member() for c in told.changes}
    for pair in permutations(DATED, 2):
        shown |= {f"{change.id}:{change.case}" for change in report(*pair).changes}
    assert set(CASES) - shown == set()


def _with_and_without_a_defaulted_member() -> tuple[Report, Report]:
    """A member that the specification gives a value when it is absent, once required and once not."""
    text = print_module(load(FIFTH).declared.module)
    old = revision_of(text.replace("  resultType: ResultType;", "  resultType?: ResultType;"), FIFTH)
    new = revision_of(text, FIFTH)
    return compare(old, new), compare(new, old)


def _case(name: str) -> Case:
    rule, _, case = name.partition(":")
    return table().rules[rule].cases[case]


def _found(changes: tuple[Change, ...], rule: str, path: str) -> list[Change]:
    return [c for c in changes if f"{c.id}:{c.case}" == rule and c.path == path]
