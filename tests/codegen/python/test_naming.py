"""Wire names and Python names: one rule for each kind of name, unique names, and the inverse mapping.

A name that clashes with Python or with the generated base class is refused at its declaration, and never changed
silently.
"""

from __future__ import annotations

import keyword
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from hypothesis import given, strategies as st

from helpers.support import FOLDER, PYTHON_NAMES, each_revision, load, same
from mcprev_codegen import ir
from mcprev_codegen.build.packages import generate_project
from mcprev_codegen.emit import package as emit
from mcprev_codegen.emit.models.plan import ModelClass
from mcprev_codegen.emit.models.planner import plan_models
from mcprev_codegen.emit.pydantic.modules import PydanticClass, PydanticModule, model_files
from mcprev_codegen.errors import CodegenError, SchemaError
from mcprev_codegen.facts import load as sources
from mcprev_codegen.ir import names
from mcprev_codegen.python import names as naming
from mcprev_codegen.support._names import camel_case
from mcprev_types._base import Model, Opt
from mcprev_types._names import wire_name


@pytest.mark.parametrize(
    ("wire", "attribute"),
    [
        ("name", "name"),
        ("nextCursor", "next_cursor"),
        ("mimeType", "mime_type"),
        ("_meta", "meta"),
        ("$schema", "schema_uri"),
        ("ttlMs", "ttl_ms"),
        ("oneOf", "one_of"),
        ("const", "const"),
        ("enum", "enum"),
        ("class", "class_"),
        ("from", "from_"),
        ("websiteUrl", "website_url"),
        ("io.modelcontextprotocol/protocolVersion", "protocol_version"),
        ("com.example/some-key", "com_example_some_key"),
        ("URLParams", "url_params"),
        ("id", "id"),
        ("list", "list"),
        ("", "field"),
        ("-", "field"),
        ("0a", "field_0a"),
        ("+1", "plus_1"),
        ("-1", "minus_1"),
        ("_id", "id"),
        ("Gr\u00f6\u00dfe", "gr\u00f6\u00dfe"),
        ("\ufb01n-x", "fin_x"),
    ],
)
def test_the_attribute_of_a_member(wire: str, attribute: str) -> None:
    assert naming.PythonNames().attribute(wire) == attribute


@pytest.mark.parametrize(
    ("type_", "stub"),
    [
        ("CallToolRequest", "call_tool"),
        ("ListToolsRequest", "list_tools"),
        ("CancelledNotification", "cancelled"),
        ("PingRequest", "ping"),
        ("GetTaskPayloadRequest", "get_task_payload"),
        ("SubscriptionsListenRequest", "subscriptions_listen"),
        ("SetLevelRequest", "set_level"),
        ("ImportRequest", "import_"),
    ],
)
def test_the_stub_of_a_message(type_: str, stub: str) -> None:
    assert naming.stub(type_) == stub


@pytest.mark.parametrize(
    ("member", "part"),
    [
        ("params", "Params"),
        ("oneOf", "OneOf"),
        ("_meta", "Meta"),
        ("$schema", "Schema"),
        ("a/bC", "BC"),
        ("listChanged", "ListChanged"),
    ],
)
def test_what_a_member_adds_to_a_class_name(member: str, part: str) -> None:
    assert names.pascal_case(member) == part


@pytest.mark.parametrize(
    ("revision", "module"),
    [("2099-11-25", "v2099_11_25"), ("draft", "draft"), ("draft-two", "draft_two"), ("0.1", "v0_1")],
)
def test_the_module_of_a_revision(revision: str, module: str) -> None:
    assert naming.module_name(revision) == module


@each_revision
def test_no_two_members_of_a_type_share_an_attribute(revision: str) -> None:
    schema = load(revision).schema
    for name in schema.types:
        if schema.is_object(ir.Ref(name)):
            members = [f.name for f in schema.flat(name).fields]
            attributes = [PYTHON_NAMES.attribute(member) for member in members]
            assert len(set(attributes)) == len(members), name
            assert all(a.isidentifier() and not keyword.iskeyword(a) for a in attributes)


