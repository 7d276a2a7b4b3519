"""The border between plan, template and file: names that a file uses, data that a template prints, names that are taken."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Final, LiteralString

import pytest
from jinja2 import meta

from helpers.support import FOLDER, GENERATED, REVISIONS, each_revision, load
from mcprev_codegen.emit import package, shared
from mcprev_codegen.emit.rendering import GeneratedFile
from mcprev_codegen.errors import SchemaError
from mcprev_codegen.facts.load import load_bytes
from mcprev_codegen.facts.revision import Revision
from mcprev_codegen.python import Code, module_name, writers

MESSAGE: Final = """
export type ClientRequest = GetRequest;
export interface GetRequest { method: "things/get"; params: GetParams }
export interface GetParams { a: string }
export interface GetResult { b: string }
export type ServerResult = GetResult;
"""


def revision_of(source: str) -> Revision:
    return load_bytes(FOLDER, (MESSAGE + source).encode(), "schema.ts", "", "2099-01-01")


def written(source: str) -> dict[str, str]:
    revision = revision_of(source)
    revision = replace(revision, like=revision.name)  # of MCP
    return package.package_files(revision, package.RevisionChain([revision], None, []))


# -- names that a module of models refers to ----------------------------------------------------------------


def used_names(tree: ast.Module, revision: str) -> Iterator[str]:
    """The names that a module loads, also in quoted annotations, which name the package of the revision."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        if (
            isinstance(node, ast.Constant)
            and f"{revision}." in str(node.value)
            and " " not in str(node.value)
        ):
            yield from used_names(ast.parse(str(node.value)), revision)


