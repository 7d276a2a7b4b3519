"""The annotations of the generated models, made from the IR; each carries the names that it refers to.

A type that is not defined when a module is imported is written in quotes as an attribute of the revision's package.
pydantic resolves the quoted annotation when the model is first used, which imports the other module only then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, TypeAlias

from mcprev_codegen import ir
from mcprev_codegen.emit.pydantic.checks import is_checked
from mcprev_codegen.emit.pydantic.patterns import Pattern, rust_pattern, rust_patterns
from mcprev_codegen.python import Code, PythonNames, code, identifier, joined, literal
from mcprev_codegen.resolve import Schema


@dataclass(frozen=True, slots=True)
class Expression:
    """Source, and the names that it refers to, those of Python included."""

    text: Code
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Annotation(Expression):
    """A type as source."""

    quoted: bool = False
    """Whether the text is quoted, since it refers to types that may not be defined yet."""

    @property
    def source(self) -> Code:
        """The text as written in a module."""
        return literal(self.text) if self.quoted else self.text

    def annotated(self, *metadata: Expression) -> Annotation:
        """Return the annotation with metadata."""
        text = code("Annotated[{}, {}]", self.source, joined(", ", (one.text for one in metadata)))
        return Annotation(text, _names((self, *metadata)) | {"Annotated"})


def named(name: str) -> Annotation:
    """Return a name as an annotation."""
    return Annotation(identifier(name), frozenset({name}))


def call(function: str, arguments: Code) -> Expression:
    """Return the call of a function; the arguments refer to no name."""
    return Expression(code("{}({})", identifier(function), arguments), frozenset({function}))


def subscript(outer: str, *arguments: Annotation) -> Annotation:
    """Return a generic type whose quoted arguments are quoted each."""
    text = code("{}[{}]", identifier(outer), joined(", ", (one.source for one in arguments)))
    return Annotation(text, _names(arguments) | {outer})


def _generic(outer: str, *arguments: Annotation) -> Annotation:
    """Return a generic type that is quoted as a whole if one of its arguments is."""
    text = code("{}[{}]", identifier(outer), joined(", ", (one.text for one in arguments)))
    return Annotation(text, _names(arguments) | {outer}, any(one.quoted for one in arguments))


def _names(parts: Iterable[Expression]) -> frozenset[str]:
    return frozenset(name for part in parts for name in part.names)


Limit: TypeAlias = float | str | tuple[str, ...]
"""What an argument states that limits values."""
SCHEMA_INTEGER: Final = ir.Prim("count")
"""A number that upstream's schema.json declares as an integer."""
_SCHEMA_INTEGER: Final = named("Integer")
_NONE: Final = Annotation(code("None"))
_ANY: Final = named("Any")
_INT: Final = named("int")
_STR: Final = named("str")
_PRIMITIVES: Final[Mapping[str, tuple[Annotation, ...]]] = {
    "string": (_STR,),
    "number": (_INT, named("float")),
    "integer": (named("Whole"),),
    SCHEMA_INTEGER.name: (_SCHEMA_INTEGER,),
    "boolean": (named("bool"),),
    "null": (_NONE,),
    "object": (_generic("dict", _STR, _ANY),),
    "unknown": (_ANY,),
    "any": (_ANY,),
    "never": (named("Nothing"),),
}
"""The alternatives of each primitive; `int | float` keeps whether a number was written with a fraction part."""
NO_CODE: Final = code("")
BUILTINS: Final = frozenset({"bool", "dict", "float", "int", "list", "str", "tuple"})
"""The names that no module imports."""
_WHOLE: Final = {row.argument: row.whole for row in ir.CONSTRAINTS if row.whole}
"""The function that converts each limit of a number to the equivalent limit of whole numbers."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """Writes types of one hoisted schema as annotations for one module."""

    schema: Schema
    names: PythonNames
    package: Code
    """What the module calls the revision's package."""
    known: Collection[str] = ()
    """The types that the module can refer to by name."""
    inline: Collection[str] = ()
    """Aliases that are expanded instead of named."""
    parameters: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """The type parameters of each type that has any."""
    whole: bool = True
    """Whether members of the type number are integers, as upstream's schema.json has it; only in revisions of MCP."""
    imported: Collection[str] = ()
    """The types of an extension that are those of the revision it is based on."""
    imported_package: Code = NO_CODE
    """What the module calls the package of that revision."""

    @property
    def packages(self) -> frozenset[str]:
        """The names that the module imports for packages."""
        return frozenset(filter(None, map(_first, (self.package, self.imported_package))))

    def annotation(self, type_: ir.TypeExpr) -> Annotation:
        """Return the annotation of a type; named types become class names, and null comes last."""
        return _union(self._alternatives(type_))

    def within(self, type_: ir.TypeExpr, tags: ir.Tags) -> Annotation:
        """Return the annotation of a type with the limits of tags: by `Field` if they limit all its values but null."""
        native, others = self.limits(type_, tags)
        alternatives = self._alternatives(type_)
        found = _union([self._limited(one, native) for one in alternatives] if native else alternatives)
        return found.annotated(call("limited", _arguments(others))) if others else found

    def limits(self, type_: ir.TypeExpr, tags: ir.Tags) -> tuple[dict[str, Limit], dict[str, Limit]]:
        """Return the limits that arguments of a `Field` state, and those that `limited` states, by argument.

        Limits of kinds of values that the type does not have are ignored, and so is a pattern that no model can check.
        """
        members = [self.schema.follow(one) for one in self.schema.members(type_)]
        kinds = {_kind(one) for one in members if one != ir.Prim("null")}
        plain = all(isinstance(one, ir.Prim | ir.Template | ir.Array) for one in members)
        native: dict[str, Limit] = {}
        others: dict[str, Limit] = {}
        for row, limit in ir.limits_of(tags).items():
            is_native = plain and kinds == {row.limits} and row.argument
            if not is_native and not kinds & {row.limits, "unknown", "any"}:
                continue
            stated = _stated(limit)
            if isinstance(stated, Pattern):
                others |= {"matches": stated.matches, "never": stated.never}
            elif stated is not None and is_native and row.argument:
                native[row.argument] = stated
            elif stated is not None:
                others[row.attribute] = stated
        return native, others

    def _limited(self, one: Annotation, limits: Mapping[str, Limit]) -> Annotation:
        if one == _NONE:
            return one
        if one == _SCHEMA_INTEGER:
            return _INT.annotated(call("Field", _arguments(_whole(limits))), named("EXACT"))
        return one.annotated(call("Field", _arguments(_whole(limits) if one == _INT else limits)))

    def _alternatives(self, type_: ir.TypeExpr) -> list[Annotation]:
        """Return the annotations of the members of a union without duplicates."""
        members = type_.members if isinstance(type_, ir.Union) else (type_,)
        values = [self.schema.literal(member) for member in members]
        found: list[Annotation] = []
        if literals := [v for v in values if v is not None]:
            found += _literals(literals)
        for member, value in zip(members, values, strict=True):
            if value is None:
                found += self._single(member)
        kept = dict.fromkeys(one for one in found if one != _NONE)
        return [_ANY] if _ANY in kept else [*kept, *([_NONE] if _NONE in found else [])]

    def _single(self, type_: ir.TypeExpr) -> Iterator[Annotation]:
        match ir.hoisted(type_):
            case ir.Prim(kind):
                yield from _PRIMITIVES[kind]
            case ir.Ref(type_name) if type_name in self.inline:
                decl = self.schema.types[type_name]
                if isinstance(decl, ir.Alias):
                    yield from self._alternatives(decl.type)
                else:
                    yield self._map(decl.index)
            case ir.Ref(type_name):
                yield self._named(type_name)
            case ir.Array(item):
                yield _generic("list", self.annotation(item))
            case ir.Tuple(items, rest):
                yield _tuple([*map(self.annotation, items)], None if rest is None else self.annotation(rest))
            case ir.Template() as template:
                yield _STR.annotated(
                    call("Field", code("pattern={}", literal(rust_pattern(template.pattern))))
                )
            case ir.Record(value):
                yield _generic("dict", _STR, self.annotation(value))
            case ir.Obj(index=index):
                yield self._map(index)
            case ir.Union():
                yield from self._alternatives(type_)
            case ir.Lit() | ir.ConstRef():
                raise AssertionError("the literals of a union are printed together")

    def _named(self, name: str) -> Annotation:
        """Return a named type, with its type parameters."""
        used = (name, *self.parameters.get(name, ()))
        known = all(one in self.known for one in used)
        names = [identifier(self.names.class_name(one)) for one in used]
        package = self.imported_package if name in self.imported else self.package
        texts = names if known else [code("{}.{}", package, one) for one in names]
        text = code("{}[{}]", texts[0], joined(", ", texts[1:])) if len(used) > 1 else texts[0]
        return Annotation(
            text, frozenset(map(str, names)) if known else frozenset({_first(package)}), not known
        )

    def _map(self, index: ir.IndexSig | None) -> Annotation:
        return _generic("dict", _STR, self.annotation(index.value) if index else _ANY)