@each_revision
def test_the_base_class_and_the_generator_derive_the_same_wire_names(revision: str) -> None:
    """Where the base class derives another name, the generated member says its own."""
    plan = plan_models(load(revision), (), {})
    modules = {f"models/{module.module}.py": module for module in plan.modules}
    for file in model_files(plan):
        assert isinstance(file.data, PydanticModule)
        for planned, written in zip(modules[file.path].models, file.data.models, strict=True):
            if isinstance(planned, ModelClass):
                assert isinstance(written, PydanticClass)
                for member, line in zip(planned.members, written.attributes, strict=True):
                    own = f"wire('{member.field.name}')" in line.annotation.text
                    assert (wire_name(line.name) != member.field.name) == own


@given(st.from_regex(r"[a-z][a-z0-9]*([A-Z][a-z0-9]+)*", fullmatch=True))
def test_camel_case_comes_back(member: str) -> None:
    attribute = naming.snake_case(member)
    assert attribute == attribute.lower()
    assert naming.snake_case(camel_case(attribute)) == attribute
    assert camel_case(attribute) == wire_name(attribute) or attribute in ("meta", "schema_uri")


# -- names that cannot be --------------------------------------------------------------------------------

MESSAGE = """\
export type ClientRequest = GetRequest;
export interface GetRequest { method: "things/get"; params: GetParams }
export interface GetParams { a: string }
export interface GetResult { b: string }
export type ServerResult = GetResult;
"""


def package(path: Path) -> dict[str, str]:
    revision = sources.load_file(FOLDER, path, "2099-01-01")
    return emit.package_files(revision, emit.RevisionChain([revision], None, []))


def generated(folder: Path, source: str) -> str:
    path = folder / "schema.ts"
    path.write_text(MESSAGE + source, encoding="utf-8")
    return package(path)["models/common_types.py"]


def test_a_plain_schema_is_generated(tmp_path: Path) -> None:
    assert "class Thing(Model):" in generated(
        tmp_path, "export interface Thing { name: string; class?: string }"
    )


@pytest.mark.parametrize(
    "members",
    [
        '"a-b": string; a_b: string',
        '"a-b": string; aB: string',
        "aB: string; a_b?: string",
        "_meta?: object; meta?: string",
        '"io.modelcontextprotocol/name": string; name: string',
    ],
)
def test_two_members_with_one_attribute_are_refused(tmp_path: Path, members: str) -> None:
    with pytest.raises(SchemaError, match=r"under \[members\] in names.toml") as caught:
        generated(tmp_path, f"export interface Thing {{ {members} }}")
    assert caught.value.source_line.startswith("export interface Thing")


def test_an_inherited_member_with_the_same_attribute_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError):
        generated(
            tmp_path, 'export interface A { aB: string }\nexport interface Thing extends A { "a-b": string }'
        )


@pytest.mark.parametrize(
    "member",
    [
        "model_config",
        "model_dump",
        "model_fields",
        "copy",
        "json",
        "dict",
        "to_wire",
        "from_wire",
        "toWire",
        "to_json",
    ],
)
def test_a_member_that_would_hide_the_base_class_is_refused(tmp_path: Path, member: str) -> None:
    with pytest.raises(SchemaError, match=r"under \[members\] in names.toml"):
        generated(tmp_path, f"export interface Thing {{ {member}?: string }}")


@pytest.mark.parametrize(
    "member", ["", "0a", "\u00e9", "-", "model_config", "copy", "to_wire", "toWire", "to_json", "a-b"]
)
def test_a_member_that_was_left_out_is_kept_by_its_name_on_the_wire(member: str) -> None:
    class Thing(Model):
        a_b: Opt[str] = None

    for data in ({member: "text"}, {member: [1], "aB": "own"}):
        assert Thing.from_wire(data).to_wire() == data


