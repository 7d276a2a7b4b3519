"""Convert payloads between any two revisions, step by step through the revisions between (CONV-*, SEAM-4, 5, 10).

A payload is the params, the result or the error of a method, or one of a few objects that occur in messages of both
eras. A step changes only what the next revision does not support; the generated deltas cover most of it, the step
modules the rest. The model of the target revision validates the outcome.

A `Converter` is created once for each payload type and pair of revisions and cached. It holds the compiled functions
of the steps that change something: often one, often none.

Conversions that depend on more than the value are not made here: the engines decide what to send and when, check
capabilities, choose which errors become results, and convert tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from mcprev.conversion.rules import (
    ConversionContext,
    ErrorRule,
    Json,
    NotRepresentable,
    OnDowngrade,
    Rules,
    as_object,
    new_id,
)
from mcprev.conversion.walk import Compiled, Convert, Note, Step, sequence
from mcprev.errors import ConversionError, RevisionError, UndecidedStep
from mcprev.revisions import Revision, load, path, position, revision_named
from mcprev.wire.meta_keys import VERSION
from mcprev_types import details_of, locate

if TYPE_CHECKING:
    from mcprev_types import MethodSpec, Model, TypeDelta


class PayloadKind(StrEnum):
    """The kind of a payload."""

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
"""Kinds that belong to no single method; they are converted alike for every method."""
_ERROR_TYPES: Final = ("Error", "JSONRPCErrorError")
"""The names of the error object in the schemas."""
_SESSION: Final = "initialize"
VERSION_RULE: Final = "version"
"""The id of the rule that replaces the version in messages that state one."""


@dataclass(frozen=True, slots=True)
class Converter:
    """Converts one kind of payload of one method from one revision to another."""

    method: str
    kind: PayloadKind
    target: Revision
    steps: tuple[Convert, ...]
    """The steps that change something."""
    touches: frozenset[str] | None
    """An object without any of these members is not changed by the steps; None if that depends on more."""
    only_stamped: frozenset[str] | None
    """Params without any of these members only get the `_meta` of the context; None if that depends on more."""
    check: Callable[[Json], object]
    """Raises `pydantic.ValidationError` for a value that is invalid at the target."""
    context: ConversionContext
    takes_nothing: bool
    """Whether the params may be absent at the target."""

    def __call__(
        self, payload: Json, context: ConversionContext | None = None, *, validate: bool = True
    ) -> Json:
        """Return the payload at the target, the same object if nothing changes. Raises `ConversionError`."""
        value: Json = payload
        if value is None and self.kind is PayloadKind.PARAMS:
            if self.takes_nothing:
                return None
            if not self.steps:
                raise failure(NotRepresentable(f"'{self.method}' requires params"), self.target.name)
            value = {}
        try:
            for step in self.steps:
                value = step(value, context or self.context)
            if validate:
                self.validate(value)
        except NotRepresentable as error:
            raise failure(error, self.target.name) from None
        return value

    def validate(self, value: Json) -> None:
        """Raise `NotRepresentable` if a value is invalid at the target."""
        from pydantic import ValidationError

        try:
            self.check(value)
        except ValidationError as error:
            first = details_of(error, include_input=True)[0]
            place, _ = locate(value, first["loc"], missing=first["type"] == "missing")
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
    """Return a payload, converted from one revision to another; the payload itself is not modified.

    - `payload` is the params, result or error of `method`, as decoded JSON; `kind` says which: a `PayloadKind` or its
      value, such as `params` or `result`.
    - `from_` and `to` are names of revisions.
    - `validate=False` leaves the validation of the outcome to the caller.
    - `on_downgrade(value, reason, revision)` replaces values that would lose information. None: the default
      replacements.
    - `meta` has the `_meta` members of stateless requests (see `request_meta`).
    - `mint` returns a new unique id at each call.

    Raises `ConversionError` with the JSON path for a value that the target cannot represent, and `ValueError` for an
    unknown revision or kind.
    """
    found = converter(method, kind, from_=from_, to=to)
    context = ConversionContext(found.target.name, on_downgrade, meta or {}, mint or new_id)
    return found(payload, context, validate=validate)


def converter(
    method: str, kind: str, *, from_: str | Revision, to: str | Revision, note: Note | None = None
) -> Converter:
    """Return the converter of a payload, for repeated calls; `note` wraps its rules. Raises the errors of `convert`."""
    source = revision_named(from_) if isinstance(from_, str) else from_
    return _converter(method, kind, source, revision_named(to) if isinstance(to, str) else to, note)


@cache
def _converter(
    method: str, kind_name: str, source: Revision, target: Revision, note: Note | None
) -> Converter:
    try:
        kind = PayloadKind(kind_name)
    except ValueError:
        raise ValueError(f"unknown kind '{kind_name}'; known are {', '.join(PayloadKind)}") from None
    rows = path(source, target)
    if kind not in _TYPES:
        specs = [_spec(revision, method, target) for revision in rows]
        if kind is not PayloadKind.PARAMS and specs[0].result is None:
            raise ConversionError(f"'{method}' has no response", path="$", revision=target.name)
    steps = [step for here, there in pairwise(rows) if (step := _step(here, there, method, kind, note))]
    if source.version != target.version:
        if method == _SESSION and kind in {PayloadKind.PARAMS, PayloadKind.RESULT}:
            steps.append(_version_step(source.version, target.version, note))
        elif kind is PayloadKind.PARAMS and not source.handshake and not target.handshake:
            steps.append(_meta_version_step(source.version, target.version, note))
    return Converter(
        method,
        kind,
        target,
        tuple(step.convert for step in steps),
        _touched_members(steps),
        _only_stamped(steps),
        _checker(target, method, kind),
        ConversionContext(target.name),
        kind is PayloadKind.PARAMS and _spec(target, method, target).params_optional,
    )


def _spec(revision: Revision, method: str, target: Revision) -> MethodSpec:
    spec = revision.methods.get(method)
    if spec is None:
        raise ConversionError(
            f"{revision.name} has no method '{method}': there is nothing to convert it to or from",
            path="$",
            revision=target.name,
        )
    return spec


def _step(
    here: Revision, there: Revision, method: str, kind: PayloadKind, note: Note | None
) -> Compiled | None:
    step = neighbours(here, there, note)
    if kind is PayloadKind.ERROR:
        return _error(step, step.rules.errors, method) if step.rules.errors else None
    if kind in _TYPES:
        return step.compiled(_TYPES[kind])
    spec = here.methods[method]
    root = step.rules.roots.get(
        (method, kind.value), spec.params if kind is PayloadKind.PARAMS else spec.result
    )
    return step.compiled(root) if root is not None else None


def _touched_members(steps: list[Compiled]) -> frozenset[str] | None:
    """Return the members that the steps may change, or None if one of the steps does not list them."""
    found: set[str] = set()
    for step in steps:
        if step.touches is None:
            return None
        found |= step.touches
    return frozenset(found)


def _only_stamped(steps: list[Compiled]) -> frozenset[str] | None:
    """Return the members without which the last step sets `_meta` and the others change nothing, or None."""
    last = steps[-1].only_stamped if steps else None
    before = _touched_members(steps[:-1])
    return None if last is None or before is None else before | last


def _error(step: Step, rule: ErrorRule, method: str) -> Compiled:
    def convert_error(value: Json, context: ConversionContext) -> Json:
        return rule(value, method, context)

    return Compiled(sequence([step.named("error", convert_error)]), None)


@cache
def neighbours(here: Revision, there: Revision, note: Note | None = None) -> Step:
    """Return the step between two adjacent revisions; its rules are in the module of the newer one. `note` wraps them.

    Raises `UndecidedStep` if that module is missing or leaves members undecided, and `RevisionError` if the table and
    the generated packages disagree about the order of revisions.
    """
    down = position(here) > position(there)
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
    name = f"{younger.name}/{'down' if down else 'up'}"
    return Step(deltas, decided_rules(younger, older, deltas, down=down), name, note)


def decided_rules(
    younger: Revision, older: Revision, deltas: Mapping[str, TypeDelta], *, down: bool
) -> Rules:
    """Return the rules of one direction between two adjacent revisions. Raises `UndecidedStep` for undecided members."""
    name = f"mcprev.conversion.step_{younger.name.replace('-', '_')}"
    between = f"between {older.name} and {younger.name}"
    if find_spec(name) is None:
        left = Rules().open_members(deltas)
        if younger.negotiable or left:
            file = str(Path(__file__).parent / f"{name.rpartition('.')[2]}.py")
            raise UndecidedStep(f"nothing converts {between}", file=file, members=left)
        return Rules()  # a draft that only adds members
    module: Any = import_module(name)
    direction = "DOWN" if down else "UP"
    rules: Rules = getattr(module, direction)
    file = str(module.__file__)
    if rules.undecided:
        raise UndecidedStep(
            f"{direction} {between} has undecided members",
            file=file,
            line=_line_of(file, next(iter(rules.undecided)), direction),
            members=[f"{member}: {about}" for member, about in rules.undecided.items()],
        )
    left = rules.open_members(deltas)
    if left:
        raise UndecidedStep(f"{direction} {between} does not decide all members", file=file, members=left)
    return rules


def _line_of(file: str, member: str, direction: str) -> int:
    """Return the line number of a member's entry in a step module, searched from the table of the direction on."""
    lines = Path(file).read_text(encoding="utf-8").split("\n")
    first = next((n for n, line in enumerate(lines) if line.startswith(direction)), 0)
    return next((n for n, line in enumerate(lines, 1) if n > first and f'"{member}"' in line), first + 1)


