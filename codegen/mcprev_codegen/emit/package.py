"""Renders every generated file: fills in the templates, formats with black, adds the header."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, LiteralString

from mcprev_codegen import ir
from mcprev_codegen.emit.docstrings import Docs, prose_docstring
from mcprev_codegen.emit.json_schema import JsonSchema, schema_document
from mcprev_codegen.emit.meta_json import meta_document
from mcprev_codegen.emit.models import ModelModule, ModelPlanner, categories, model_modules
from mcprev_codegen.emit.name_checks import check_names
from mcprev_codegen.emit.provenance import MODELS_FOLDER, MODULES, SHARED, header_lines
from mcprev_codegen.errors import InputError
from mcprev_codegen.facts import Method, Revision, Side
from mcprev_codegen.lineage import conversion_deltas, pairing, type_histories
from mcprev_codegen.python import (
    Code,
    class_name,
    code,
    comment,
    docstring,
    identifier,
    joined,
    json_document,
    module_name,
    render,
    revision_name,
)
from mcprev_codegen.python.formatting import format_python
from mcprev_codegen.support import Kind, MethodSpec, Transport

_MAX_FORMATTED: Final = 300_000
"""The maximum number of characters of a package that black formats, a third more than those of the largest revision.

Formatting takes most of the time; a larger package has its modules as the templates write them.
"""
_IMPORTS: Final[tuple[Mapping[Code, tuple[str, ...]], ...]] = (
    {code("typing"): ("TYPE_CHECKING", "Annotated", "Any", "Literal", "TypeAlias", "Union")},
    {code("pydantic"): ("Field", "Tag"), code("typing_extensions"): ("TypeAliasType", "deprecated")},
    {
        code("..._base"): (
            "ABSENT", "DEPRECATED", "EXACT", "Integer", "Model", "Nullable", "Opt", "Whole", "constant", "fallback", "wire",
        ),
        code("..._open"): ("UNKNOWN", "UnknownContent", "open_union"),
    },
)  # fmt: skip
"""The names that a module of models may import, by import group and module."""
CONSTANT_TABLES: Final = ("REVISION", "ERROR_CODES", "MAX_ITEMS", "META_KEYS")
DISPATCH_CLASSES: Final = ("ClientCalls", "ClientHandler", "ServerCalls", "ServerHandler")
_RESERVED: Final = frozenset(
    [name for group in _IMPORTS for names in group.values() for name in names]
    + [
        "METHODS",
        "Final",
        "Mapping",
        "MappingProxyType",
        "lazy",
        *CONSTANT_TABLES,
        *DISPATCH_CLASSES,
        *MODULES,
    ]
)
"""Names that a type or constant must not have, because the modules or the package use them."""
_RESERVED_MODULES: Final = _RESERVED | {Path(file).stem for file in SHARED}
"""Names that the package of a revision must not have."""


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


def package_files(revision: Revision, neighbours: RevisionChain) -> dict[str, str]:
    """Return the files of one revision's package by path within it.

    Raises `CodegenError` for a name in the schema without a valid and unique Python name.
    """
    package = module_name(revision.name)
    if package in _RESERVED_MODULES or hasattr(builtins, package) or keyword.iskeyword(package):
        raise InputError(
            f"'{revision.name}' cannot be the name of a revision: its package would hide '{package}'"
        )
    check_names(revision.schema, _RESERVED, revision.methods)
    return _Package(revision, neighbours).files()


@dataclass(frozen=True)
class _Package:
    revision: Revision
    neighbours: RevisionChain

    def files(self) -> dict[str, str]:
        chain = self.neighbours.chain
        docs = Docs(self.revision, type_histories(chain), chain[0].name)
        titles = categories(self.revision, self.neighbours.later)
        modules = list(model_modules(ModelPlanner(self.revision, docs.types(), titles)))
        sources = {
            **{f"{MODELS_FOLDER}{module.section.module}.py": self.models(module) for module in modules},
            f"{MODELS_FOLDER}__init__.py": self.render(
                "__init__.py",
                doc=docstring(
                    f"The models of MCP {self.revision.name}: messages and the types in them, imported on first use."
                ),
                dots=code("..."),
                exports={code(".{}", identifier(m.section.module)): tuple(m.exports) for m in modules}
                | {code("..._open"): ("UnknownContent",)},
            ),
            "methods.py": self.render(
                "methods.py", enums=self.enums(docs), methods=[*self.revision.methods.values()], prose=prose_docstring,
                members=[member.name for member in fields(MethodSpec)],
            ),
            "constants.py": self.constants(),
            "dispatch.py": self.dispatch(docs),
            "deltas.py": self.deltas(),
            "__init__.py": self.render(
                "__init__.py",
                doc=docstring(
                    f"MCP {self.revision.name}: models, methods, dispatch stubs and constants, imported on first use."
                ),
                dots=code(".."), exports=public_names(self.revision),
            ),
        }  # fmt: skip
        plain = sum(map(len, sources.values())) > _MAX_FORMATTED
        texts = {file: text if plain else format_python(text) for file, text in sources.items()}
        texts["schema.json"] = json_document(self.schema())
        texts["meta.json"] = json_document(meta_document(self.revision))
        return texts

    def render(self, template: LiteralString, **values: object) -> Code:
        header = comment(header_lines(self.revision))
        return render(template, header=header, revision=revision_name(self.revision.name), **values)

    def models(self, module: ModelModule) -> Code:
        """Return the text of one module of models."""
        package = module_name(self.revision.name)
        groups = [
            [
                code("from {} import {}", home, joined(", ", map(identifier, used)))
                for home, names in group.items()
                if (used := [one for one in names if one in module.names])
            ]
            for group in _IMPORTS
        ]
        groups[-1] += [
            code("from .{} import {}", identifier(home), joined(", ", map(identifier, names)))
            for home, names in module.imports.items()
        ]
        imports = joined("\n\n", (joined("\n", group) for group in groups if group))
        title = f'The pydantic models of MCP {self.revision.name} in the section "{module.section.title}".'
        return self.render(
            "section.py", doc=docstring(title), imports=imports, body=module.body,
            package=package, in_package=package in module.names,
        )  # fmt: skip

    def constants(self) -> Code:
        schema = self.revision.schema
        objects = {name: schema.flat(name).fields for name in schema.types if schema.is_object(ir.Ref(name))}
        fields = [(name, f) for name, found in objects.items() for f in found]
        bounds = {f"{name}.{f.name}": f.field.tags.max_items for name, f in fields}
        return self.render(
            "constants.py",
            negotiated_as=self.revision.negotiated_as,
            like=self.revision.like,
            prose=prose_docstring,
            consts=list(schema.consts.values()),
            bounds={place: bound for place, bound in bounds.items() if bound is not None},
            meta_keys=tuple(sorted({f.name for _, f in fields if "/" in f.name})),
        )

    def sent_by(self, side: Side) -> list[Method]:
        return [m for m in self.revision.methods.values() if side in m.senders]

    def enums(self, docs: Docs) -> list[dict[str, Any]]:
        """Return the method enums: one for each side and kind with methods."""
        found: list[dict[str, Any]] = []
        for side in Side:
            for kind in Kind:
                chosen = [m for m in self.sent_by(side) if m.kind is kind]
                entries = [{"stub": m.attr, "method": m.method, "doc": docs.summary(m)} for m in chosen]
                doc = f"The {kind}s that a {side} may send."
                if chosen:
                    found.append({"name": side.type_name(kind.capitalize()), "doc": doc, "methods": entries})
        return found

    def dispatch(self, docs: Docs) -> Code:
        handlers = [
            {
                "name": side.other.type_name("Handler"),
                "table": f"{side.other.upper()}_BINDINGS",
                "methods": self.sent_by(side),
                "doc": f"The methods that a {side.other} serves: one stub for each message that a {side} may send.",
                "table_doc": f"The stub and types of every method that a {side.other} receives.",
            }
            for side in Side
        ]
        to_server, to_client = map(self.sent_by, Side)
        callers = [
            {
                "name": "ClientCalls", "methods": to_server,
                "doc": "The methods that a client sends: one coroutine for each method that a server serves.",
            },
            {
                "name": "ServerCalls", "methods": [m for m in to_client if m.transport is Transport.JSONRPC],
                "doc": "The methods that a server sends as separate messages: one coroutine for each.",
            },
        ]  # fmt: skip
        return self.render(
            "dispatch.py", handlers=handlers, callers=callers, method_doc=docs.method,
            params_type=_params_type, result_type=_result_type,
        )  # fmt: skip

    def deltas(self) -> Code:
        tables: list[dict[str, Any]] = []
        mine = set(self.revision.methods)
        previous, following = self.neighbours.previous, self.neighbours.next
        older = pairing(previous, self.revision) if previous else {}
        newer = pairing(self.revision, following) if following else {}
        inverse = {mine: other for other, mine in newer.items()}
        for label, other, names in (("PREVIOUS", previous, older), ("NEXT", following, inverse)):
            tables.append({
                "name": f"TO_{label}",
                "deltas": conversion_deltas(self.revision, other, names) if other else {},
                "doc": f"The changes that objects need in the {label.lower()} revision, by their type in this one.",
                "methods_name": f"NOT_IN_{label}",
                "methods": tuple(sorted(mine - set(other.methods))) if other else (),
                "methods_doc": f"Methods that the {label.lower()} revision does not have.",
            })  # fmt: skip
        return self.render(
            "deltas.py",
            tables=tables,
            nested=any(
                delta.lost or delta.children for table in tables for delta in table["deltas"].values()
            ),
            previous=previous.name if previous else None,
            next=following.name if following else None,
        )

    def schema(self) -> JsonSchema:
        pin = self.revision.pin
        comment = " ".join(header_lines(self.revision))
        identifier = f"{pin.spec}/schema.json" if pin else self.revision.name
        return schema_document(self.revision.schema, comment, identifier)


def public_names(made_of: Revision) -> dict[Code, tuple[str, ...]]:
    """Return the public names of a package by the module that defines them."""
    types = ModelPlanner(made_of).schema.types
    return {
        code("."): MODULES,
        code(".constants"): tuple(sorted([*CONSTANT_TABLES, *made_of.schema.consts])),
        code(".dispatch"): DISPATCH_CLASSES,
        code(".methods"): ("METHODS",),
        code(".models"): tuple(sorted([*map(class_name, types), "UnknownContent"])),
    }


def _params_type(method: Method) -> Code:
    if method.params is None:
        return code("None")
    found = code("models.{}", identifier(class_name(method.params)))
    return code("{} | None", found) if method.params_optional else found


def _result_type(method: Method) -> Code:
    results = [code("models.{}", identifier(class_name(result))) for result in method.results]
    return joined(" | ", results) if results else code("None")
