"""Descriptions: one for every declared name, none for names that no revision declares.

`schema/descriptions.toml` is shared by all revisions. A description is one or two sentences on one line, safe inside a
docstring. A member may have none.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, cast

import pytest

from helpers.support import FOLDER, REVISIONS, SCHEMA, each_revision, load
from mcprev_codegen import ir
from mcprev_codegen.errors import InputError
from mcprev_codegen.facts import descriptions
from mcprev_codegen.inputs import SchemaFolder
from mcprev_codegen.python.names import snake_case
from mcprev_codegen.typescript import reader as typescript

LONGEST: Final = 160
EMPTY: Final = frozenset(
    re.findall(
        r"\w+",
        "a an the of is are to for in on by or and it its this that with a at from be if when which who what how one each "
        "all any not no can there ha value object field member",
    )
)
"""Words that say nothing of a member; plural endings are off."""


@cache
def document() -> dict[str, Any]:
    return tomllib.loads((SCHEMA / descriptions.DESCRIPTIONS_FILE).read_text(encoding="utf-8"))


def paths(type_: ir.TypeExpr, prefix: str = "") -> Iterator[str]:
    """The dotted paths of the members declared inside a type."""
    match type_:
        case ir.Obj(fields):
            for f in fields:
                yield prefix + f.name
                yield from paths(f.type, f"{prefix}{f.name}.")
        case ir.Array(item):
            yield from paths(item, prefix)
        case ir.Union(members) | ir.Intersection(members):
            for member in members:
                yield from paths(member, prefix)
        case _:
            pass


def members(decl: ir.Decl) -> set[str]:
    match decl:
        case ir.Interface(_, _, fields):
            return set(paths(ir.Obj(fields)))
        case ir.Alias(_, type_):
            return set(paths(type_))
        case _:
            return set()


def texts() -> Iterator[tuple[str, str]]:
    """Every text of the file with the place where it stands."""

    def visit(value: object, place: str) -> Iterator[tuple[str, str]]:
        if isinstance(value, str):
            yield place, value
        else:
            assert isinstance(value, dict), place
            for key, item in cast("dict[str, object]", value).items():
                yield from visit(item, f"{place}.{key}")

    yield from visit(document(), "")


@each_revision
def test_every_type_and_constant_has_a_description(revision: str) -> None:
    known = descriptions.load_descriptions(FOLDER, revision)
    declared = load(revision).declared
    assert [
        name for name in declared.types if not (known.types.get(name) or descriptions.TypeText()).doc
    ] == []
    assert [name for name in declared.consts if name not in known.constants] == []


@each_revision
def test_every_description_arrives_in_the_schema(revision: str) -> None:
    known = descriptions.load_descriptions(FOLDER, revision)
    for name, decl in load(revision).declared.types.items():
        assert decl.doc.text == known.types[name].doc
    for name, const in load(revision).declared.consts.items():
        assert const.doc.text == known.constants[name]


def test_nothing_is_described_that_no_revision_declares() -> None:
    declared: dict[str, set[str]] = {}
    constants: set[str] = set()
    for revision in REVISIONS:
        for decl in load(revision).declared.module.decls:
            if isinstance(decl, ir.Const):
                constants.add(decl.name)
            else:
                declared.setdefault(decl.name, set()).update(members(decl))
    everything = {path.rpartition(".")[2] for found in declared.values() for path in found}
    everything |= {path for found in declared.values() for path in found}
    assert set(document()["constants"]) <= constants
    assert set(document()["fields"]) <= everything
    for name, entry in document()["types"].items():
        assert name in declared, f"no revision declares the type {name}"
        assert set(entry.get("fields", {})) <= declared[name], name


def test_an_override_is_about_a_pinned_revision_and_something_it_declares() -> None:
    for revision, override in document().get("revisions", {}).items():
        types = load(revision).declared.types
        for name, entry in override["types"].items():
            assert name in types, f"{revision} does not declare {name}"
            assert set(entry.get("fields", {})) <= members(types[name]), name
            assert set(entry) <= {"doc", "fields"}


def test_an_override_says_something_else_than_the_shared_text() -> None:
    for override in document().get("revisions", {}).values():
        for name, entry in override["types"].items():
            shared = document()["types"].get(name, {})
            assert entry.get("doc") != shared.get("doc") or "doc" not in entry
            for key, text in entry.get("fields", {}).items():
                assert text != shared.get("fields", {}).get(key), (name, key)


def test_the_file_has_no_other_sections() -> None:
    assert set(document()) <= {"constants", "fields", "types", "revisions"}
    for entry in document()["types"].values():
        assert set(entry) <= {"doc", "fields"}


@pytest.mark.parametrize(("place", "text"), list(texts()), ids=[place for place, _ in texts()])
def test_a_description_is_a_sentence_that_fits_a_docstring(place: str, text: str) -> None:
    assert text == text.strip()
    assert "\n" not in text
    assert len(text) <= LONGEST
    assert '"""' not in text
    assert "\\" not in text
    assert not text.endswith('"')
    assert text[-1] in ".`)"
    assert text[0].isupper() or text[0] in "`\"'"
    assert text.count("`") % 2 == 0
    assert not re.search(r"\bTODO\b|\bFIXME\b|  ", text)