def _first(path: Code) -> str:
    """Return the name that a dotted path begins with."""
    return path.partition(".")[0]


def _stated(limit: float | str) -> Limit | Pattern | None:
    """Return a limit as pydantic states it: a regular expression as one or several of its engine, None for one of none."""
    if not isinstance(limit, str):
        return limit
    if not is_checked(limit):
        return None
    found = rust_patterns(limit)
    return found if len(found.all) > 1 else found.matches[0]


def _kind(type_: ir.TypeExpr) -> str:
    """Return the kind of value of a type, as `Constraint.limits` names it."""
    match type_:
        case ir.Prim("integer" | SCHEMA_INTEGER.name) | ir.Lit(int() | float()):
            return "number"
        case ir.Prim(name):
            return name
        case ir.Template() | ir.Lit(str()):
            return "string"
        case ir.Array() | ir.Tuple():
            return "array"
        case (
            ir.Lit() | ir.ConstRef() | ir.Ref() | ir.Union() | ir.Intersection() | ir.Record() | ir.Obj() | ir.Derived()
        ):  # fmt: skip
            return "other"


def plain_value(value: ir.Literal) -> ir.Literal:
    """Return the value of a literal as Python has it: 1 for `1.0`, which TypeScript takes as the same."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _literals(values: Sequence[ir.Literal]) -> Iterator[Annotation]:
    """Yield the types of literals; Python has no literal type of a fraction, which is a float within limits."""
    plain = [*map(plain_value, values)]
    if listed := [v for v in plain if not isinstance(v, float)]:
        found = Annotation(
            code("Literal[{}]", joined(", ", dict.fromkeys(map(literal, listed)))), frozenset({"Literal"})
        )
        yield found if all(isinstance(v, str) for v in listed) else found.annotated(named("EXACTLY"))
    for value in plain:
        if isinstance(value, float):
            yield named("float").annotated(call("Field", _arguments({"ge": value, "le": value})))


def _tuple(items: Sequence[Annotation], rest: Annotation | None) -> Annotation:
    """Return the type of an array whose first items have types of their own; JSON arrays are read as tuples."""
    parts = [item.source for item in items]
    if rest is None:
        found = code("tuple[{}]", joined(", ", parts) if parts else code("()"))
        return Annotation(found, _names(items) | {"tuple"}).annotated(call("Field", code("strict=False")))
    found = code("tuple[{}]", joined(", ", [*parts, code("*tuple[{}, ...]", rest.source)]))
    return Annotation(found, _names((*items, rest)) | {"tuple"}).annotated(named("FURTHER"))


def _arguments(values: Mapping[str, Limit]) -> Code:
    return joined(", ", (code("{}={}", identifier(key), literal(value)) for key, value in values.items()))


def _whole(limits: Mapping[str, Limit]) -> dict[str, Limit]:
    """Return the equivalent limits for whole numbers."""
    return {
        key: value if isinstance(value, str | tuple) else _WHOLE[key](Fraction(str(value)))
        for key, value in limits.items()
    }


def _union(alternatives: Sequence[Annotation]) -> Annotation:
    quoted = any(one.quoted for one in alternatives)
    if quoted and any(one.names - BUILTINS for one in alternatives if not one.quoted):
        # A quoted annotation may be evaluated in the module of a subclass, which has its own imports.
        return subscript("Union", *alternatives)
    text = joined(" | ", (one.text for one in alternatives))
    return Annotation(text, _names(alternatives), quoted)