def _version_step(old: str, new: str, note: Note | None) -> Compiled:
    """Return the step that replaces the version in the messages of the handshake."""

    def convert_version(value: Json, _: ConversionContext) -> Json:
        given = as_object(value)
        return {**given, "protocolVersion": new} if given.get("protocolVersion") == old else value

    return Compiled(
        note(VERSION_RULE, convert_version) if note else convert_version, frozenset({"protocolVersion"})
    )


def _meta_version_step(old: str, new: str, note: Note | None) -> Compiled:
    """Return the step that replaces the version in the `_meta` of stateless requests."""  # META-9

    def convert_version(value: Json, _: ConversionContext) -> Json:
        meta = as_object(as_object(value).get("_meta"))
        return {**value, "_meta": {**meta, VERSION: new}} if meta.get(VERSION) == old else value

    return Compiled(note(VERSION_RULE, convert_version) if note else convert_version, frozenset({"_meta"}))


# -- judging ---------------------------------------------------------------------------------------------


def _checker(revision: Revision, method: str, kind: PayloadKind) -> Callable[[Json], object]:
    """Return the function that validates a payload at a revision; it imports the models on first use."""
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
        chosen = next(((name,) for name in alternates if _is_alternate(value, name)), names)
        return _validator(revision, chosen)(value)

    return check


def _is_alternate(value: Json, name: str) -> bool:
    given = as_object(value)
    if "resultType" in given:
        return given["resultType"] == "input_required" and name == "InputRequiredResult"
    return name == "CreateTaskResult" and "task" in given and not given.keys() & {"content", "action"}


@cache
def _validator(revision: Revision, names: tuple[str | None, ...]) -> Callable[[Json], object]:
    from pydantic import TypeAdapter

    models = revision.models
    found: Any = next(getattr(models, name) for name in names if name and hasattr(models, name))
    model = cast("type[Model] | None", found if isinstance(found, type) else None)
    return model.from_wire if model else TypeAdapter[Any](found).validate_python


def failure(error: NotRepresentable, target: str) -> ConversionError:
    """Return the error for the caller of a conversion."""
    return ConversionError(error.message, path=json_path(error.path), revision=target, rule=error.rule)


def json_path(path: tuple[str | int, ...]) -> str:
    """Format a path: `$.content[0].text`."""
    return "$" + "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" if part.isidentifier() else f"[{part!r}]"
        for part in path
    )
