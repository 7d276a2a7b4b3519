"""Convert payloads between any two revisions, step by step from one neighbour to the next (CONV-*, SEAM-4, 5, 10).

A payload is the params or the result of a method, the error that answers it, or one of a few objects that stand
in messages of either era. Steps change only what the neighbour cannot have; the generated deltas say most of
it, the step modules the rest. The end of the way is judged by the model of its revision.

A `Converter` is made once for each (payload, way) and kept: it holds the compiled functions of the steps that
have something to do, often one, often none.

What a value alone cannot decide is not done here. `inputs` and `sessions` have the pure parts of it; when to
send what, whether the peer declared a capability, which errors become results, and tasks are the engines'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, cast

from mcprev.convert.meta_keys import PROTOCOL_VERSION
from mcprev.convert.rules import (
    OBJECT,
    ConversionContext,
    ErrorRule,
    Json,
    NotRepresentable,
    OnDowngrade,
    as_list,
    as_object,
)
from mcprev.convert.steps import decided
from mcprev.convert.walk import Compiled, Convert, Step
from mcprev.errors import ConversionError, RevisionError
from mcprev.revisions import ALL, Revision, load, revision_named

if TYPE_CHECKING:
    from mcprev_types import MethodSpec, Model, TypeDelta


class PayloadKind(StrEnum):
    """What a payload is."""

    PARAMS = "params"
    RESULT = "result"
    ERROR = "error"
    """The `error` member of the response to a method."""
    CLIENT_CAPABILITIES = "client_capabilities"
    SERVER_CAPABILITIES = "server_capabilities"
    IMPLEMENTATION = "implementation"


_TYPES: Final[Mapping[PayloadKind, str]] = {
    PayloadKind.CLIENT_CAPABILITIES: "ClientCapabilities",
    PayloadKind.SERVER_CAPABILITIES: "ServerCapabilities",
    PayloadKind.IMPLEMENTATION: "Implementation",
}
"""Kinds that are no part of a method but stand in several; they are converted for any method."""
_ERROR_TYPES: Final = ("Error", "JSONRPCErrorError")
"""How the schemas name the error object."""
_SESSION: Final = "initialize"


@dataclass(frozen=True, slots=True)
class Converter:
    """The way of one kind of payload from one revision to another."""

    method: str
    kind: PayloadKind
    source: Revision
    target: Revision
    steps: tuple[Convert, ...]
    """Those that have something to do."""
    touches: frozenset[str] | None
    """An object with none of these members passes all of them as it is; None when that depends on more."""
    check: Callable[[Json], object]
    """Raises `pydantic.ValidationError` for what the target does not take."""
    context: ConversionContext
    takes_nothing: bool
    """Whether the message may come without a payload at the target."""

    def __call__(
        self, payload: Json, context: ConversionContext | None = None, *, validate: bool = True
    ) -> Json:
        """The payload at the target: the same object when nothing in it changes. Raises `ConversionError`."""
        try:
            return self.run(payload, context or self.context, validate=validate)
        except NotRepresentable as error:
            raise failure(error, self.target.name) from None

    def run(self, payload: Json, context: ConversionContext, *, validate: bool) -> Json:
        """The same for a payload that is part of something else. Raises `NotRepresentable`."""
        value: Json = payload
        if value is None and self.kind is PayloadKind.PARAMS:
            if self.takes_nothing:
                return None
            if not self.steps:
                raise NotRepresentable(f"'{self.method}' needs params")
            value = {}
        for step in self.steps:
            value = step(value, context)
        if validate:
            self.validate(value)
        return value

    def validate(self, value: Json) -> None:
        """Raise `NotRepresentable` when the target's model does not take a value."""
        from pydantic import ValidationError

        try:
            self.check(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            place = _within(value, first["loc"])
            raise NotRepresentable(f"the payload is not valid: {first['msg']}", *place) from None


def convert(
    payload: Json,
    method: str,
    kind: str,
    *,
    from_: str | Revision,
    to: str | Revision,
    validate: bool = True,
    on_downgrade: OnDowngrade | None = None,
    meta: Mapping[str, Json] | None = None,
    mint: Callable[[], str] | None = None,
) -> Json:
    """Say at one revision what a payload says at another; the payload itself is never changed.

    `kind` is a `Kind`. `meta` holds what requests carry in `_meta` where there are no sessions (see
    `request_meta`), `mint` makes ids that have to be unique, `on_downgrade` may replace what would lose
    something. `validate=False` leaves the judgement of the outcome to the caller. Raises `ConversionError` for
    what cannot be said, with the JSON path, and `ValueError` for an unknown revision or kind.
    """
    source = from_ if isinstance(from_, str) else from_.name
    target = to if isinstance(to, str) else to.name
    found = _converter(method, kind, source, target)
    context = None
    if on_downgrade is not None or meta is not None or mint is not None:
        context = make_context(target, on_downgrade=on_downgrade, meta=meta, mint=mint)
    return found(payload, context, validate=validate)


def converter(method: str, kind: str, *, from_: str | Revision, to: str | Revision) -> Converter:
    """The way of a payload, to keep and call many times. Raises as `convert` does."""
    source = from_ if isinstance(from_, str) else from_.name
    return _converter(method, kind, source, to if isinstance(to, str) else to.name)


def make_context(
    to: str,
    *,
    on_downgrade: OnDowngrade | None = None,
    meta: Mapping[str, Json] | None = None,
    mint: Callable[[], str] | None = None,
) -> ConversionContext:
    """What a `Converter` is told about one conversion, or about all of a connection."""
    plain = ConversionContext(to)
    return ConversionContext(to, on_downgrade, meta or plain.stamp, mint or plain.mint)


@cache
def _converter(method: str, kind_name: str, source_name: str, target_name: str) -> Converter:
    source, target = revision_named(source_name), revision_named(target_name)
    try:
        kind = PayloadKind(kind_name)
    except ValueError:
        raise ValueError(f"unknown kind '{kind_name}'; known are {', '.join(PayloadKind)}") from None
    way = _way(source, target)
    if kind not in _TYPES:
        specs = [_spec(revision, method, target) for revision in way]
        if kind is not PayloadKind.PARAMS and specs[0].result is None:
            raise ConversionError(f"'{method}' is not answered", path="$", revision=target.name)
    steps = [step for here, there in pairwise(way) if (step := _step(here, there, method, kind))]
    if (
        method == _SESSION
        and kind in {PayloadKind.PARAMS, PayloadKind.RESULT}
        and source.version != target.version
    ):
        steps.append(_renamed(source.version, target.version))
    elif (
        kind is PayloadKind.PARAMS
        and not source.handshake
        and not target.handshake
        and source.version != target.version
    ):
        steps.append(_restamped(source.version, target.version))
    return Converter(
        method,
        kind,
        source,
        target,
        tuple(step.convert for step in steps),
        _touched(steps),
        _checker(target, method, kind),
        ConversionContext(target.name),
        kind is PayloadKind.PARAMS and _spec(target, method, target).params_optional,
    )


def _way(source: Revision, target: Revision) -> tuple[Revision, ...]:
    start, end = ALL.index(source), ALL.index(target)
    return ALL[start : end + 1] if start <= end else ALL[end : start + 1][::-1]


def _spec(revision: Revision, method: str, target: Revision) -> MethodSpec:
    spec = revision.methods.get(method)
    if spec is None:
        raise ConversionError(
            f"{revision.name} has no method '{method}': there is nothing to convert it to or from",
            path="$",
            revision=target.name,
        )
    return spec


def _step(here: Revision, there: Revision, method: str, kind: PayloadKind) -> Compiled | None:
    step = neighbours(here, there)
    if kind is PayloadKind.ERROR:
        return _error(step.rules.errors, method) if step.rules.errors else None
    if kind in _TYPES:
        return step.compiled(_TYPES[kind])
    spec = here.methods[method]
    root = step.rules.roots.get(
        (method, kind.value), spec.params if kind is PayloadKind.PARAMS else spec.result
    )
    return step.compiled(root) if root is not None else None


def _touched(steps: list[Compiled]) -> frozenset[str] | None:
    """What all of the steps together may change, as each of them says it."""
    found: set[str] = set()
    for step in steps:
        if step.touches is None:
            return None
        found |= step.touches
    return frozenset(found)


def _error(rule: ErrorRule, method: str) -> Compiled:
    def convert_error(value: Json, context: ConversionContext) -> Json:
        return rule(value, method, context) if isinstance(value, OBJECT) else value

    return Compiled(convert_error, None)


@cache
def neighbours(here: Revision, there: Revision) -> Step:
    """The step between two neighbours: the rules stand in the module of the younger one.

    Raises `UndecidedStep` where that module is missing, or leaves open what the generated deltas cannot decide, and
    `RevisionError` where the table and the generated packages disagree on who is whose neighbour.
    """
    down = ALL.index(here) > ALL.index(there)
    younger, older = (here, there) if down else (there, here)
    tables = load(here, "deltas")
    deltas: Mapping[str, TypeDelta] = tables.TO_PREVIOUS if down else tables.TO_NEXT
    leads_to = tables.PREVIOUS if down else tables.NEXT
    if leads_to != there.name:
        if younger.negotiable or down:
            raise RevisionError(
                f"the generated deltas of {here.name} lead to {leads_to}, and the next row is that of {there.name}: "
                "write the row that is missing, or run `mcprev generate`"
            )
        deltas = {}  # no revision has deltas to a draft
    return Step(deltas, decided(younger, older, deltas, down=down))


def _renamed(old: str, new: str) -> Compiled:
    """The messages of the handshake name the revision they are written in."""

    def convert_version(value: Json, _: ConversionContext) -> Json:
        given = as_object(value)
        return {**given, "protocolVersion": new} if given.get("protocolVersion") == old else value

    return Compiled(convert_version, frozenset({"protocolVersion"}))


def _restamped(old: str, new: str) -> Compiled:
    """Requests that describe themselves name the revision they are written in (META-9)."""

    def convert_version(value: Json, _: ConversionContext) -> Json:
        meta = as_object(as_object(value).get("_meta"))
        return (
            {**value, "_meta": {**meta, PROTOCOL_VERSION: new}}
            if meta.get(PROTOCOL_VERSION) == old
            else value
        )

    return Compiled(convert_version, frozenset({"_meta"}))


# -- judging ---------------------------------------------------------------------------------------------


def _checker(revision: Revision, method: str, kind: PayloadKind) -> Callable[[Json], object]:
    """What judges a payload at a revision; its models are imported on first use."""
    alternates: tuple[str, ...] = ()
    if kind is PayloadKind.ERROR:
        names: tuple[str | None, ...] = _ERROR_TYPES
    elif kind in _TYPES:
        names = (_TYPES[kind],)
    else:
        spec = revision.methods[method]
        names = (spec.params if kind is PayloadKind.PARAMS else spec.result,)
        alternates = spec.alternate_results if kind is PayloadKind.RESULT else ()

    def check(value: Json) -> object:
        judge = _judge(revision, names)
        for name in alternates:
            other = _judge(revision, (name,))
            if _is_alternate(value, name):
                judge = other
        return judge(value)

    return check


def _is_alternate(value: Json, name: str) -> bool:
    given = as_object(value)
    if "resultType" in given:
        return given["resultType"] == "input_required" and name == "InputRequiredResult"
    return name == "CreateTaskResult" and "task" in given and not given.keys() & {"content", "action"}


@cache
def _judge(revision: Revision, names: tuple[str | None, ...]) -> Callable[[Json], object]:
    from pydantic import TypeAdapter

    models = revision.models
    found: Any = next(getattr(models, name) for name in names if name and hasattr(models, name))
    model = cast("type[Model] | None", found if isinstance(found, type) else None)
    return model.from_wire if model else TypeAdapter[Any](found).validate_python


def _within(value: Json, location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The JSON path in a location of pydantic's, which also names the members of unions that it tried."""
    path: list[str | int] = []
    for part in location:
        items = as_list(value)
        if part in as_object(value):
            value = as_object(value)[part]
        elif items is not None and isinstance(part, int) and part < len(items):
            value = items[part]
        elif part is not location[-1] or not isinstance(value, dict):
            continue
        path.append(part)
    return tuple(path)


def failure(error: NotRepresentable, target: str) -> ConversionError:
    """What the caller of a conversion is told."""
    return ConversionError(error.message, path=json_path(error.path), revision=target)


def json_path(path: tuple[str | int, ...]) -> str:
    """A path as text: `$.content[0].text`."""
    return "$" + "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" if part.isidentifier() else f"[{part!r}]"
        for part in path
    )
