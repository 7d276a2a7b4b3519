"""The facts of the overlay are assertions: one that no longer matches the schema is an error at its entry.

Each invalid entry is written into a separate overlay and applied to a small schema; the error names the file and line
of the entry. The additions of the repository's overlay are checked on the pinned revisions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from helpers.support import (
    DATED,
    DRAFT,
    FIFTH,
    FIRST,
    FOLDER,
    FOURTH,
    REVISIONS,
    SECOND,
    THIRD,
    each_revision,
    load,
    schema_of,
)
from mcprev_codegen import ir
from mcprev_codegen.errors import CodegenError, InputError, SchemaError, SeveralErrors
from mcprev_codegen.facts import overlay, overlay_file
from mcprev_codegen.facts.overlay import OverlayFacts
from mcprev_codegen.facts.overlay_file import Problems
from mcprev_codegen.inputs import SchemaFolder
from mcprev_codegen.resolve.inline_objects import hoist
from mcprev_codegen.resolve.schema import Schema
from mcprev_codegen.typescript.printer import print_inline, print_member

FIRST_, SECOND_, THIRD_ = "2001-01-01", "2002-02-02", "2003-03-03"
SOURCE: Final = """\
export type Id = string | number;
export interface Base { base?: string }
export interface Thing extends Base { name: string; kind: "a" | "b"; list?: (X | Y)[] }
export interface X { type: "x" }
export interface Y { type: "y" }
export interface DoRequest { method: "do/it"; params: { name: string } }
"""


def write(folder: Path, *entries: str) -> SchemaFolder:
    text = "# A comment.\n\n" + "\n".join(f"[[entry]]\n{entry}\n" for entry in entries)
    (folder / overlay_file.OVERLAY_FILE).write_text(text, encoding="utf-8")
    return SchemaFolder(folder)


def entry(pointer: str, expected: str, new: str, extra: str = "") -> str:
    return f'{extra}pointer = "{pointer}"\nexpected = {expected}\nnew = {new}\nwhy = "w"'


def applied(folder: Path, *entries: str, revision: str = SECOND_) -> tuple[Schema, OverlayFacts]:
    loaded = overlay_file.load_overlay(write(folder, *entries))
    problems = Problems(revision)
    schema, facts = overlay.apply_overlay(hoist(schema_of(SOURCE)), loaded, problems)
    problems.stop()
    return schema, facts


# -- entries that fit ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pointer", "expected", "new", "shown"),
    [
        ("Thing.name", '"name: string;"', '"name: number;"', "name: number;"),
        ("Thing.name", '"name: string;"', '"name?: string;"', "name?: string;"),
        ("Thing.extra", '""', '"extra?: Id;"', "extra?: Id;"),
        ("Thing.base", '"base?: string;"', '"base: string;"', "base: string;"),
        (
            "DoRequestParams._meta",
            '""',
            '"_meta?: { [key: string]: unknown };"',
            "_meta?: { [key: string]: unknown };",
        ),
    ],
)
def test_a_member_is_replaced_or_added(
    tmp_path: Path, pointer: str, expected: str, new: str, shown: str
) -> None:
    schema, facts = applied(tmp_path, entry(pointer, expected, new))
    owner, _, name = pointer.partition(".")
    member = schema.flat(owner).get(name)
    assert member is not None
    assert print_member(member) == shown
    assert facts.patched == [pointer]


def test_an_alias_is_replaced_and_may_say_integer(tmp_path: Path) -> None:
    schema, _ = applied(tmp_path, entry("Id", '"string | number"', '"string | integer"'))
    decl = schema.types["Id"]
    assert isinstance(decl, ir.Alias)
    assert decl.type == ir.Union((ir.Prim("string"), ir.Prim("integer")))


def test_facts_are_taken(tmp_path: Path) -> None:
    _, facts = applied(
        tmp_path,
        entry("Thing.name#default", '"string"', '"x"'),
        entry("Thing.list#closed", '"type"', '"Thing"'),
        entry("Thing#was", '"interface"', '"OldThing"'),
        entry("do/it#capability", '""', '"things"'),
        entry("do/it#alternate", '""', '"X"'),
        entry("do/it#name_param", '""', '"name"'),
    )
    assert facts.default == {"Thing.name": "x"}
    assert facts.closed == {"Thing.list": "Thing"}
    assert facts.was == {"Thing": "OldThing"}
    assert facts.capability == {"do/it": "things"}
    assert facts.alternate == {"do/it": "X"}
    assert facts.name_param == {"do/it": "name"}


@pytest.mark.parametrize(
    ("bounds", "revisions"),
    [
        ("", {FIRST_, SECOND_, THIRD_, "draft", "newer"}),
        (f'since = "{SECOND_}"\n', {SECOND_, THIRD_, "draft", "newer"}),
        (f'until = "{SECOND_}"\n', {FIRST_, SECOND_}),
        (f'since = "{SECOND_}"\nuntil = "{SECOND_}"\n', {SECOND_}),
        ('since = "2002-01-01"\nuntil = "2002-12-31"\n', {SECOND_}),
        ('since = "draft"\n', {"draft", "newer"}),
    ],
)
def test_an_entry_holds_from_since_to_until_whether_they_are_pinned_or_not(
    tmp_path: Path, bounds: str, revisions: set[str]
) -> None:
    line = entry("Thing.name#default", '"string"', '"x"', bounds)
    for revision in (FIRST_, SECOND_, THIRD_, "draft", "newer"):
        _, facts = applied(tmp_path, line, revision=revision)
        assert bool(facts.default) == (revision in revisions)


@pytest.mark.parametrize(("since", "told"), [(FIRST_, True), (SECOND_, True), (THIRD_, False)])
def test_an_entry_of_a_revision_after_the_one_that_a_draft_names_holds_for_the_draft_where_it_fits(
    tmp_path: Path, since: str, told: bool
) -> None:
    bounds = f'since = "{since}"\n'
    broken, good = BROKEN["a capability for no method"][0], entry("Thing.name#default", '"string"', '"x"')
    loaded = overlay_file.load_overlay(write(tmp_path, bounds + broken, bounds + good))
    source = SOURCE + f'export const LATEST_PROTOCOL_VERSION = "{SECOND_}";\n'
    problems = Problems("draft", SECOND_)
    _, facts = overlay.apply_overlay(hoist(schema_of(source)), loaded, problems)
    assert bool(problems.found) == told
    assert facts.default == {"Thing.name": "x"}


UNIONS: Final = """
export interface T { list?: (X | Y)[]; one: X | Y; kind: K | L; mixed: X | string; a: Named }
export type Named = X | Y | Z;
export type More = Named;
export type Messages = DoRequest | Other;
export interface X { type: "x" }
export interface Y { type: "y" }
export interface Z { type: "z" }
export interface K { kind: "k" }
export interface L { kind: "l" }
export interface DoRequest { method: "do/it"; params: { name: string } }
export interface Other { method: "other" }
"""


def test_a_union_that_type_tells_apart_is_open_whatever_its_members_are() -> None:
    schema = hoist(schema_of(UNIONS))
    _, facts = overlay.apply_overlay(schema, (), Problems(SECOND_))
    assert facts.open == {"T.list", "T.one", "Named"}
    _, facts = overlay.apply_overlay(
        hoist(schema_of(UNIONS.replace("X | Y)", "X | Y | Z)"))), (), Problems(SECOND_)
    )
    assert facts.open == {"T.list", "T.one", "Named"}


def test_an_entry_closes_a_union_whatever_its_members_are(tmp_path: Path) -> None:
    loaded = overlay_file.load_overlay(
        write(tmp_path, entry("T.one#closed", '"type"', '"T"'), entry("Named#closed", '"type"', '"T"'))
    )
    for source in (UNIONS, UNIONS.replace("one: X | Y", "one: X | Y | Z")):
        problems = Problems(SECOND_)
        _, facts = overlay.apply_overlay(hoist(schema_of(source)), loaded, problems)
        assert problems.found == []
        assert facts.open == {"T.list"}


# -- entries that do not ---------------------------------------------------------------------------------

BROKEN: Final = {
    "another member type": (entry("Thing.name", '"name: number;"', '"name: string;"'), "no longer matches"),
    "another optionality": (entry("Thing.name", '"name?: string;"', '"name: string;"'), "no longer matches"),
    "a member that is gone": (entry("Thing.gone", '"gone: string;"', '"gone: number;"'), "no longer matches"),
    "a member that has come": (entry("Thing.name", '""', '"name: string;"'), "no longer matches"),
    "a type that is gone": (entry("Gone.name", '"name: string;"', '"name: number;"'), "no such type"),
    "an alias that is gone": (entry("Gone", '"string"', '"number"'), "no such type"),
    "an alias of another type": (entry("Id", '"string"', '"number"'), "no longer matches"),
    "an alias that is an interface": (entry("Thing", '"string"', '"number"'), "an interface"),
    "a member of an alias": (entry("Id.name", '""', '"name: string;"'), "no longer matches"),
    "a default for another type": (entry("Thing.name#default", '"number"', "1"), "no longer matches"),
    "a default for no member": (entry("Thing.gone#default", '"string"', '"x"'), "no such member"),
    "a closed union that is none": (entry("Thing.name#closed", '"type"', '"Thing"'), "no longer matches"),
    "a closed union of a type that is gone": (entry("Gone#closed", '"type"', '"Thing"'), "no such type"),
    "a rename of nothing": (entry("Gone#was", '"interface"', '"Old"'), "no such type"),
    "a capability for no method": (entry("no/method#capability", '""', '"x"'), "no such method"),
    "an alternate for no method": (entry("no/method#alternate", '""', '"X"'), "no such method"),
    "a header for no method": (entry("no/method#name_param", '""', '"x"'), "no such method"),
    "an unknown facet": (entry("Thing#colour", '""', '"red"'), "unknown facet '#colour'"),
    "a new type that is not declared": (entry("Thing.name", '"name: string;"', '"name: Gone;"'), "'Gone' is not declared"),
    "a new member that is no TypeScript": (entry("Thing.name", '"name: string;"', '"name string"'), "not a member in TypeScript"),
    "an expectation that is no TypeScript": (entry("Thing.name", '"???"', '"name: string;"'), "not a member in TypeScript"),
    "two members instead of one": (entry("Thing.name", '"name: string;"', '"name: string; b: string;"'), "not a member in TypeScript"),
    "an unknown since": (entry("Thing.name#default", '"string"', '"x"', 'since = "zero"\n'), "'zero' is not a revision"),
    "an unknown until": (entry("Thing.name#default", '"string"', '"x"', 'until = "zero"\n'), "'zero' is not a revision"),
}  # fmt: skip


@pytest.mark.parametrize(("broken", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_an_entry_that_does_not_fit_is_an_error_at_its_place(tmp_path: Path, broken: str, words: str) -> None:
    good = entry("Thing.name#default", '"string"', '"x"')
    with pytest.raises(SchemaError) as caught:
        applied(
            tmp_path, good.replace("Thing.name", "Thing.kind").replace('"string"', '\'"a" | "b"\''), broken
        )
    assert words in caught.value.message
    lines = (tmp_path / overlay_file.OVERLAY_FILE).read_text(encoding="utf-8").split("\n")
    assert caught.value.path == str(tmp_path / overlay_file.OVERLAY_FILE)
    assert lines[caught.value.line - 1] == caught.value.source_line
    assert caught.value.source_line.startswith("pointer")
    assert caught.value.column == 1
    assert caught.value.line > lines.index("[[entry]]") + 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('pointer = "Id"\nexpected = ""\nnew = ""', "why"),
        ('pointer = "Id"\nexpected = ""\nwhy = ""', "new"),
        ('pointer = "Id"\nexpected = ""\nnew = ""\nwhy = ""\ncolour = "red"', "colour"),
        ('expected = ""\nnew = ""\nwhy = ""', "pointer"),
        ('pointers = []\nexpected = ""\nnew = ""\nwhy = ""', "pointer"),
    ],
)
def test_an_entry_that_is_not_well_formed_is_an_error_at_its_place(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(SchemaError, match=words) as caught:
        overlay_file.load_overlay(write(tmp_path, text))
    assert caught.value.line >= 3


@pytest.mark.parametrize("text", ["[[entry]\n", "entry = 1\n[[entry]]\n"])
def test_an_overlay_that_is_no_toml_is_one_line_of_error(tmp_path: Path, text: str) -> None:
    (tmp_path / overlay_file.OVERLAY_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=overlay_file.OVERLAY_FILE):
        overlay_file.load_overlay(SchemaFolder(tmp_path))


@pytest.mark.parametrize("text", ["", "# nothing\n", "entry = []\n"])
def test_an_overlay_without_entries_changes_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / overlay_file.OVERLAY_FILE).write_text(text, encoding="utf-8")
    assert overlay_file.load_overlay(SchemaFolder(tmp_path)) == ()


def test_a_missing_overlay_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=overlay_file.OVERLAY_FILE):
        overlay_file.load_overlay(SchemaFolder(tmp_path))


def test_the_same_fact_twice_is_an_error(tmp_path: Path) -> None:
    line = entry("Thing.name#default", '"string"', '"x"')
    with pytest.raises(SchemaError, match="two entries for one revision") as caught:
        applied(tmp_path, line, line)
    assert caught.value.line == 10


def test_what_does_not_fit_is_a_problem_and_changes_nothing(tmp_path: Path) -> None:
    loaded = overlay_file.load_overlay(write(tmp_path, *(broken for broken, _ in BROKEN.values())))
    problems, before = Problems(SECOND_), hoist(schema_of(SOURCE))
    schema, facts = overlay.apply_overlay(before, loaded, problems)
    assert schema == before
    assert facts == OverlayFacts(open=frozenset({"Thing.list"}))
    assert len(problems.found) == len(list(problems.warnings())) == len(BROKEN)


def test_all_entries_that_do_not_fit_are_told_at_once_each_with_its_revision_and_what_to_do(
    tmp_path: Path,
) -> None:
    with pytest.raises(SeveralErrors) as caught:
        applied(tmp_path, *(broken for broken, _ in BROKEN.values()))
    assert len(caught.value.errors) == len(BROKEN)
    lines = [line for line in str(caught.value).split("\n") if ".toml:" in line]
    assert len(lines) == len(BROKEN)
    for line, (_, words) in zip(lines, BROKEN.values(), strict=True):
        assert words in line
        assert f": {SECOND_}: " in line or "is not a revision" in line
        if "no longer matches" in line:
            assert "the entry expects" in line
            assert "correct the entry, or end it with `until` and add another with `since`" in line


def test_the_error_shows_what_is_there_and_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(CodegenError, match=r"has \"name: string;\", the entry expects \"name: number;\""):
        applied(tmp_path, BROKEN["another member type"][0])


# -- the repo's own overlay ------------------------------------------------------------------------------


def test_every_entry_of_the_repo_says_why_and_is_used() -> None:
    for item in overlay_file.load_overlay(FOLDER):
        assert item.table.values.entry[item.number].why
        assert any(
            item.holds_for(revision) for revision in REVISIONS
        ), f"{item.pointers}: for no pinned revision"


@each_revision
def test_every_params_object_that_may_carry_metadata_does(revision: str) -> None:
    """All params have `_meta` but those of requests that a newer revision embeds in results."""
    current = load(revision)
    bare = (
        {"sampling/createMessage", "elicitation/create"} if load(revision).era == "stateless" else set[str]()
    )
    for m in current.methods.values():
        assert m.params is not None
        for member in current.schema.members(ir.Ref(m.params)):
            flat = current.schema.flatten(member)
            assert (flat.get("_meta") is None) == (m.method in bare), (m.method, member)


@pytest.mark.parametrize("revision", [name for name in DATED if load(name).era == "handshake"])
def test_the_metadata_of_a_request_has_a_progress_token(revision: str) -> None:
    current = load(revision)
    for m in current.methods.values():
        if m.kind == "request":
            for params in current.schema.members(ir.Ref(m.params or "")):
                meta = current.schema.flatten(params).get("_meta")
                assert meta is not None
                assert current.schema.flatten(meta.type).get("progressToken") is not None


@each_revision
def test_identifiers_are_strings_or_whole_numbers(revision: str) -> None:
    for name in ("RequestId", "ProgressToken"):
        decl = load(revision).schema.types[name]
        assert isinstance(decl, ir.Alias)
        assert print_inline(decl.type) == "string | integer"


@pytest.mark.parametrize("revision", [FIFTH, DRAFT])
def test_the_newest_results_have_defaults_for_older_peers(revision: str) -> None:
    current = load(revision)
    assert current.facts.default == {
        "Result.resultType": "complete",
        "CacheableResult.ttlMs": 0,
        "CacheableResult.cacheScope": "private",
    }
    member = current.schema.flat("InputRequiredResult").get("resultType")
    assert member is not None
    assert print_member(member) == 'resultType: "input_required";'


@pytest.mark.parametrize(
    ("revision", "places"),
    [
        (FIRST, {"PromptMessage.content", "CallToolResult.content", "SamplingMessage.content"}),
        (SECOND, {"PromptMessage.content", "CallToolResult.content", "SamplingMessage.content"}),
        (THIRD, {"ContentBlock", "SamplingMessage.content"}),
        (FOURTH, {"ContentBlock", "SamplingMessageContentBlock"}),
        (FIFTH, {"ContentBlock", "SamplingMessageContentBlock"}),
        (DRAFT, {"ContentBlock", "SamplingMessageContentBlock"}),
    ],
)
def test_which_unions_keep_content_of_an_unknown_type(revision: str, places: set[str]) -> None:
    assert load(revision).facts.open == places


@each_revision
def test_an_added_member_has_a_description(revision: str) -> None:
    current = load(revision)
    for place in current.facts.patched:
        owner, _, name = place.partition(".")
        if name:
            member = current.schema.flat(owner).get(name)
            assert member is not None
            assert member.doc.text, place
