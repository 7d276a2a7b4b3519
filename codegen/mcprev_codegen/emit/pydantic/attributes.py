"""The attributes of a class: their annotations, defaults and `Field` arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.emit.models.plan import ModelMember
from mcprev_codegen.emit.pydantic.annotations import (
    BUILTINS,
    SCHEMA_INTEGER,
    Annotation,
    Annotations,
    Expression,
    call,
    named,
    plain_value,
    subscript,
)
from mcprev_codegen.python import Code, identifier, literal
from mcprev_codegen.resolve import Schema
from mcprev_codegen.support import wire_name

_HELPERS: Final = frozenset({"constant", "fallback", "stated", "wire"})
"""The functions that the lines of a class call."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One member as an attribute of a class; the template makes a line of it."""

    name: Code
    annotation: Annotation
    default: Expression | None
    """The source after the `=`; None for a required member."""
    doc: str

    @property
    def names(self) -> frozenset[str]:
        """The names that its line refers to."""
        return self.annotation.names | (self.default.names if self.default else frozenset[str]())


def discriminator(member: str, annotations: Annotations) -> str | None:
    """Return the attribute that tells the objects of a union apart; None if some of their classes give it another name."""
    name = annotations.names.attribute(member)
    return None if name in _HELPERS | BUILTINS | annotations.packages else name


def attributes(members: tuple[ModelMember, ...], annotations: Annotations) -> Iterator[Attribute]:
    """Yield the attributes of a class; none hides a name that the lines below it use."""
    typed = [_typed(member, annotations) for member in members]
    used = _HELPERS.union(annotations.packages, *(annotation.names for annotation, _ in typed))
    for member, (type_, default) in zip(members, typed, strict=True):
        f, annotation = member.field, type_
        name = annotations.names.attribute(f.name)
        if name in used:
            name += "_"
        if wire_name(name) != f.name:
            annotation = annotation.annotated(call("wire", literal(f.name)))
        if f.tags.deprecated:
            annotation = annotation.annotated(named("DEPRECATED"))
        yield Attribute(identifier(name), annotation, default, member.doc)


def _typed(member: ModelMember, annotations: Annotations) -> tuple[Annotation, Expression | None]:
    """Return the annotation of a member by its type alone, and its default."""
    f, schema = member.field, annotations.schema
    stated = ir.stated_type(f.type, f.tags)
    annotation = annotations.within(_with_integers(annotations, f) if annotations.whole else stated, f.tags)
    literals = schema.literals(f.type)
    if member.fallback is not None:
        return annotation, call("fallback", literal(member.fallback))
    if member.stated is not None:
        return annotation, call("stated", literal(member.stated))
    if not f.optional:
        return annotation, call("constant", literal(plain_value(literals[0]))) if len(literals) == 1 else None
    if _nullable(schema, f.type):
        return subscript("Nullable", annotation), named("ABSENT")
    return subscript("Opt", annotation), Expression(literal(None))


def _with_integers(annotations: Annotations, member: ir.Field) -> ir.TypeExpr:
    """Return the type of a member, with `number` as an integer if upstream's schema.json declares an integer."""
    schema = annotations.schema
    if member.tags.tjs_type is not None:
        return ir.stated_type(member.type, member.tags)
    kinds = {schema.follow(m) for m in schema.members(member.type)} - {ir.Prim("null")}
    native, _ = annotations.limits(member.type, member.tags)
    fractions = any(isinstance(limit, float) for limit in native.values())
    if kinds != {ir.Prim("number")} or fractions:
        return member.type
    return ir.map_nodes(member.type, lambda node: SCHEMA_INTEGER if node == ir.Prim("number") else node)


def _nullable(schema: Schema, type_: ir.TypeExpr) -> bool:
    """Return whether null is a value of the type; an absent member then needs another value."""
    return any(schema.follow(m) in (ir.Prim("null"), *ir.ANYTHING) for m in schema.members(type_))
