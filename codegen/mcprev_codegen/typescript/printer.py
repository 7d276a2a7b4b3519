"""Prints the IR as canonical TypeScript: the contract of a schema.ts, in source order and without its prose.

`parse(print_module(m))` equals `contract(m)` for every module that the parser returns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from mcprev_codegen import ir

_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


def print_module(module: ir.Module, header: str = "", imports: str = "") -> str:
    """Return the canonical text of a module, ending in a newline; `header` becomes a `//` comment at the top.

    `imports` are statements that stand before the first declaration.
    """
    parts = [*(f"// {line}" for line in header.split("\n") if line)]
    body = [*([imports.rstrip()] if imports else []), *map(_declaration, module.decls)]
    return "\n".join([*parts, *([""] if parts else []), "\n\n".join(body), ""])


def print_type(type_: ir.TypeExpr, indent: int = 0) -> str:
    """Return the canonical text of a type; inline objects with members take several lines."""
    match type_:
        case ir.Prim(name) | ir.Ref(name):
            return name
        case ir.Lit(value):
            return json.dumps(value, ensure_ascii=False)
        case ir.ConstRef(name):
            return f"typeof {name}"
        case ir.Array(item):
            return f"{_parenthesised(item, indent)}[]"
        case ir.Union(members):
            return " | ".join(print_type(m, indent) for m in members)
        case ir.Intersection(members):
            return " & ".join(_parenthesised(m, indent) for m in members)
        case ir.Record(value):
            return f"Record<string, {print_type(value, indent)}>"
        case ir.Derived(kind, base, keys):
            shown = " | ".join(json.dumps(key, ensure_ascii=False) for key in keys)
            return f"{kind}<{print_type(base, indent)}{', ' if keys else ''}{shown}>"
        case ir.Tuple(items, rest):
            parts = [print_type(item, indent) for item in items]
            parts += [] if rest is None else [f"...{_parenthesised(rest, indent)}[]"]
            return f"[{', '.join(parts)}]"
        case ir.Template(text):
            return f"`{text}`"
        case ir.Obj(fields, index):
            return _object(fields, index, indent)


def print_inline(type_: ir.TypeExpr) -> str:
    """Return the text of a type on one line, without the tags of members in it, for tables and messages."""

    def untagged(node: ir.Node) -> ir.Node:
        return replace(node, tags=ir.NO_TAGS) if isinstance(node, ir.Field) else node

    return re.sub(r"\n\s*", " ", print_type(ir.map_nodes(type_, untagged))).replace("; }", " }")


def _parenthesised(type_: ir.TypeExpr, indent: int) -> str:
    text = print_type(type_, indent)
    return f"({text})" if isinstance(type_, ir.Union | ir.Intersection) else text


def _declaration(decl: ir.Decl) -> str:
    lines = list(_tags(decl.tags, ""))
    match decl:
        case ir.Const(name, value):
            lines.append(f"export const {name} = {json.dumps(value, ensure_ascii=False)};")
        case ir.Alias(name, type_):
            lines.append(f"export type {name} = {print_type(type_)};")
        case ir.Interface(name, bases, fields, index):
            extends = f" extends {', '.join(print_type(b) for b in bases)}" if bases else ""
            lines.append(f"export interface {name}{extends} {_object(fields, index, 0)}")
    return "\n".join(lines)


def _object(fields: tuple[ir.Field, ...], index: ir.IndexSig | None, indent: int) -> str:
    if not fields and index is None:
        return "{}"
    if not fields and index is not None:
        return f"{{ {_index(index, indent)} }}"
    inner = "  " * (indent + 1)
    lines: list[str] = []
    for field in fields:
        lines += _tags(field.tags, inner)
        lines.append(f"{inner}{print_member(field, indent + 1)}")
    if index is not None:
        lines.append(f"{inner}{_index(index, indent + 1)};")
    return "\n".join(["{", *lines, "  " * indent + "}"])


def _index(index: ir.IndexSig, indent: int) -> str:
    return f"[{index.key}: string]: {print_type(index.value, indent)}{' | undefined' * index.undefined}"


def print_member(field: ir.Field, indent: int = 0) -> str:
    """Return a member as in a body, without its tags: `name?: Type;`."""
    key = field.name if _IDENTIFIER.fullmatch(field.name) else json.dumps(field.name, ensure_ascii=False)
    type_ = print_type(field.type, indent)
    return f"{key}: {type_} | undefined;" if field.undefined else f"{key}{'?' * field.optional}: {type_};"


def _tags(tags: ir.Tags, indent: str) -> Iterator[str]:
    values = [
        ("category", tags.category),
        ("internal", "" if tags.internal else None),
        ("deprecated", "" if tags.deprecated else None),
        ("nullable", "" if tags.nullable else None),
        ("format", tags.format),
        ("TJS-type", tags.tjs_type),
        *((row.keyword, limit) for row, limit in ir.limits_of(tags).items()),
        ("default", tags.default and tags.default.replace("*/", "*\\/")),
    ]
    texts = [
        f"@{name}" if value is True else f"@{name} {value}".rstrip()
        for name, value in values
        if value is not None and value is not False
    ]
    if len(texts) == 1:
        yield f"{indent}/** {texts[0]} */"
    elif texts:
        yield f"{indent}/**"
        yield from (f"{indent} * {text}" for text in texts)
        yield f"{indent} */"
