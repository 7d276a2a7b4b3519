"""The method table of one revision: direction, params, results and capability of each method.

Kind and direction follow from the message unions (ClientRequest, ServerNotification, ...), in an extension without them from the
overlay; the members of InputRequest are requests inside results. The result of a request is the first of these that exists: the result of
`<Stem>ResultResponse`, with further union members as alternates; `<Stem>Result`; EmptyResult. The capability follows
from the method name (`resources/subscribe`: `resources.subscribe`) unless the overlay states another one. Results that
no union lists, and the header parameter, come from the overlay only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mcprev_codegen import ir
from mcprev_codegen.facts.overlay import OverlayFacts, outdated
from mcprev_codegen.facts.overlay_file import Problems
from mcprev_codegen.facts.vocabulary import EMPTY_RESULT, INPUT_REQUESTS, INPUT_RESPONSES, Side
from mcprev_codegen.python import stub
from mcprev_codegen.resolve import Schema
from mcprev_codegen.support import Kind, MethodSpec, Transport, camel_case


@dataclass(frozen=True, slots=True)
class Method(MethodSpec):
    """One method of a revision, as its package describes it, and what only generation needs of it."""

    result_source: str | None
    """The source of the result type: `response`, `naming` or `empty`; also `similarity` in a comparison."""

    @property
    def senders(self) -> tuple[Side, ...]:
        """The sides that may send the message."""
        return tuple(side for side in Side if side.direction in self.directions)

    @property
    def results(self) -> tuple[str, ...]:
        """Every result type, the primary one first."""
        return (self.result, *self.alternate_results) if self.result else ()

    @property
    def result_unions(self) -> frozenset[str]:
        """The unions of a schema that list the results of this method."""
        if self.transport is Transport.EMBEDDED:
            return frozenset({INPUT_RESPONSES})
        return frozenset(side.other.type_name("Result") for side in self.senders)


def method_table(
    schema: Schema, facts: OverlayFacts, problems: Problems, imported: Collection[str] = ()
) -> dict[str, Method]:
    """Return every method by its wire name, in the order of the schema's declarations.

    `schema` is hoisted and has the overlay applied; unions among the `imported` types list no methods of it. Raises `SchemaError` if a message has no single method literal.
    Facts that do not fit are ignored and added to `problems`.
    """
    return _Table(schema, facts, problems, imported).build()


def check_methods(
    schema: Schema, facts: OverlayFacts, methods: Mapping[str, Method], *, unions: bool = True
) -> None:
    """Raise `SchemaError` for params that are not one named object, and for a result that no union lists.

    With `unions`, the schema has to declare these unions.
    """
    for method in methods.values():
        params = schema.flat(method.type).get("params")
        if method.params is None and params is not None and params.type != ir.Obj():
            message = f"the params of '{method.type}' must be one named object"
            raise schema.fail(method.type, message)
        if method.kind is Kind.REQUEST:
            _check_results(schema, facts, method, unions=unions)


def unlisted(
    schema: Schema, methods: Mapping[str, Method], inherited: Collection[str] | None
) -> Iterator[str]:
    """Yield a warning for each message in no message union, and for each new request without its own result type.

    `inherited` are the methods of the revision that the schema extends; None if it extends none.
    """
    known = {method.type for method in methods.values()}
    for name, decl in schema.types.items():
        member = schema.flat(name).get("method") if isinstance(decl, ir.Interface) else None
        if member is not None and isinstance(schema.literal(member.type), str) and name not in known:
            kind = "Notification" if name.endswith("Notification") else "Request"
            yield schema.fail(
                decl,
                f"'{name}' is not generated as a method, because no union contains it: add it to Client{kind} or Server{kind}",
            ).headline
    for method in methods.values():
        if inherited is not None and method.result_source == "empty" and method.method not in inherited:
            expected = f"{method.type.removesuffix('Request')}Result"
            yield schema.fail(
                method.type,
                f"'{method.method}' has the result EmptyResult, because no {expected} is declared",
            ).headline


@dataclass(frozen=True)
class _Table:
    schema: Schema
    facts: OverlayFacts
    problems: Problems
    imported: Collection[str]

    def build(self) -> dict[str, Method]:
        unions = [(s.type_name(k.capitalize()), s, k, Transport.JSONRPC) for s in Side for k in Kind]
        unions.append((INPUT_REQUESTS, Side.SERVER, Kind.REQUEST, Transport.EMBEDDED))
        senders: dict[str, set[Side]] = {}
        sent: dict[str, tuple[Kind, Transport]] = {}
        for union, side, kind, transport in unions:
            for name in self._union(union):
                senders.setdefault(name, set()).add(side)
                sent[name] = kind, transport
        for name, sender in self.facts.sender.items():
            senders.setdefault(name, set()).add(self._side(name, sender))
            sent[name] = (
                Kind.NOTIFICATION if name.endswith(Kind.NOTIFICATION.capitalize()) else Kind.REQUEST,
                Transport.JSONRPC,
            )
        names = [name for name in self.schema.types if name in sent]
        methods = [self._method(n, *sent[n], tuple(s for s in Side if s in senders[n])) for n in names]
        self._check_names(methods)
        return {m.method: m for m in methods}

    def _side(self, name: str, sender: str) -> Side:
        if sender in (*Side,):
            return Side(sender)
        raise self.facts.entries[f"{name}#sender"].fail(f"'{sender}' is no side: use {' or '.join(Side)}")

    def _union(self, name: str) -> list[str]:
        if name not in self.schema.types or name in self.imported:
            return []
        members = [self.schema.follow(m) for m in self.schema.members(ir.Ref(name))]
        found = [m.name for m in members if isinstance(m, ir.Ref)]
        # Another protocol may have a type of that name, of which no part has one method.
        return found if any(self._literal(one) is not None for one in found) else []

    def _literal(self, name: str) -> str | None:
        """Return the method of a message; None if it has no single one."""
        member = self.schema.flat(name).get("method")
        value = self.schema.literal(member.type) if member else None
        return value if isinstance(value, str) else None

    def _method(self, name: str, kind: Kind, transport: Transport, senders: tuple[Side, ...]) -> Method:
        decl = self.schema.types[name]
        flat = self.schema.flat(name)
        params, literal = flat.get("params"), self._literal(name)
        if literal is None:
            raise self.schema.fail(
                decl, f"'{name}' is in a message union, but its 'method' is not a single literal"
            )
        source, results = self._results(name) if kind is Kind.REQUEST else (None, [])
        if literal in self.facts.alternate:
            alternate = self.facts.alternate[literal]
            if alternate in self.schema.types:
                results.append(alternate)
            else:
                self._record_mismatch(
                    f"{literal}#alternate", f"'{alternate}' is not declared in this revision"
                )
        fields = self._field_names(params.type) if params else frozenset[str]()
        return Method(
            method=literal,
            attr=stub(name),
            kind=kind,
            type=name,
            directions=frozenset(side.direction for side in senders),
            transport=transport,
            params=params.type.name if params and isinstance(params.type, ir.Ref) else None,
            params_optional=params is None or params.optional,
            result=results[0] if results else None,
            alternate_results=tuple(results[1:]),
            result_source=source,
            capability=self._capability(literal, kind, senders),
            name_param=self._name_param(literal, fields),
            input_responses="inputResponses" in fields,
            cacheable=bool(results) and {"ttlMs", "cacheScope"} <= self._field_names(ir.Ref(results[0])),
            paginated="cursor" in fields,
            task_augmented="task" in fields,
            deprecated=decl.tags.deprecated,
        )

    def _field_names(self, type_: ir.TypeExpr) -> frozenset[str]:
        """Return the members that all alternatives of an object type share."""
        flats = [self.schema.flatten(m) for m in self.schema.members(type_) if self.schema.is_object(m)]
        common = {f.name for f in flats[0].fields} if flats else set[str]()
        for flat in flats[1:]:
            common &= {f.name for f in flat.fields}
        return frozenset(common)

    def _results(self, name: str) -> tuple[str, list[str]]:
        stem = name.removesuffix("Request")
        types = self.schema.types
        if f"{stem}ResultResponse" in types:
            carried = self.schema.flat(f"{stem}ResultResponse").get("result")
            if carried is not None:
                members = carried.type.members if isinstance(carried.type, ir.Union) else (carried.type,)
                return "response", [m.name for m in members if isinstance(m, ir.Ref)]
        if f"{stem}Result" in types:
            return "naming", [f"{stem}Result"]
        if EMPTY_RESULT not in types:
            raise self.schema.fail(name, f"'{name}' has no result: declare {stem}Result or EmptyResult")
        return "empty", [EMPTY_RESULT]

    def _capability(self, method: str, kind: Kind, senders: tuple[Side, ...]) -> str | None:
        """Return the capability from the overlay or from the method name; None if the method needs none."""
        # A request needs a capability of its receiver, a notification one of its sender.
        sides = [side.other if kind is Kind.REQUEST else side for side in senders]
        holders = [side.type_name("Capabilities") for side in sides]
        derived = self._implied_capability(method, holders)
        if method not in self.facts.capability:
            return derived or None
        path, pointer = self.facts.capability[method], f"{method}#capability"
        entry = self.facts.entries.get(pointer)
        if path and not all(self._has_path(holder, path) for holder in holders):
            self._record_mismatch(pointer, f"'{method}' requires '{path}', which is not in this revision")
        elif entry is not None and entry.expected != derived:
            self.problems.add(entry, outdated(entry, pointer, derived).message)
        else:
            return path or None
        return derived or None

    def _implied_capability(self, method: str, holders: Sequence[str]) -> str:
        """Return the longest prefix of a method name that is a path into all of `holders`; empty if there is none."""
        first, *rest = method.removeprefix("notifications/").split("/")
        path = ""
        for part in (first, *map(camel_case, rest)):
            longer = f"{path}.{part}" if path else part
            if not all(self._has_path(holder, longer) for holder in holders):
                break
            path = longer
        return path

    def _record_mismatch(self, pointer: str, message: str) -> None:
        """Record that an overlay entry does not fit this revision."""
        self.problems.add(self.facts.entries[pointer], f"{message}; correct the entry")

    def _has_path(self, type_name: str, path: str) -> bool:
        type_: ir.TypeExpr = ir.Ref(type_name) if type_name in self.schema.types else ir.Prim("unknown")
        for name in path.split("."):
            member = self.schema.flatten(type_).get(name) if self.schema.is_object(type_) else None
            if member is None:
                return False
            type_ = member.type
        return True

    def _name_param(self, method: str, fields: frozenset[str]) -> str | None:
        name = self.facts.name_param.get(method)
        if not name or name in fields:
            return name or None
        self._record_mismatch(
            f"{method}#name_param", f"'{method}' has no parameter '{name}' for the Mcp-Name header"
        )
        return None

    def _check_names(self, methods: list[Method]) -> None:
        """Raise `SchemaError` if two messages share a method name, or a stub in one direction."""
        seen: dict[tuple[str, str], Method] = {}
        for m in methods:
            decl = self.schema.types[m.type]
            if seen.setdefault(("method", m.method), m) is not m:
                raise self.schema.fail(
                    decl, f"'{m.method}' is also the method of '{seen['method', m.method].type}'"
                )
            for side in m.senders:
                if seen.setdefault((side, m.attr), m) is not m:
                    other = seen[side, m.attr].type
                    raise self.schema.fail(decl, f"'{m.type}' and '{other}' share the stub '{m.attr}'")


def _check_results(schema: Schema, facts: OverlayFacts, method: Method, *, unions: bool) -> None:
    """Raise `SchemaError` for a result that a union of the method's direction does not list."""
    for union in sorted(method.result_unions):
        if not unions and union not in schema.types:
            continue
        members = {m.name for m in _listed(schema, union)}
        if missing := [r for r in method.results if r not in members and r not in facts.alternate.values()]:
            message = f"{', '.join(missing)} is the result of '{method.type}', but not in {union}"
            raise schema.fail(method.type, message)


def _listed(schema: Schema, union: str) -> Iterator[ir.Ref]:
    """Yield the members of a result union without following aliases; none if it is not declared."""
    decl = schema.types.get(union)
    if decl is None:
        return
    type_ = decl.type if isinstance(decl, ir.Alias) else ir.Ref(union)
    for member in type_.members if isinstance(type_, ir.Union) else (type_,):
        if isinstance(member, ir.Ref):
            yield member
