"""Known mutations of a revision's declarations: the expected rule of each, and values that prove its verdicts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, cast

from mcprev_codegen import ir
from mcprev_codegen.diff.comparison.view import View
from mcprev_codegen.facts.vocabulary import ENVELOPE_MEMBERS, LISTING_UNIONS
from mcprev_codegen.ir.nodes import Json
from rehearsal.changes import renamed

Object: TypeAlias = dict[str, Json]
Make: TypeAlias = Callable[[Object], Object]

FRESH: Final = "zzFresh"
UNLIKE: Final = "ZzUnlike"


@dataclass(frozen=True)
class Told:
    """One change that the comparison has to report."""

    rule: str
    path: str
    old_to_new: str = "ok"
    new_to_old: str = "ok"


@dataclass(frozen=True)
class Mutation:
    """One known change of a type."""

    name: str
    type: str
    """The type it is about; mutations of one run are about different ones."""
    apply: Callable[[ir.Module], ir.Module]
    told: tuple[Told, ...]
    old_witness: Make | None = None
    """Makes an old value that a new receiver refuses."""
    new_witness: Make | None = None
    """Makes a new value that an old receiver refuses."""


def mutations(side: View) -> list[Mutation]:
    """Every known mutation of a revision."""
    found: list[Mutation] = []
    for name, decl in side.revision.declared.types.items():
        if not side.senders(name):
            continue
        if isinstance(decl, ir.Alias):
            found += _of_alias(decl)
        elif side.transport(name) is None and decl.fields:
            found += _of_type(side, decl)
            for member in decl.fields:
                if _is_own(side, name, member):
                    found += _of_member(side, decl, member)
    return [*found, *_of_constants(side), *_of_methods(side)]


def _is_own(side: View, name: str, member: ir.Field) -> bool:
    """Whether every type that inherits a member has it from here, and nothing of the overlay hangs on it."""
    schema = side.schema
    if member.name in (*ENVELOPE_MEMBERS, "method", "params", "result", "error"):
        return False
    if any(f.name == member.name for base in schema.supertypes(name) for f in schema.flat(base).fields):
        return False
    facts = side.revision.facts
    if f"{name}.{member.name}" in (*facts.default, *facts.patched):
        return False
    for heir in schema.types:
        if side.is_object(heir) and name in schema.supertypes(heir):
            inherited = next((f for f in schema.flat(heir).fields if f.name == member.name), None)
            if inherited is None or inherited.declared_in != name or inherited.overrides:
                return False
            others = [b for b in schema.supertypes(heir) if name not in (b, *schema.supertypes(b))]
            if any(schema.flat(b).get(member.name) for b in others):
                return False
    return True


# -- whole types -----------------------------------------------------------------------------------------------


def _of_type(side: View, decl: ir.Interface) -> Iterator[Mutation]:
    name = decl.name
    fresh = ir.Field(FRESH, ir.Prim("string"), optional=True)
    needed = replace(fresh, optional=False)
    yield Mutation(
        "add optional", name, _fields(name, lambda fields: (*fields, fresh)),
        (Told("field-added-optional", f"{name}.{FRESH}"),),
    )  # fmt: skip
    if not any(f.startswith(f"{name}.") for f in side.revision.facts.open):
        yield Mutation(
            "add required", name, _fields(name, lambda fields: (*fields, needed)),
            (Told("field-added-required", f"{name}.{FRESH}", "breaking"),), old_witness=lambda value: value,
        )  # fmt: skip
    if not decl.tags.deprecated:
        yield Mutation(
            "deprecate", name, _decl(name, lambda d: replace(d, tags=replace(d.tags, deprecated=True))),
            (Told("deprecated", name),),
        )  # fmt: skip
    own = any(not f.optional for f in decl.fields)
    role = name.endswith(("Request", "Notification", "Result", "Response", "Params", "Capabilities", "Error"))
    if own and not role and name not in side.revision.facts.was:
        other = f"{name}Renamed"
        yield Mutation("rename", name, renamed(name, other), (Told("type-renamed", other),))
    if is_used(side, name):
        rename = renamed(name, UNLIKE)
        told = Told("type-renamed", UNLIKE)
        yield Mutation("rename unlike", name, rename, (told,))
        grow = _fields(name, lambda fields: (*fields, fresh))
        yield Mutation("rename and add", name, lambda module: rename(grow(module)),
                       (told, Told("field-added-optional", f"{UNLIKE}.{FRESH}")))  # fmt: skip


def is_used(side: View, name: str) -> bool:
    """Whether a type stands where it can be recognised by, and neither its name nor the overlay says what it is."""
    named = name.endswith(("Request", "Result", "ResultResponse")) or name in LISTING_UNIONS
    return bool(side.uses[name]) and not named and name not in side.revision.facts.was


def _decl(name: str, change: Callable[[Any], ir.Decl]) -> Callable[[ir.Module], ir.Module]:
    return lambda module: ir.Module(tuple(change(d) if d.name == name else d for d in module.decls))


def _fields(
    name: str, change: Callable[[tuple[ir.Field, ...]], tuple[ir.Field, ...]]
) -> Callable[[ir.Module], ir.Module]:
    return _decl(name, lambda decl: replace(decl, fields=change(decl.fields)))


# -- members ---------------------------------------------------------------------------------------------------


def _of_member(side: View, decl: ir.Interface, member: ir.Field) -> Iterator[Mutation]:
    name, path = decl.name, f"{decl.name}.{member.name}"
    key = member.name

    def changed(**values: Any) -> Callable[[ir.Module], ir.Module]:
        new = replace(member, **values)
        return _fields(name, lambda fields: tuple(new if f.name == key else f for f in fields))

    literal = side.schema.literal(member.type) is not None
    gone = _fields(name, lambda fields: tuple(f for f in fields if f.name != key))
    facts = side.revision.facts
    if not literal and path not in facts.open and not decl.index:
        worst = "ok" if member.optional else "breaking"
        yield Mutation("drop", name, gone, (Told("field-removed", path, "ok", worst),),
                       new_witness=None if member.optional else lambda value: value)  # fmt: skip
    if literal or path in facts.open:
        return
    if member.optional:
        yield Mutation("require", name, changed(optional=False),
                       (Told("field-became-required", path, "breaking"),), old_witness=_without(key))  # fmt: skip
    else:
        yield Mutation("free", name, changed(optional=True),
                       (Told("field-became-optional", path, "ok", "breaking"),), new_witness=_without(key))  # fmt: skip
    if not member.tags.deprecated:
        tags = replace(member.tags, deprecated=True)
        yield Mutation("deprecate member", name, changed(tags=tags), (Told("deprecated", path),))
    yield from _of_value(side, member, name, path, changed)


def _of_value(
    side: View,
    member: ir.Field,
    name: str,
    path: str,
    changed: Callable[..., Callable[[ir.Module], ir.Module]],
) -> Iterator[Mutation]:
    key, type_ = member.name, member.type
    if type_ == ir.Prim("string") and member.tags.format is None:
        union = ir.Union((type_, ir.Prim("number")))
        yield Mutation("widen", name, changed(type=union), (Told("type-widened", path, "ok", "dangerous"),),
                       new_witness=_with(key, 7))  # fmt: skip
        yield Mutation("change", name, changed(type=ir.Prim("boolean")),
                       (Told("type-changed", path, "breaking", "breaking"),),
                       old_witness=_with(key, "text"), new_witness=_with(key, True))  # fmt: skip
        yield Mutation("nullable", name, changed(type=ir.Union((type_, ir.Prim("null")))),
                       (Told("nullable-added", path, "ok", "dangerous"),), new_witness=_with(key, None))  # fmt: skip
        yield Mutation("format", name, changed(tags=replace(member.tags, format="uri")),
                       (Told("format-changed", path, "dangerous"),))  # fmt: skip
    if type_ == ir.Prim("number") and member.tags.maximum is None:
        tags = replace(member.tags, maximum=5)
        yield Mutation("limit", name, changed(tags=tags), (Told("constraint-tightened", path, "breaking"),),
                       old_witness=_with(key, 6))  # fmt: skip
    values = side.schema.literals(type_)
    if isinstance(type_, ir.Union) and len(values) > 1:
        yield from _of_literals(type_, name, path, key, lambda new: changed(type=new))
    if isinstance(type_, ir.Union) and all(isinstance(m, ir.Ref) for m in type_.members):
        fewer = _joined_all(type_.members[:-1])
        if side.schema.discriminator(type_):
            yield Mutation("lose alternative", name, changed(type=fewer),
                           (Told("union-member-removed", path, "breaking"),))  # fmt: skip


def _of_literals(
    union: ir.Union,
    name: str,
    path: str,
    key: str,
    changed: Callable[[ir.TypeExpr], Callable[[ir.Module], ir.Module]],
) -> Iterator[Mutation]:
    last = cast("ir.Lit", union.members[-1])
    fewer = _joined_all(union.members[:-1])
    more = ir.Union((*union.members, ir.Lit(FRESH)))
    yield Mutation("lose literal", name, changed(fewer), (Told("literal-removed", path, "breaking"),),
                   old_witness=_with(key, last.value) if key else None)  # fmt: skip
    yield Mutation("gain literal", name, changed(more), (Told("literal-added", path, "ok", "dangerous"),),
                   new_witness=_with(key, FRESH) if key else None)  # fmt: skip


def _with(key: str, value: Json) -> Make:
    return lambda message: {**copy.deepcopy(message), key: value}


def _without(key: str) -> Make:
    return lambda message: {k: v for k, v in message.items() if k != key}


# -- aliases, constants, methods ---------------------------------------------------------------------------------


def _of_alias(decl: ir.Alias) -> Iterator[Mutation]:
    type_ = decl.type
    if isinstance(type_, ir.Union) and all(isinstance(m, ir.Lit) for m in type_.members):

        def changed(new: ir.TypeExpr) -> Callable[[ir.Module], ir.Module]:
            return _decl(decl.name, lambda d: replace(d, type=new))

        yield from _of_literals(type_, decl.name, decl.name, "", changed)
    if isinstance(type_, ir.Union) and {ir.Lit, ir.Prim} == {type(m) for m in type_.members}:
        more = ir.Union((ir.Lit(FRESH), *type_.members))
        if all(isinstance(m, ir.Lit) or m == ir.Prim("string") for m in type_.members):
            yield Mutation("gain known literal", decl.name, _decl(decl.name, lambda d: replace(d, type=more)),
                           (Told("open-literal-added", decl.name),))  # fmt: skip


def _of_constants(side: View) -> Iterator[Mutation]:
    for name, const in side.schema.consts.items():
        users = [t for t in side.schema.types.values() if f"name='{name}'" in repr(t)]
        if isinstance(const.value, int) and not users:
            yield Mutation(
                "renumber", name, _decl(name, lambda d: replace(d, value=-1)),
                (Told("error-code-changed", name, "dangerous", "dangerous"),),
            )  # fmt: skip
            yield Mutation(
                "lose code", name,
                _without_decl(name),
                (Told("error-code-removed", name, "dangerous", "dangerous"),),
            )  # fmt: skip


def _of_methods(side: View) -> Iterator[Mutation]:
    base = "JSONRPCNotification" if side.is_message_base("JSONRPCNotification") else "Notification"
    fresh = ir.Interface(
        "ZzNotification", (ir.Ref(base),),
        (ir.Field("method", ir.Lit("notifications/zz")), ir.Field("params", ir.Ref("Implementation"))),
    )  # fmt: skip

    def add(module: ir.Module) -> ir.Module:
        return ir.Module((*_grown("ServerNotification", fresh.name)(module).decls, fresh))

    yield Mutation(
        "add notification", fresh.name, add,
        (
            Told("method-added", "method:notifications/zz", "ok", "dangerous"),
            Told("type-added", fresh.name),
            Told("union-member-added", "ServerNotification"),
        ),
    )  # fmt: skip
    for name, method in side.revision.methods.items():
        if method.kind == "notification" and method.senders == ("server",):
            yield Mutation(
                "turn around", f"{method.type} {name}",
                _grown("ClientNotification", method.type),
                (
                    Told("direction-added", f"method:{name}", "ok", "dangerous"),
                    Told("union-member-added", "ClientNotification"),
                ),
            )  # fmt: skip


def _without_decl(name: str) -> Callable[[ir.Module], ir.Module]:
    return lambda module: ir.Module(tuple(d for d in module.decls if d.name != name))


def _grown(union: str, name: str) -> Callable[[ir.Module], ir.Module]:
    return _decl(union, lambda d: replace(d, type=_joined(d.type, name)))


def _joined_all(members: tuple[ir.TypeExpr, ...]) -> ir.TypeExpr:
    first, *rest = members
    return ir.Union(members) if rest else first


def _joined(type_: ir.TypeExpr, name: str) -> ir.TypeExpr:
    members = type_.members if isinstance(type_, ir.Union) else (type_,)
    return ir.Union((*members, ir.Ref(name)))