def test_an_unreadable_file_is_one_line_of_error(tmp_path: Any) -> None:
    with pytest.raises(InputError, match=descriptions.DESCRIPTIONS_FILE):
        descriptions.load_descriptions(SchemaFolder(tmp_path), REVISIONS[0])
    (tmp_path / descriptions.DESCRIPTIONS_FILE).write_text("[types", encoding="utf-8")
    with pytest.raises(InputError, match=descriptions.DESCRIPTIONS_FILE):
        descriptions.load_descriptions(SchemaFolder(tmp_path), REVISIONS[0])


def test_a_text_of_a_type_goes_before_the_shared_one_and_a_revisions_before_both(tmp_path: Any) -> None:
    source = """
[fields]
a = "Shared a."
b = "Shared b."
c = "Shared c."
[types.T]
doc = "Type."
fields = { b = "Own b.", "in.b" = "Inner b." }
[revisions."2".types.T]
fields = { c = "Newer c." }
[revisions."3".types.T]
doc = "Newer."
"""
    (tmp_path / descriptions.DESCRIPTIONS_FILE).write_text(source, encoding="utf-8")
    inner = ir.Obj((ir.Field("a", ir.Prim("string")), ir.Field("b", ir.Prim("string"))))
    names = ("a", "b", "c")
    fields = (*(ir.Field(n, ir.Prim("string")) for n in names), ir.Field("in", ir.Array(inner)))
    module = ir.Module((ir.Interface("T", fields=fields),))

    def read(revision: str) -> tuple[str | None, list[str | None], list[str | None]]:
        decl = descriptions.load_descriptions(SchemaFolder(tmp_path), revision).attach(module).types["T"]
        assert isinstance(decl, ir.Interface)
        last = decl.fields[-1].type
        assert isinstance(last, ir.Array)
        assert isinstance(last.item, ir.Obj)
        return decl.doc.text, [f.doc.text for f in decl.fields[:3]], [f.doc.text for f in last.item.fields]

    assert read("1") == ("Type.", ["Shared a.", "Own b.", "Shared c."], ["Shared a.", "Inner b."])
    assert read("2") == ("Type.", ["Shared a.", "Own b.", "Newer c."], ["Shared a.", "Inner b."])
    assert read("3") == ("Newer.", ["Shared a.", "Own b.", "Shared c."], ["Shared a.", "Inner b."])


@each_revision
def test_a_member_that_can_only_be_one_text_has_no_text_that_repeats_it(revision: str) -> None:
    """Its hint says the value: `type: Literal["text"]`. What else there is to know may be said."""
    schema = load(revision).schema
    for name in schema.types:
        for f in schema.flat(name).fields if schema.is_object(ir.Ref(name)) else ():
            values = schema.literals(f.field.type)
            if len(values) == 1 and isinstance(values[0], str) and not f.field.optional:
                said = f.field.doc.text or ""
                assert not re.fullmatch(rf"(Always|.*, always) `{re.escape(values[0])}`\.|Fixed .*", said), (
                    name,
                    f.name,
                )


@each_revision
def test_a_text_says_more_than_the_names_of_its_member_and_type(revision: str) -> None:
    """Words that carry no meaning aside, a text has at least one that neither name has."""
    schema = load(revision).schema
    for name in schema.types:
        for f in schema.flat(name).fields if schema.is_object(ir.Ref(name)) else ():
            named = words(snake_case(name)) | words(snake_case(f.name))
            for type_name in ir.references(f.field.type):
                named |= words(snake_case(type_name))
            said = words(f.field.doc.text or "")
            assert not said or said - named - EMPTY, (name, f.name, f.field.doc.text)


def words(text: str) -> set[str]:
    return {word.removesuffix("s") for word in re.findall(r"[a-z]+", text.lower())}


INNER: Final = "{ inner: string }"


@pytest.mark.parametrize(
    "declared",
    [
        f"interface T {{ outer: {type_} }}"
        for type_ in (
            INNER, f"{INNER}[]", f"{INNER} | null", f"{INNER} & {{ more: string }}", f"Record<string, {INNER}>",
            f"[string, {INNER}]", f"{{ [key: string]: {INNER} }}", f"Record<string, [{INNER}[] | null]>",
        )
    ],
)  # fmt: skip
def test_a_member_has_its_description_in_every_kind_of_type(declared: str) -> None:
    texts = descriptions.TypeText(fields={"outer.inner": "The inner text."})
    module = descriptions.Descriptions({"T": texts}, {}, {}).attach(typescript.parse(declared, "schema.ts"))
    found = {n.name: n.doc.text for n in ir.walk(module) if isinstance(n, ir.Field)}
    assert (found["outer"], found["inner"]) == (None, "The inner text.")


@pytest.mark.parametrize(
    "declared",
    [
        "interface T { [key: string]: { inner: string } }",
        "type T = Record<string, { inner: string }>;",
        "type T = [{ inner: string }];",
    ],
)
def test_a_member_of_a_map_or_tuple_has_its_own_description_or_that_of_its_name(declared: str) -> None:
    module = typescript.parse(declared, "schema.ts")
    own = {"T": descriptions.TypeText(fields={"inner": "Its own."})}
    for types, expected in ((own, "Its own."), ({}, "Of its name.")):
        attached = descriptions.Descriptions(types, {"inner": "Of its name."}, {}).attach(module)
        assert [n.doc.text for n in ir.walk(attached) if isinstance(n, ir.Field)] == [expected]