def check_imports(text: str, revision: str) -> None:
    tree = ast.parse(text)
    imported = {
        name.asname or name.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    own = {node.name for node in tree.body if isinstance(node, ast.ClassDef)} | {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    used = {*used_names(tree, revision)}
    # A subclass resolves the quoted annotations of its base, which is in another module.
    assert imported - used <= {revision}
    assert used <= imported | own | {*dir(builtins)}


@each_revision
def test_a_module_of_models_imports_what_it_uses_and_nothing_else(revision: str) -> None:
    name = module_name(revision)
    modules = [path for path in (GENERATED / name / "models").glob("*.py") if path.stem != "__init__"]
    assert len(modules) > 5
    for path in modules:
        check_imports(path.read_text(encoding="utf-8"), name)


EVERY_KIND: Final = """
/** @deprecated */
export interface Old extends Base { /** @deprecated */ a?: string; "x/y": number | null; any?: unknown }
export interface Base { kind: "base"; map: { [key: string]: Ring | null }; pair: [string, Leaf]; id: `a-${string}` }
export interface Leaf { /** @minimum 0 */ n: number; /** @minLength 1 */ s: string | null; o: object }
export type Ring = string | Ring[] | Other;
export type Other = { [key: string]: Ring };
export interface Dog { type: "dog" }
export interface Cat { type: "cat" }
export type Animal = Dog | Cat;
"""


def test_a_module_with_models_of_every_kind_imports_what_it_uses_and_nothing_else() -> None:
    text = written(EVERY_KIND)["models/common_types.py"]
    check_imports(text, "v2099_01_01")
    for name in (
        "TypeAliasType",
        "deprecated",
        "DEPRECATED",
        "wire",
        "Nullable",
        "EXACT",
        "Field",
        "constant",
    ):
        assert name in {*used_names(ast.parse(text), "v2099_01_01")}


def in_sections(**sections: Sequence[str]) -> str:
    """Declarations with their sections, each of which has so many types that it becomes a module of its own."""
    return "\n".join(
        f"/** @category {section} */\nexport {decl}"
        for section, decls in sections.items()
        for decl in (*decls, *(f"interface {section.capitalize()}{n} {{ n: {n} }}" for n in range(3)))
    )


OPEN_UNIONS: Final = {
    "an alias of a class": ("type B = A;", "type U = B | C;"),
    "an alias of a union": ("type B = A | D;", "type U = B | C;"),
    "an open union": ("type B = A | D;", "type U = C | B | E;"),
    "the type of a member": ("type B = A;", "interface U { u: (B | C)[] }"),
}


@pytest.mark.parametrize(("alias", "union"), OPEN_UNIONS.values(), ids=OPEN_UNIONS)
def test_an_open_union_imports_the_classes_behind_the_aliases_in_it(alias: str, union: str) -> None:
    files = written(
        in_sections(
            one=('interface A { type: "a" }', 'interface D { type: "d" }', 'interface E { type: "e" }'),
            two=(alias,),
            three=('interface C { type: "c" }', union),
        )
    )
    assert "import A" in files["models/three.py"]
    for path, text in files.items():
        if path.startswith("models/") and not path.endswith("__init__.py"):
            check_imports(text, "v2099_01_01")


USES: Final = {
    "str": ("string", "{ [key: string]: number }", "object", "`a-${string}`", "string[]"),
    "float": ("number | string", "number[]", "{ [key: string]: number | null }"),
    "bool": ("boolean", "[boolean]"),
    "list": ("string[]", "{ [key: string]: string[] }"),
    "tuple": ("[string]", "[string, number][]"),
    "constant": ("string",),
    "v2099_01_01": ("string",),
}
"""Types whose annotations refer to a name that a member may have."""


@pytest.mark.parametrize(
    ("member", "type_"), [(member, type_) for member, types in USES.items() for type_ in types]
)
def test_an_attribute_hides_no_name_that_the_lines_below_it_use(member: str, type_: str) -> None:
    text = written(f"export interface Thing {{ {member}?: 'own'; other: {type_} }}")["models/common_types.py"]
    assert f"    {member}_: " in text


@pytest.mark.parametrize("member", ["str", "float", "bool", "list", "tuple"])
def test_an_attribute_keeps_its_name_where_no_line_uses_it(member: str) -> None:
    text = written(f"export interface Thing {{ {member}?: 'own'; other: 'kept' }}")["models/common_types.py"]
    assert f"    {member}: " in text


# -- what a template prints ----------------------------------------------------------------------------------


def printed(template: str) -> set[str]:
    """The variables of a template and of those that it extends."""
    environment = writers.environment()
    assert environment.loader is not None
    source, _, _ = environment.loader.get_source(environment, template)
    tree = environment.parse(source)
    parents = [printed(parent) for parent in meta.find_referenced_templates(tree) if parent]
    return meta.find_undeclared_variables(tree).union(*parents)


COMMON: Final = frozenset({"header", "revision", "subject", "kind", "up"})
"""What each template is given, whatever its file."""


def test_a_template_prints_the_data_of_its_file_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[GeneratedFile] = []

    def record(files: Iterable[GeneratedFile], **common: Code) -> dict[str, str]:
        assert common.keys() <= COMMON
        found.extend(files)
        return {}

    monkeypatch.setattr(package, "python_files", record)
    revision = load(REVISIONS[-1])
    package.package_files(revision, package.RevisionChain([revision], None, []))
    assert {f"{module.name}.py" for module in package.MODULES} < {file.path for file in found}
    used: dict[type, set[str]] = {}
    for file in found:
        variables = printed(f"{file.template}.jinja2") - COMMON
        assert variables <= {field.name for field in fields(file.data)}, file.path
        used.setdefault(type(file.data), set()).update(variables)
    for data, variables in used.items():
        assert variables == {field.name for field in fields(data)}, data


def test_the_templates_beside_the_packages_print_what_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[LiteralString] = []

    def rendered(template: LiteralString, **values: object) -> Code:
        replaced = {"doc"} if template == "packages.py" else set[str]()
        assert values.keys() == printed(f"{template}.jinja2") - replaced, template
        found.append(template)
        return writers.render(template, **values)

    monkeypatch.setattr(shared, "render", rendered)
    revision = load(REVISIONS[-1])
    shared.shared_files([revision], [], revision, "types_")
    assert sorted(found) == ["__init__.py", "index.py", "packages.py"]


# -- names that are taken ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [name for module in package.MODULES for name in (module.name, *module.exports)] + ["models", "lazy"],
)
def test_a_constant_cannot_have_a_name_that_the_package_exports(name: str) -> None:
    with pytest.raises(SchemaError, match="would hide"):
        written(f"export const {name} = 'a';")


def test_every_file_of_a_package_is_recognised_and_no_other() -> None:
    files = written(EVERY_KIND)
    for name, text in files.items():
        assert package.is_generated(f"v2099_01_01/{name}", text)
        assert not package.is_generated(f"other/{name}", text)
        assert not package.is_generated("v2099_01_01/mine.py", text)
