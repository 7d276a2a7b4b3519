"""One-line descriptions written for this project; they replace upstream's prose.

`schema/descriptions.toml` is shared by all revisions. `[revisions."REV".types.NAME]` overrides the description of a
type for one revision, key by key. The key of a field is its wire name or a dotted path into inline objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.inputs import SchemaFolder, read_once

DESCRIPTIONS_FILE: Final = "descriptions.toml"


@dataclass(frozen=True, slots=True)
class TypeText:
    """The descriptions of one type and its fields."""

    doc: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Descriptions:
    """The descriptions of one revision."""

    types: Mapping[str, TypeText] = field(default_factory=dict[str, TypeText])
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    constants: Mapping[str, str] = field(default_factory=dict[str, str])

    def attach(self, module: ir.Module) -> ir.Module:
        """Return the module with these descriptions as its only prose."""
        return ir.Module(tuple(self._declaration(decl) for decl in ir.contract(module).decls))

    def _declaration(self, decl: ir.Decl) -> ir.Decl:
        if isinstance(decl, ir.Const):
            return replace(decl, doc=ir.Doc(text=self.constants.get(decl.name)))
        texts = self.types.get(decl.name, TypeText())
        return replace(self._described(decl, texts, ""), doc=ir.Doc(text=texts.doc))

    def _described(self, node: ir.AnyNode, texts: TypeText, path: str) -> ir.AnyNode:
        """Return a node with the descriptions of all members in it; `path` is the key of the member around it."""
        if not isinstance(node, ir.Field):
            return ir.map_inner(node, lambda inner: self._described(inner, texts, path))
        key = path + node.name
        text = texts.fields.get(key) or self.fields.get(node.name)
        inner = self._described(node.type, texts, key + ".")
        return replace(node, doc=ir.Doc(text=text), type=inner)


@dataclass(frozen=True, slots=True)
class _Overrides:
    types: Mapping[str, TypeText] = field(default_factory=dict[str, TypeText])


@dataclass(frozen=True, slots=True)
class _File(Descriptions):
    revisions: Mapping[str, _Overrides] = field(default_factory=dict[str, _Overrides])


@read_once
def load_descriptions(folder: SchemaFolder, revision: str) -> Descriptions:
    """Return the descriptions of one revision. Raises `CodegenError` if the file cannot be read."""
    file = folder.once(_file)
    if folder.core is not None:  # an extension; what it imports is described there
        shared = folder.core.once(_file)
        file = replace(
            file, fields={**shared.fields, **file.fields}, constants={**shared.constants, **file.constants}
        )
    types = dict(file.types)
    for name, override in file.revisions.get(revision, _Overrides()).types.items():
        usual = types.get(name, TypeText())
        types[name] = TypeText(
            usual.doc if override.doc is None else override.doc, {**usual.fields, **override.fields}
        )
    return replace(file, types=types)


def _file(folder: SchemaFolder) -> _File:
    if folder.core is not None and not (folder.path / DESCRIPTIONS_FILE).is_file():
        return _File()
    return folder.table(DESCRIPTIONS_FILE, _File).values
