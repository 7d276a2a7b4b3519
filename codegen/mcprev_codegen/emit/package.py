"""The files of a revision's package: what each is made of, and what the package exports from it."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, LiteralString

from mcprev_codegen.emit.docstrings import Docs
from mcprev_codegen.emit.json_schema import JsonSchema, schema_document
from mcprev_codegen.emit.meta_json import meta_document
from mcprev_codegen.emit.models.plan import ModelPlan
from mcprev_codegen.emit.models.planner import model_schema, plan_models
from mcprev_codegen.emit.names.checks import check_names
from mcprev_codegen.emit.provenance import MODELS_FOLDER, SHARED, has_header, header_lines
from mcprev_codegen.emit.pydantic import IMPORTED, model_files
from mcprev_codegen.emit.rendering import GeneratedFile, python_files, up_of
from mcprev_codegen.emit.tables.constants import CONSTANT_TABLES, OF_EXTENSION, constant_tables
from mcprev_codegen.emit.tables.deltas import delta_tables
from mcprev_codegen.emit.tables.dispatch import DISPATCH_CLASSES, dispatch_classes
from mcprev_codegen.emit.tables.methods import method_tables
from mcprev_codegen.errors import InputError
from mcprev_codegen.facts import Revision
from mcprev_codegen.ir import Json
from mcprev_codegen.python import (
    Code,
    code,
    comment,
    docstring,
    identifier,
    json_document,
    module_name,
    revision_name,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class RevisionChain:
    """The neighbours of one revision, which its package refers to."""

    chain: Sequence[Revision]
    """The revision and all before it, oldest first."""
    previous: Revision | None
    later: Sequence[Revision]
    """The revisions after it, the next one first."""

    @property
    def next(self) -> Revision | None:
        """The next revision."""
        return self.later[0] if self.later else None


@dataclass(frozen=True)
class _Package:
    """What the files of a package are made of."""

    revision: Revision
    neighbours: RevisionChain

    @cached_property
    def docs(self) -> Docs:
        return Docs(self.neighbours.chain)

    @cached_property
    def plan(self) -> ModelPlan:
        docs = self.docs.models(model_schema(self.revision))
        return plan_models(self.revision, self.neighbours.later, docs)


@dataclass(frozen=True, slots=True)
class PackageModule:
    """A module of a package, whose template has the same name with `.py.jinja2`."""

    name: LiteralString
    data: Callable[[_Package], DataclassInstance]
    """Returns what the template prints."""
    exports: tuple[str, ...] = ()
    """The names that the package exports from it at every revision; no type or constant may have them."""
    declared: Callable[[Revision], Iterable[str]] = lambda _: ()
    """Returns the names of the schema that the package exports from it too."""


@dataclass(frozen=True, slots=True)
class LazyExports:
    """The data of an `__init__.py`, which imports a module when one of its names is first used."""

    doc: Code
    dots: Code
    """The way up to the folder of the packages."""
    exports: Mapping[Code, tuple[str, ...]]
    """The names by the module that defines them."""


def _schema_json(revision: Revision) -> JsonSchema:
    identifier = f"{revision.pin.spec}/schema.json" if revision.pin else revision.name
    if revision.extension is not None:
        identifier = f"{revision.extension.name}/{revision.name}/schema.json"
    return schema_document(revision.schema, " ".join(header_lines(revision)), identifier)


MODULES: Final = (
    PackageModule(
        "constants",
        lambda p: constant_tables(p.revision, p.docs),
        CONSTANT_TABLES,
        lambda r: (*(const.name for const in r.own_consts()), *(OF_EXTENSION if r.extension else ())),
    ),
    PackageModule("deltas", lambda p: delta_tables(p.revision, p.neighbours.previous, p.neighbours.next)),
    PackageModule("dispatch", lambda p: dispatch_classes(p.revision, p.docs), DISPATCH_CLASSES),
    PackageModule("methods", lambda p: method_tables(p.revision, p.docs), ("METHODS",)),
)
_DOCUMENTS: Final[Mapping[str, Callable[[Revision], Mapping[str, Json]]]] = {
    "schema.json": _schema_json,
    "meta.json": meta_document,
}
PACKAGE_FILES: Final = ("__init__.py", *(f"{module.name}.py" for module in MODULES), *_DOCUMENTS)
"""The files of every package; those of the models follow from the schema."""
_SUBMODULES: Final = (*(module.name for module in MODULES), "models")
_UNKNOWN: Final = "UnknownContent"
"""What the models of all revisions have in common."""
RESERVED: Final = IMPORTED.union(
    _SUBMODULES,
    *(module.exports for module in MODULES),
    ("Final", "Mapping", "MappingProxyType", "lazy"),
    OF_EXTENSION,
)
"""Names that a type or constant must not have, because the modules or the package use them."""
_RESERVED_MODULES: Final = RESERVED | {Path(file).stem for file in SHARED}
"""Names that the package of a revision must not have."""


def package_files(revision: Revision, neighbours: RevisionChain) -> dict[str, str]:
    """Return the files of one revision's package by path within it.

    Raises `CodegenError` for a name in the schema without a valid and unique Python name.
    """
    name = module_name(revision.name)
    if name in _RESERVED_MODULES or hasattr(builtins, name) or keyword.iskeyword(name):
        raise InputError(
            f"'{revision.name}' cannot be the name of a revision: its package would hide '{name}'"
        )
    check_names(revision, RESERVED)
    package = _Package(revision, neighbours)
    models = [*model_files(package.plan)]
    up = up_of(revision)
    files = [
        *models,
        _init(
            MODELS_FOLDER,
            f"The models of {revision.subject}: messages and the types in them, imported on first use.",
            code(".{}", up),
            {code(".{}", identifier(Path(file.path).stem)): file.exports for file in models}
            | {code(".{}_open", up): (_UNKNOWN,)}
            | _imported_by_methods(revision),
        ),
        *(GeneratedFile(f"{m.name}.py", f"{m.name}.py", m.data(package)) for m in MODULES),
        _init(
            "",
            f"{revision.subject[0].upper()}{revision.subject[1:]}: models, methods, dispatch stubs and constants, imported on first use.",
            up,
            public_names(revision),
        ),
    ]
    header = comment(header_lines(revision))
    return {
        **python_files(files, header=header, **_words(revision), up=up),
        **{file: json_document(document(revision)) for file, document in _DOCUMENTS.items()},
    }


def _words(revision: Revision) -> dict[str, Code]:
    """Return what templates call the revision, or the version of an extension."""
    name = revision_name(revision.name)
    if revision.extension is None:
        return {"revision": name, "subject": code("MCP {}", name), "kind": code("revision")}
    label = code("{}@{}", revision_name(revision.extension.name), name)
    return {"revision": label, "subject": code("the extension {}", label), "kind": code("version")}


def _imported_by_methods(revision: Revision) -> dict[Code, tuple[str, ...]]:
    """Return the params and results of an extension's methods that are types of the revision it is based on."""
    methods = revision.methods.values()
    used = {name for m in methods for name in (m.params, *m.results) if name and not revision.owns(name)}
    if not used or revision.base is None:
        return {}
    home = code(".{}{}.models", up_of(revision), identifier(module_name(revision.base.name)))
    return {home: tuple(sorted(map(revision.names.class_name, used)))}


def _init(folder: str, doc: str, dots: Code, exports: Mapping[Code, tuple[str, ...]]) -> GeneratedFile:
    return GeneratedFile(f"{folder}__init__.py", "__init__.py", LazyExports(docstring(doc), dots, exports))


def public_names(revision: Revision) -> dict[Code, tuple[str, ...]]:
    """Return the public names of a package by the module that defines them."""
    own = (n for n, decl in model_schema(revision).types.items() if revision.is_own(decl))
    types = map(revision.names.class_name, own)
    return {
        code("."): _SUBMODULES,
        **{
            code(".{}", identifier(m.name)): tuple(sorted([*m.exports, *m.declared(revision)]))
            for m in MODULES
        },
        code(".models"): tuple(sorted([*types, _UNKNOWN])),
    }


def is_generated(name: str, head: str) -> bool:
    """Return whether a file in a folder of packages is generated, by its path there and the start of its text."""
    return has_header(name, head, PACKAGE_FILES)