@pytest.mark.parametrize(
    "name",
    [
        "int",
        "dict",
        "$Dollar",
        "Model",
        "Opt",
        "Literal",
        "Field",
        "UnknownContent",
        "Any",
        "ABSENT",
    ],
)
def test_a_type_whose_name_the_module_needs_or_cannot_write_is_refused(tmp_path: Path, name: str) -> None:
    source = f'export interface {name} {{ name?: "a" | "b"; more?: {name}[]; any?: unknown }}'
    with pytest.raises(SchemaError, match=r"under \[types\] in names.toml"):
        generated(tmp_path, source)


@pytest.mark.parametrize("source", ["", "export const X = 1;"])
def test_a_schema_without_types_is_refused(tmp_path: Path, source: str) -> None:
    path = tmp_path / "schema.ts"
    path.write_text(source, encoding="utf-8")
    with pytest.raises(CodegenError):
        package(path)


# -- names that are chosen, and those that are given --------------------------------------------------------------------------------


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], ModuleType]]:
    """Generates a package of types from a schema with a file of names, and imports it."""
    (tmp_path / "acme").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "acme"), *sys.path])

    def make(source: str, names: str, target: str = "pydantic") -> ModuleType:
        (tmp_path / "acme.ts").write_text(source, encoding="utf-8")
        (tmp_path / "names.toml").write_text(names, encoding="utf-8")
        generate_project(
            FOLDER, tmp_path / "acme.ts", tmp_path / "acme", "1.0",
            overlay=False, names=tmp_path / "names.toml", target=target,
        )  # fmt: skip
        return import_module("acme.v1_0")

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme"]:
        del sys.modules[name]


CHOSEN: Final = {
    "user_profile": "user_profile", "Gr\u00f6\u00dfe": "Gr\u00f6\u00dfe", "A_": "A_", "_Private": "_Private",  # they stay
    "$Dollar": "Dollar", "A$B": "A_B", "$1": "Type1", "__X": "_X", "class_$": "class_",
    "int": "int_", "Literal": "Literal_", "Model": "Model_", "methods": "methods_", "v1_0": "v1_0_",
    "part": "part_",  # the name of an attribute
    "Dollar$": "Dollar2",
}  # fmt: skip
MEMBERS: Final = """\
export const int_ = 1; export const list = "x";
export interface Base { _id?: string; id: string; birthDate?: string; _birthDate?: 1 }
export interface Own extends Base { "birth-date"?: 2; "+1": 1; copy: 3; part: part; "@type"?: "x"; type: "y" }
export interface Other { _id: 4 }
"""


@pytest.mark.slow
def test_names_that_python_cannot_have_are_chosen(acme: Callable[..., ModuleType]) -> None:
    found: Any = acme("".join(f"export interface {name} {{ a: 1 }}\n" for name in CHOSEN) + MEMBERS, "")
    for name in CHOSEN.values():
        assert getattr(found.models, name).from_wire({"a": 1}).to_wire() == {"a": 1}
    value = {
        "_id": "a",
        "id": "b",
        "_birthDate": 1,
        "birth-date": 2,
        "+1": 1,
        "copy": 3,
        "part": {"a": 1},
        "type": "y",
    }
    one = found.models.Own.from_wire(value)
    assert same(one.to_wire(), value)
    assert (one.id, one.id_2, one.birth_date, one.birth_date_2, one.birth_date_3) == ("b", "a", None, 1, 2)
    assert (one.plus_1, one.copy_, one.type, one.type_2) == (1, 3, "y", None)
    assert found.models.Other(id_2=4).to_wire() == {"_id": 4}
    assert (found.constants.int_2, found.constants.list_) == (1, "x")


