"""Checks that a schema has a valid Python form: valid names, no name clashes, literals and patterns Python supports.

A name that has no Python form in `python.names`, and none in names.toml, stops generation with an error at its declaration. Otherwise the package would fail to
import, or one member would hide another.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.emit.names.chosen import is_builtin
from mcprev_codegen.emit.pydantic import hides_member, is_checked, pattern_error
from mcprev_codegen.errors import CodegenError, InputError, SchemaError, together
from mcprev_codegen.facts import Revision
from mcprev_codegen.python import PythonNames, is_identifier
from mcprev_codegen.resolve import Schema

_MAX_WRITTEN_OUT: Final = 100_000
"""The maximum number of types in all aliases, those of their aliases included each time."""
_MAX_TOLD: Final = 1_000
"""The maximum number of types with wrong names that one run reports."""
_RENAME, _RENAME_MEMBER = (
    f"give it another one under [{kind}] in names.toml (for a schema of your own: in a file, with --names)"
    for kind in ("types", "members")
)


def check_names(revision: Revision, reserved: frozenset[str]) -> None:
    """Raise `SchemaError` for a type, member, constant or method without a valid and unique Python name.

    `reserved` are the names that the generated modules use themselves.
    """
    schema, names = revision.schema, revision.names
    taken = dict.fromkeys(reserved, "a name of the package")
    if not schema.types:
        raise InputError(f"{schema.path}: it declares no type; pass a schema.ts of MCP")
    _check_cycles(schema)
    written_out = 0
    wrong: list[CodegenError] = []
    for name, decl in schema.types.items():
        python = names.class_name(name)
        if not is_identifier(python) or is_builtin(python):
            wrong.append(schema.fail(decl, f"'{name}' is not a valid name of a Python class; {_RENAME}"))
        elif python in taken:
            wrong.append(schema.fail(decl, f"'{name}' would hide {taken[python]}; {_RENAME}"))
        taken.setdefault(python, f"the type '{name}'")
        if isinstance(decl, ir.Alias):
            written_out = _check_size(schema, decl, written_out)
            wrong += _pattern_errors(schema, decl, decl.tags, f"'{name}'")
        if schema.is_object(ir.Ref(name)):
            wrong += _member_errors(schema, names, name, decl)
    if wrong:
        raise together(wrong[:_MAX_TOLD])
    for name, const in schema.consts.items():
        if not is_identifier(name):
            raise schema.fail(const, f"'{name}' is not a valid name of a constant in Python; rename it")
        if name in taken or hasattr(builtins, name):
            raise schema.fail(const, f"'{name}' would hide {taken.get(name, 'a name of Python')}; rename it")
    for method in revision.methods.values():
        if not is_identifier(method.attr):
            raise schema.fail(method.type, f"'{method.type}' leaves no name for a stub; rename it")


def _check_cycles(schema: Schema) -> None:
    """Raise `SchemaError` for aliases that refer to each other in several ways: all are written as the first one."""
    aliases = {n: schema.references[n] for n in schema.types if not schema.is_object(ir.Ref(n))}
    cycles = ir.cycles(aliases)
    first = {cycle: ir.opener(cycle, aliases) for cycle in {*cycles.values()}}
    others = ir.cycles({n: used for n, used in aliases.items() if n in cycles and first[cycles[n]] != n})
    for name in others:
        raise schema.fail(
            name,
            f"'{name}' is one of several aliases that refer to each other in several ways; make one of them an interface",
        )


def _check_size(schema: Schema, decl: ir.Alias, before: int) -> int:
    """Return the number of types in all aliases so far, after this one; `before` is that of the others.

    Raises `SchemaError` if the aliases in them make it too large.
    """
    pending: list[tuple[ir.TypeExpr, frozenset[str]]] = [(ir.Ref(decl.name), frozenset())]
    for found in range(before, _MAX_WRITTEN_OUT):
        if not pending:
            return found
        type_, inside = pending.pop()
        if isinstance(type_, ir.Ref):
            if type_.name in inside or not isinstance(schema.types[type_.name], ir.Alias):
                continue
            inside |= {type_.name}
        match schema.follow(type_):
            case ir.Union():
                pending += [(member, inside) for member in schema.members(type_)]
            case ir.Tuple() as found_tuple:
                pending += [(item, inside) for item in found_tuple.parts]
            case ir.Array(item) | ir.Record(item) | ir.Obj(_, ir.IndexSig(value=item)):
                pending.append((item, inside))
            case (
                ir.Prim() | ir.Lit() | ir.ConstRef() | ir.Ref() | ir.Intersection() | ir.Obj() | ir.Derived() |
                ir.Template()
            ):  # fmt: skip
                pass
    raise schema.fail(
        decl,
        f"the aliases up to '{decl.name}' have more than {_MAX_WRITTEN_OUT} parts with the aliases in them written out; "
        "make some of them interfaces",
    )


def _member_errors(
    schema: Schema, names: PythonNames, name: str, decl: ir.Interface | ir.Alias
) -> Iterator[SchemaError]:
    """Yield an error for each member of a type that cannot be an attribute."""
    seen: dict[str, str] = {}
    for member in schema.flat(name).fields:
        python = names.attribute(member.name)
        place = member.field if member.declared_in == name else decl
        where = f"member '{member.name}' of '{name}'"
        if not is_identifier(python) or python.startswith("_"):
            yield schema.fail(place, f"{where} has no name in Python; {_RENAME_MEMBER}")
        elif hides_member(python):
            yield schema.fail(place, f"{where} would hide a member of every model; {_RENAME_MEMBER}")
        elif python in seen:
            yield schema.fail(
                place,
                f"{where} and member '{seen[python]}' would have the same attribute '{python}'; {_RENAME_MEMBER}",
            )
        seen.setdefault(python, member.name)
        yield from _pattern_errors(schema, place, member.field.tags, where)


def _pattern_errors(
    schema: Schema, place: ir.Decl | ir.Field, tags: ir.Tags, where: str
) -> Iterator[SchemaError]:
    if tags.pattern is not None and (reason := pattern_error(tags.pattern)):
        yield schema.fail(place, f"the @pattern of {where} cannot be checked by pydantic: {reason}")


def unchecked_patterns(revision: Revision) -> list[str]:
    """Return a warning for each pattern that models do not check, since no engine matches it in linear time."""
    schema = revision.schema
    places: list[tuple[ir.Alias | ir.Field, str]] = [
        *((decl, f"'{name}'") for name, decl in schema.types.items() if isinstance(decl, ir.Alias)),
        *(
            (f.field, f"member '{f.name}' of '{name}'")
            for name in schema.types
            for f in schema.fields(name)
            if f.declared_in == name
        ),
    ]
    return [
        schema.fail(
            place,
            f"the @pattern of {where} looks around within a text, or back to a group; schema.json has it, models do not check it",
        ).headline
        for place, where in places
        if place.tags.pattern is not None and not is_checked(place.tags.pattern)
    ]
