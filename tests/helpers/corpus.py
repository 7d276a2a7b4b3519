"""Valid and invalid messages of any type of a revision, derived from its schema and nothing else.

Three things come from one reading of the IR (hoisted and overlaid), independent of the generated models:

- `Judge` says whether a JSON value belongs to a type, strictly or with the leniencies that models grant;
- `Corpus.sample` builds plain examples (smallest, fullest) for tables of mutations, `Corpus.drawn` random ones;
- `Corpus.values` is a hypothesis strategy of valid values with everything varied that may vary.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias, cast

from hypothesis import strategies as st

from helpers import pinned
from mcprev_codegen import ir
from mcprev_codegen.facts.revision import Revision
from mcprev_codegen.ir.nodes import Json
from mcprev_codegen.resolve.flat import FlatField
from mcprev_codegen.resolve.schema import Schema

Strategy: TypeAlias = st.SearchStrategy[Json]
JsonObject: TypeAlias = dict[str, Json]

INTEGERS: Final[tuple[Json, ...]] = (0, 1, -1, 7, 100, 2**53 + 1, -(2**63), 10**20)
FRACTIONS: Final[tuple[Json, ...]] = (0.5, -1.25, 1e-9, 5e-324)
WHOLE_FLOATS: Final[tuple[Json, ...]] = (0.0, -0.0, 1.0, 1e300)
STRINGS: Final[tuple[Json, ...]] = ("", "x", "1", "null", "zażółć 🐍", '\u0000\u2028\n"\\', " padded ")
BASE64: Final[tuple[Json, ...]] = (
    "", "AA==", "iVBORw0KGgoAAAANSUhEUg==", "_-8=", "/+8", "bm90IHBhZGRlZA", "A" * 4096,
)  # fmt: skip
URIS: Final[tuple[Json, ...]] = (
    "file:///a", "HTTP://EXAMPLE.com", "http://example.com", "https://x.test/ä?q=%20#f", "x:{y}",
)  # fmt: skip
ANYTHING: Final[tuple[Json, ...]] = (
    None, True, False, 0, 1, 1.0, -0.0, 10**20, 1.5, "", "1", "ü", [], {}, [None, 1, 1.0, True],
    {"a": None, "b": [{}]}, {"type": "text"}, {"type": "text", "text": None}, {"_meta": {"x": 1.0}},
)  # fmt: skip
OBJECTS: Final[tuple[Json, ...]] = tuple(v for v in ANYTHING if isinstance(v, dict))
EXTRAS: Final[tuple[JsonObject, ...]] = (
    {}, {}, {},
    {"x-null": None},
    {"x-one": 1, "x-float": 1.0, "x-true": True},
    {"x-deep": {"a": [None, {"b": 1.0}]}, "": "empty", "ключ": []},
    {"self": 1, "cls": None, "data_": 0, "model_config": {"extra": "forbid"}, "__class__": "x", "__constructor_defaults__": 1.0},
    {"model_fields": None, "to_wire": 1, "copy": [], "model_dump": {}},
)  # fmt: skip
"""Members that no revision defines, some with names that a Python class has plans for."""
PROBES: Final[tuple[Json, ...]] = (
    None, True, False, 0, -1, 1, 101, 10**30, 1.5, 1.0, "", "x", "1", [], ["x"], [1], [None], [[]], [{}],
    {}, {"x": 1}, {"x": "y"}, {"type": "x"}, {"x": {}}, {"x": None},
)  # fmt: skip
"""What is put in the place of a member to see whether it is taken."""
FEW_PROBES: Final[tuple[Json, ...]] = (None, 1.5, "x", [[]], {})
"""One of each kind."""
UNKNOWN_CONTENT: Final[tuple[JsonObject, ...]] = (
    {"type": "x-future"},
    {"type": "x-future", "text": 1.0, "data": None, "_meta": [True], "nested": {"type": "text"}},
    {"type": ""},
)


@dataclass(frozen=True)
class Judge:
    """Whether a value belongs to a type; `lenient` grants what models tolerate on reading, and only that.

    The leniencies are: null on an optional member that is not nullable reads as absent; a member with a
    default in the overlay may be missing. Content of an unknown type is part of an open union either way.
    """

    revision: Revision
    lenient: bool = True

    @property
    def schema(self) -> Schema:
        """The schema that models are made from."""
        return self.revision.schema

    def accepts(self, type_: ir.TypeExpr, value: Json, place: str = "", tags: ir.Tags = ir.NO_TAGS) -> bool:
        """Whether `value` belongs to `type_`; `place` is `Owner.member` where the overlay may open a union."""
        match type_:
            case ir.Prim(name):
                return _is_primitive(name, value) and _within(tags, value)
            case ir.Lit() | ir.ConstRef():
                literal = self.schema.literal(type_)
                return type(value) is type(literal) and value == literal
            case ir.Array(item):
                return (
                    isinstance(value, list)
                    and (tags.max_items is None or len(value) <= tags.max_items)
                    and all(self.accepts(item, v, place) for v in value)
                )
            case ir.Union(members):
                return any(self.accepts(m, value, place, tags) for m in members) or (
                    place in self.revision.facts.open and self._is_unknown(type_, value)
                )
            case ir.Record(item):
                return isinstance(value, dict) and all(self.accepts(item, v) for v in value.values())
            case ir.Ref(name):
                decl = self.schema.types[name]
                if isinstance(decl, ir.Alias):
                    return self.accepts(decl.type, value, name, tags)
                return self._is_object(self.schema.flat(name).fields, self.schema.flat(name).index, value)
            case ir.Obj():
                flat = self.schema.flatten(type_)
                return self._is_object(flat.fields, flat.index, value)
            case _:
                raise AssertionError(f"hoisting leaves no {type_}")

    def _is_object(self, fields: Sequence[FlatField], index: ir.IndexSig | None, value: Json) -> bool:
        if not isinstance(value, dict):
            return False
        if index is not None:
            others = value.keys() - {f.name for f in fields}
            if not all(self.accepts(index.value, value[name]) for name in others):
                return False
        return all(self._has(f, value) for f in fields)

    def _has(self, member: FlatField, value: JsonObject) -> bool:
        f, place = member.field, f"{member.declared_in}.{member.name}"
        if f.name not in value:
            return f.optional or (self.lenient and self.has_default(member))
        given = value[f.name]
        if given is None and f.optional and self.lenient:
            return True
        return self.accepts(f.type, given, place, f.tags)

    def has_default(self, member: FlatField) -> bool:
        """Whether the overlay gives a value for the member when it is absent."""
        owners = [member.declared_in, *self.schema.supertypes(member.declared_in)]
        facts = self.revision.facts.default
        literal = self.schema.literal(member.field.type) is not None
        return not literal and any(f"{owner}.{member.name}" in facts for owner in owners)

    def _is_unknown(self, union: ir.Union, value: Json) -> bool:
        found = self.schema.discriminator(union)
        assert found is not None
        if not isinstance(value, dict):
            return False
        tag = value.get(found.property)
        known = [v for values in found.values for v in values]
        return isinstance(tag, str) and tag not in known and isinstance(value.get("type"), str)


def _is_primitive(name: str, value: Json) -> bool:
    match name:
        case "unknown" | "any":
            return True
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "object":
            return isinstance(value, dict)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "integer":
            return not isinstance(value, bool) and (
                isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            )
        case _:
            raise AssertionError(name)


def _within(tags: ir.Tags, value: Json) -> bool:
    if not isinstance(value, int | float):
        return True
    above = tags.minimum is None or value >= tags.minimum
    return above and (tags.maximum is None or value <= tags.maximum)


@dataclass(frozen=True)
class Corpus:
    """Examples of the types of one revision."""

    revision: Revision
    open: bool = False
    """Whether open unions also get content of an unknown type."""
    _cache: dict[tuple[str, str], Strategy] = field(
        default_factory=dict[tuple[str, str], Strategy], repr=False, compare=False
    )

    @property
    def schema(self) -> Schema:
        """The schema that models are made from."""
        return self.revision.schema

    @cached_property
    def judge(self) -> Judge:
        """The strict judge of this revision."""
        return Judge(self.revision, lenient=False)

    # -- plain examples ------------------------------------------------------------------------------

    def samples(self, name: str) -> Iterator[Json]:
        """The smallest and the fullest example of a type, for each member of a union."""
        for member in self.schema.members(ir.Ref(name)):
            for full in (False, True):
                yield self.sample(member, full=full)

    def sample(self, type_: ir.TypeExpr, *, full: bool, tags: ir.Tags = ir.NO_TAGS, depth: int = 0) -> Json:
        """One example: required members only, or all members with something in every list and map."""
        followed = self.schema.follow(type_)
        if isinstance(type_, ir.Ref) and self._recursive(type_.name):
            return next(copy.deepcopy(v) for v in reversed(ANYTHING) if self.judge.accepts(type_, v))
        match followed:
            case ir.Prim(name):
                return self._leaf(name, tags)[0 if not full else -1]
            case ir.Lit() | ir.ConstRef():
                return self.schema.literal(followed)
            case ir.Array(item):
                return [self.sample(item, full=full, depth=depth + 1)] if full else []
            case ir.Union(members):
                return self.sample(members[-1 if full else 0], full=full, tags=tags, depth=depth)
            case ir.Record(item):
                return {"key": self.sample(item, full=full)} if full else {}
            case ir.Ref() | ir.Obj():
                flat = self.schema.flatten(followed)
                value: JsonObject = {
                    f.name: self.sample(f.field.type, full=full, tags=f.field.tags, depth=depth + 1)
                    for f in flat.fields
                    if full or not f.field.optional
                }
                if full and not flat.fields and flat.index is not None:
                    value["key"] = self.sample(flat.index.value, full=full)
                return value
            case _:
                raise AssertionError(f"hoisting leaves no {followed}")

    def drawn(self, type_: ir.TypeExpr, draw: random.Random, tags: ir.Tags = ir.NO_TAGS) -> Json:
        """One example in which chance decides on members of unions, optional members and plain values."""
        followed = self.schema.follow(type_)
        if isinstance(type_, ir.Ref) and self._recursive(type_.name):
            return copy.deepcopy(draw.choice([v for v in ANYTHING if self.judge.accepts(type_, v)]))
        match followed:
            case ir.Prim(name):
                return copy.deepcopy(draw.choice(self._leaf(name, tags)))
            case ir.Array(item):
                return [self.drawn(item, draw) for _ in range(draw.choice((0, 1, 2)))]
            case ir.Union(members):
                return self.drawn(draw.choice(members), draw, tags)
            case ir.Record(item):
                return {"key": self.drawn(item, draw)} if draw.random() < 0.5 else {}
            case ir.Ref() | ir.Obj():
                return {
                    f.name: self.drawn(f.field.type, draw, f.field.tags)
                    for f in self.schema.flatten(followed).fields
                    if not f.field.optional or draw.random() < 0.5
                }
            case _:
                return self.sample(followed, full=True)

    def _recursive(self, name: str) -> bool:
        reached: set[str] = set()
        pending = list(ir.references(self.schema.types[name]))
        while pending:
            here = pending.pop()
            if here not in reached and isinstance(self.schema.types[here], ir.Alias):
                reached.add(here)
                pending += ir.references(self.schema.types[here])
        return name in reached

    def _leaf(self, name: str, tags: ir.Tags) -> Sequence[Json]:
        pools: Mapping[str, Sequence[Json]] = {
            "null": (None,),
            "boolean": (True, False),
            "string": {"byte": BASE64, "uri": URIS}.get(tags.format or "", STRINGS),
            "object": OBJECTS,
            "number": (*INTEGERS, *WHOLE_FLOATS, *FRACTIONS),
            "integer": (*INTEGERS, *WHOLE_FLOATS),
        }
        return [v for v in pools.get(name, ANYTHING) if _within(tags, v)]

    # -- strategies ----------------------------------------------------------------------------------

    def values(self, name: str) -> Strategy:
        """Every kind of valid value of a declared type."""
        return self._values(ir.Ref(name), "", ir.NO_TAGS)

    def _values(self, type_: ir.TypeExpr, place: str, tags: ir.Tags) -> Strategy:
        if isinstance(type_, ir.Ref):
            key = (type_.name, repr(tags))
            if key not in self._cache:
                self._cache[key] = self._named(type_.name, tags)
            return self._cache[key]
        match type_:
            case ir.Prim(name):
                pool = st.sampled_from(self._leaf(name, tags))
                plain_text = name == "string" and tags.format is None
                return st.one_of(pool, st.text(max_size=8)) if plain_text else pool
            case ir.Lit() | ir.ConstRef():
                return st.just(self.schema.literal(type_))
            case ir.Array(item):
                lists = st.lists(self._values(item, place, ir.NO_TAGS), max_size=2)
                return cast("Strategy", lists)
            case ir.Union(members):
                branches = [self._values(m, place, tags) for m in members]
                if self.open and place in self.revision.facts.open:
                    branches.append(cast("Strategy", st.sampled_from(UNKNOWN_CONTENT)))
                return st.one_of(branches)
            case ir.Record(item):
                return self._map(item)
            case ir.Obj():
                return self._object(type_, "")
            case _:
                raise AssertionError(f"hoisting leaves no {type_}")

    def _named(self, name: str, tags: ir.Tags) -> Strategy:
        decl = self.schema.types[name]
        if self._recursive(name):
            return st.sampled_from([v for v in ANYTHING if self.judge.accepts(ir.Ref(name), v)])
        if isinstance(decl, ir.Alias):
            return self._values(decl.type, name, tags)
        return self._object(ir.Ref(name), name)

    def _map(self, item: ir.TypeExpr) -> Strategy:
        keys = st.sampled_from(["a", "", "ключ", "type", "_meta"])
        return cast("Strategy", st.dictionaries(keys, self._values(item, "", ir.NO_TAGS), max_size=2))

    def _object(self, type_: ir.TypeExpr, owner: str) -> Strategy:
        flat = self.schema.flatten(type_, owner)
        if not flat.fields:
            return self._map(flat.index.value) if flat.index else cast("Strategy", st.sampled_from(OBJECTS))
        required: dict[str, Strategy] = {}
        optional: dict[str, Strategy] = {}
        for f in flat.fields:
            values = self._values(f.field.type, f"{f.declared_in}.{f.name}", f.field.tags)
            (optional if f.field.optional else required)[f.name] = values
        declared = {f.name for f in flat.fields}
        extras = [{k: v for k, v in extra.items() if k not in declared} for extra in EXTRAS]
        extras.append(
            {a: 1.0 for a in sorted(map(pinned.PYTHON_NAMES.attribute, declared)) if a not in declared}
        )

        def merge(parts: tuple[JsonObject, JsonObject]) -> Json:
            return {**parts[0], **copy.deepcopy(parts[1])}

        members = st.fixed_dictionaries(required, optional=optional)
        return cast("Strategy", st.tuples(members, st.sampled_from(extras)).map(cast("Any", merge)))


@dataclass(frozen=True, slots=True)
class Mutation:
    """A valid value with one thing changed: what was done, the new value and the member it is about."""

    what: str
    type: ir.TypeExpr
    """The type, or the member of a union, that the value was made from."""
    value: Json
    member: str


def mutations(corpus: Corpus, name: str) -> Iterator[Mutation]:
    """Every member of a type dropped, and every probe put in its place, in the fullest example.

    What a type has from another one of the revision, a base or a member of a union, gets `FEW_PROBES`: every probe
    is tried at the other one, whose declaration is the same in the schema and in the models.
    """
    for type_ in corpus.schema.members(ir.Ref(name)):
        followed = corpus.schema.follow(type_)
        whole = corpus.sample(type_, full=True)
        is_own = type_ == ir.Ref(name) or not isinstance(type_, ir.Ref)
        for probe in PROBES if is_own else FEW_PROBES:
            yield Mutation(f"the whole = {probe!r}", type_, copy.deepcopy(probe), "")
        if not isinstance(followed, ir.Ref) or not isinstance(whole, dict):
            continue
        for f in corpus.schema.flat(followed.name).fields:
            rest = {k: v for k, v in whole.items() if k != f.name}
            yield Mutation(f"without {f.name}", type_, rest, f.name)
            for probe in PROBES if f.declared_in == name else FEW_PROBES:
                changed = {**rest, f.name: copy.deepcopy(probe)}
                yield Mutation(f"{f.name} = {probe!r}", type_, changed, f.name)