GIVEN: Final = """\
[types]
int = "WholeThing"
dict = "Dict"
dictX = "DictX"
dictY = "DictY"
Model = "AcmeModel"
"_Private" = "Private"
[members]
"" = "empty"
"0a" = "zero"
"a-b" = "hyphen"
copy = "duplicate"
toWire = "wired"
model_config = "configuration"
"""
CLASHING: Final = """\
export interface int { "": string; "0a": 1; "a-b"?: Model; aB: _Private | null }
export interface Model extends _Private { copy: dict[]; toWire?: string }
export interface _Private { model_config?: number }
export type dict = { t: "x"; v: int } | { t: "y"; copy?: 1 };
"""
VALUE: Final[dict[str, Any]] = {
    "": "e", "0a": 1, "a-b": {"copy": [{"t": "y", "copy": 1}], "toWire": "w", "model_config": 2}, "aB": None,
}  # fmt: skip


@pytest.mark.slow
def test_given_names_are_those_of_classes_and_attributes(acme: Callable[..., ModuleType]) -> None:
    found: Any = acme(CLASHING, GIVEN)
    one = found.models.WholeThing.from_wire(VALUE)
    assert same(one.to_wire(), VALUE)
    assert (one.empty, one.zero, one.a_b) == ("e", 1, None)
    assert isinstance(one.hyphen, found.models.AcmeModel)
    assert isinstance(one.hyphen, found.models.Private)
    assert (one.hyphen.wired, one.hyphen.configuration, one.hyphen.duplicate[0].duplicate) == ("w", 2, 1)
    made = found.models.AcmeModel(duplicate=[], configuration=1)
    assert same(made.to_wire(), {"model_config": 1, "copy": []})


@pytest.mark.slow
@pytest.mark.parametrize("target", ["dataclass", "typeddict", "msgspec"])
def test_given_names_hold_for_every_target(acme: Callable[..., ModuleType], target: str) -> None:
    found = acme(CLASHING, GIVEN, target)
    assert {"WholeThing", "AcmeModel", "Private", "Dict"} <= {*vars(found)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "told"),
    [
        ('[types]\nThing = "a b"', "'Thing' is not a valid name of a Python class"),
        ('[types]\nThing = "Other"', "'Other' would hide the type 'Thing'"),
        ('[types]\nThing = "Literal"', "'Thing' would hide a name of the package"),
        ('[types]\nMissing = "Other2"', "names.toml:2:1: the schema has no such name among its types"),
        ('[members]\nmissing = "x"', "names.toml:2:1: the schema has no such name among its members"),
        ('[members]\na = "b"', "would have the same attribute 'b'"),
        ('[members]\na = "class"', "member 'a' of 'Thing' has no name in Python"),
        ('[members]\na = "to_json"', "would hide a member of every model"),
        ('[members]\ntype = "kind"', "names.toml:2:1: 'type' cannot be renamed"),
        ("[members]\na = 1", "names.toml:2:1: 'members.a' must be a string"),
        ('[member]\na = "b"', "names.toml:1:1: 'member' is an unknown key"),
        ("[members", "names.toml: cannot be read"),
    ],
)
def test_a_name_that_cannot_be_given_is_refused(
    acme: Callable[..., ModuleType], names: str, told: str
) -> None:
    source = "export interface Thing { a: string; b: string; type: string }\nexport interface Other {}"
    with pytest.raises(CodegenError, match=told):
        acme(source, names)


def test_the_base_class_knows_some_names_by_itself() -> None:
    assert {naming.PythonNames().attribute(wire): wire for wire in ("_meta", "$schema")} == {
        attribute: wire_name(attribute) for attribute in ("meta", "schema_uri")
    }


@pytest.mark.slow
def test_all_wrong_names_are_told_at_once_at_types_and_members(tmp_path: Path) -> None:
    path, names = tmp_path / "s.ts", tmp_path / "names.toml"
    path.write_text("export type A = 1;\nexport interface B {\n  a: 1;\n  b: 2;\n}\nexport type C = 4;\n")
    names.write_text('[types]\nA = "a b"\nC = "Literal"\n[members]\na = "_a"\nb = "copy"')
    with pytest.raises(CodegenError) as caught:
        generate_project(FOLDER, path, tmp_path / "out", "1.0", overlay=False, names=names)
    assert [part.line for part in caught.value.parts if isinstance(part, SchemaError)] == [1, 3, 4, 6]
