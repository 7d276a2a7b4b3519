"""Function signatures as JSON Schema, and calls with arguments from the wire (TOOL-2, TOOL-3, TOOL-7).

Pydantic makes the schema from the annotations and validates arguments against the same annotations, strictly: a value
must have the JSON type of the schema, and is converted to the annotation (a date, an enum, a model). So no JSON Schema
library is needed to validate arguments.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from contextlib import AsyncExitStack, suppress
from copy import deepcopy
from functools import partial
from typing import Annotated, Any, Final, NoReturn, NotRequired, cast, get_args

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python
from typing_extensions import TypedDict, override

from mcprev.app.arguments import ArgumentError, complaints_of, enum_values, reread
from mcprev.app.dependencies import (
    Depends,
    Need,
    RequestScope,
    innermost,
    is_async,
    need_of,
    read_hints,
    values,
)
from mcprev.app.docstrings import description_of
from mcprev.app.early_errors import MAX_ALL, MAX_UNKNOWN, Validator, early_validator, has_more_values
from mcprev.app.threads import threads
from mcprev.callbacks import finished
from mcprev.errors import Json, ToolError
from mcprev.json_schema.bounds import LIST, OBJECT
from mcprev.json_schema.typed import NO_SCHEMA, Schema, first_sentence, schema_from
from mcprev.server.context import Context
from mcprev.server.in_threads import EVENT_LOOP
from mcprev.transports.exiting import RUNNING
from mcprev_types import details_of

Work = Callable[..., object]
_BARE: Final = {
    "self": "belongs to a method; register the method of an instance, as in app.tool(instance.method)",
    **dict.fromkeys(("ctx", "context"), "has no annotation; annotate the context `mcprev.Context`"),
}
"""Hints for parameters without annotations, by name."""
_logger: Final = logging.getLogger("mcprev.server")


_PLAIN: Final[Mapping[str, tuple[str, ...]]] = {
    "str": (), "int": (), "float": (), "bool": (), "none": (),
    "nullable": ("schema",), "list": ("items_schema",), "dict": ("keys_schema", "values_schema"),
}  # fmt: skip
"""Core schemas of pydantic, with the members that hold other ones, which are plain if those are."""


class Function:
    """A user's function: its parameters, its return annotation, and how to call it."""

    def __init__(self, function: Work, executor: Executor | None = None, *, lenient: bool = False) -> None:
        """Read the signature; `lenient` arguments are converted to their types if that loses nothing. Raises `TypeError` with a remedy if a parameter cannot have a schema."""
        if isinstance(function, classmethod | property):
            bound = cast("Any", function)
            inside = getattr(bound, "__func__", None) or getattr(bound, "fget", None)
            raise TypeError(
                f"{getattr(inside, '__qualname__', 'it')}() is a {type(bound).__name__}, which exists only when its class does; "
                "below the class, register the method of the class or of an instance, as in app.tool(Class.method)"
            )
        if not callable(function):
            raise TypeError(f"{function!r} is not a function; pass options by keyword, as in name='...'")
        named = innermost(function)
        inner: Any = named if inspect.isroutine(named) or inspect.isclass(named) else type(named).__call__
        self._function, self._executor, self._lenient = function, executor, lenient
        self.name: Final = getattr(named, "__name__", type(named).__name__)
        self.title: Final = getattr(inner, "__qualname__", repr(function))
        """The name of the function in error messages."""
        if inspect.isclass(inner):
            self.refuse("it is a class; register a function, or an object that can be called")
        if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
            self.refuse(
                "it is a generator; return one value instead, and report progress with `ctx.progress`"
            )
        self._async = is_async(function)
        hints = read_hints(inner, self.refuse)
        self.returns: Final[Any] = hints.pop("return", inspect.Signature.empty)
        """The return annotation; `inspect.Signature.empty` without one."""
        self._context: str | None = None
        self._needs: dict[str, Need] = {}
        self._mutable: dict[str, object] = {}
        """The defaults of which each call gets a copy, such as lists."""
        self._arguments = self._read_signature(hints)
        self.description: str | None
        self.description, described = description_of(named, inner, self._parameters())
        """The docstring, without what it says of arguments."""
        self.schema: Final = self._make_schema(described)
        """JSON Schema of the arguments."""
        schema: Any = self._adapter.core_schema
        self._plain = "fields" in schema and all(_is_plain(it["schema"]) for it in schema["fields"].values())
        """Whether arguments that are valid as they are need no conversion from JSON text."""
        self._complete = cast("Validator", self._adapter.validator)
        """Finds all errors."""
        self._early: Validator = early_validator(self._adapter)
        """Finds one error of each list, so that wrong arguments take no longer than right ones."""
        self._most = len(self._arguments) + MAX_UNKNOWN
        """The maximum number of arguments of which each unknown one is named."""

    def refuse(self, why: str, parameter: str | None = None) -> NoReturn:
        """Raise `TypeError` for the function: what is wrong, and what to do instead."""
        place = "" if parameter is None else f"the parameter '{parameter}' "
        raise TypeError(f"{self.title}(): {place}{why}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments, as clients use them."""
        return tuple(self.schema.get("properties", ()))

    @property
    def required(self) -> frozenset[str]:
        """The names of the required arguments."""
        return frozenset(self.schema.get("required", ()))

    def read(self, given: Mapping[str, Json]) -> dict[str, Any]:
        """Validate and convert JSON arguments. Raises `ArgumentError` if the schema does not allow them."""
        many = False
        if len(given) > self._most:
            raise ArgumentError(
                [((), f"has {len(given):,} members, and {self.name}() takes {len(self.names)}")]
            )
        try:
            try:
                return self._strict(given, self._early)
            except ValidationError as error:
                wrong = {each["loc"][0] for each in details_of(error) if each["loc"]} or set(given)
                many = has_more_values(MAX_ALL, given)
                if not (many and self._lenient):  # to read many values once more takes long
                    # JSON Schema accepts 1.0 as an integer, pydantic does not, but in its lax mode.
                    with suppress(ValidationError):
                        return self._strict(
                            {name: _whole(item) if name in wrong else item for name, item in given.items()},
                            self._early,
                        )
                if not self._lenient:
                    if not many:
                        self._strict(given, self._complete)  # finds all that is wrong
                    raise
            found, texts = reread(partial(self._lax, self._early if many else self._complete), given)
        except ValidationError as error:
            raise ArgumentError(complaints_of(error, given, self.names)) from None
        except PydanticSerializationError:
            raise ArgumentError([((), "holds text that is not Unicode")]) from None
        converted = {str(name) for name in wrong} | {".".join(map(str, place)) for place in texts}
        _logger.debug(
            "%s(): converted %s to the types of the signature", self.title, ", ".join(sorted(converted))
        )
        return found

    def _strict(self, given: Mapping[str, Json], validator: Validator) -> dict[str, Any]:
        try:
            if self._plain:
                return validator.validate_python(given, strict=True)
        except ValidationError:
            if has_more_values(MAX_ALL, dict(given)):
                raise
            # The text decides, and says why.
        # Numbers beyond a double become null, as on the wire.
        text = to_json(given, inf_nan_mode="null")
        return validator.validate_json(text, strict=True)

    @staticmethod
    def _lax(validator: Validator, text: bytes) -> dict[str, Any]:
        """Convert arguments as pydantic does in its lax mode: `"1"` is 1 for an `int`, and `"true"` is True."""
        return validator.validate_json(text, strict=False)

    def read_texts(self, given: Mapping[str, str | list[str]]) -> dict[str, Any]:
        """Validate and convert strings and lists of them, as of prompts and URIs. Raises `ArgumentError`."""
        try:
            if not all(isinstance(value, str) for value in given.values()):
                return self._lax(self._complete, to_json(given))
            found: dict[str, Any] = self._adapter.validate_strings(dict(given))
        except ValidationError as error:
            raise ArgumentError(complaints_of(error, dict(given), self.names)) from None
        return found

    async def __call__(self, ctx: Context, arguments: dict[str, Any], *, ready: bool = False) -> object:
        """Call the function with arguments from `read`. Raises the function's exceptions.

        `ready` says that the arguments contain the dependencies.
        """
        if self._needs and not ready:
            async with AsyncExitStack() as stack:
                try:
                    needed = await values(
                        self._needs, RequestScope(ctx, stack, partial(self._run_in_thread, ctx))
                    )
                    return await self(ctx, {**arguments, **needed}, ready=True)
                except BaseException as error:
                    failed = error
                    raise
            raise failed  # a dependency suppressed it, but the call has no result
        if self._context is not None:
            arguments = {**arguments, self._context: ctx}
        for name, default in self._mutable.items():
            if name not in arguments:
                arguments[name] = deepcopy(default)
        if self._async:
            return await finished(self._function(**arguments))
        return await finished(await self._in_a_thread(ctx, arguments))

    async def _in_a_thread(self, ctx: Context, arguments: dict[str, Any]) -> object:
        """Call a blocking function in a thread. If it is cancelled, the thread keeps running."""
        running, abandoned = threading.Event(), threading.Event()

        def work() -> object:
            running.set()
            try:
                return None if abandoned.is_set() else self._function(**arguments)
            except Exception:
                if abandoned.is_set():
                    _logger.exception("%s() failed after its request had been cancelled", self.title)
                raise
            finally:
                running.clear()

        try:
            return await self._run_in_thread(ctx, work)
        except asyncio.CancelledError:
            abandoned.set()
            if running.is_set():
                _logger.warning(
                    "%s() runs on after its request was cancelled, because a thread cannot be stopped",
                    self.title,
                )
            else:
                arguments.clear()  # the executor keeps waiting work, and with it the arguments
            raise

    def _run_in_thread(self, ctx: Context, work: Callable[[], object]) -> Awaitable[object]:
        """Run blocking work in a thread, with the context variables of the caller."""

        def run() -> object:
            RUNNING.add(run)
            try:
                return work()
            except (StopIteration, GeneratorExit) as error:
                # A future cannot carry StopIteration, and GeneratorExit would close who waits for it.
                raise RuntimeError(f"{self.title}() or a dependency raised {type(error).__name__}") from error
            finally:
                RUNNING.discard(run)

        inside = contextvars.copy_context()
        inside.run(EVENT_LOOP.set, asyncio.get_running_loop())
        if self._executor is None:
            return threads().run(ctx.principal or ctx.session_id, partial(inside.run, run))
        return asyncio.get_running_loop().run_in_executor(self._executor, inside.run, run)

    # -- reading the signature ------------------------------------------------------------------------------

    def _read_signature(self, hints: Mapping[str, Any]) -> dict[str, Any]:
        """Return the annotations of the arguments, with the defaults that the schema shows."""
        found: dict[str, Any] = {}
        hint: Any
        for name, parameter in self._parameters().items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                self.refuse(
                    "takes any number of arguments; declare each one by name (in a decorator, use `functools.wraps`)",
                    name,
                )
            if parameter.kind is parameter.POSITIONAL_ONLY:
                self.refuse("is positional-only, but arguments are passed by name; remove the '/'", name)
            if name not in hints:
                self.refuse(_BARE.get(name, "has no annotation; annotate its type"), name)
            hint = enum_values(_described(hints[name]))
            if inspect.isclass(hint) and issubclass(hint, Context):
                if self._context is not None:
                    self.refuse(f"is a second context in addition to '{self._context}'; keep one", name)
                self._context = name
            elif (need := need_of(hint)) is not None:
                self._needs[name] = need
            elif isinstance(parameter.default, Depends):
                self.refuse("has a dependency as its default; write `x: Annotated[T, Depends(f)]`", name)
            elif Context in get_args(hint):
                self.refuse("is a context or another type; annotate it `mcprev.Context` alone", name)
            elif parameter.default is parameter.empty:
                found[name] = hint
            elif isinstance(parameter.default, type(Field())):
                self.refuse("has a Field as its default; write `x: Annotated[T, Field(...)] = default`", name)
            else:
                found[name] = NotRequired[_with_default(hint, parameter.default)]
                if type(parameter.default).__hash__ is None:
                    self._mutable[name] = parameter.default
        return found

    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        bare = self._function
        if isinstance(bare, partial):
            # `functools.update_wrapper` would make the signature that of the inner function, with what is bound.
            bound = cast("partial[object]", bare)
            bare = partial(bound.func, *bound.args, **bound.keywords)
        try:
            return inspect.signature(bare).parameters
        except ValueError:
            self.refuse("its signature cannot be read; wrap it in a function with annotations")

    def _make_schema(self, described: Mapping[str, str]) -> Schema:
        try:
            self._adapter = _arguments_of(self._arguments)
            schema = schema_from(self._adapter, "validation")
        except NO_SCHEMA:
            for name, hint in self._arguments.items():
                self._try(name, hint)
            raise
        if not schema["properties"]:
            del schema["properties"]
        for name in self._arguments.keys() & described.keys():
            schema["properties"][name].setdefault("description", described[name])
        return schema

    def _try(self, name: str, hint: object) -> None:
        """Raise the error for a parameter whose annotation has no schema."""
        try:
            schema_from(_arguments_of({name: hint}), "validation")
        except NO_SCHEMA as error:
            self.refuse(
                f"is of a type that has no JSON Schema ({first_sentence(error)}); use a type of JSON, a model, dataclass or "
                "TypedDict, or remove the parameter",
                name,
            )


def _described(hint: Any) -> Any:  # noqa: ANN401 - an annotation
    """Return an annotation in which a string beside the type is the description, as in `Annotated[int, "how many"]`."""
    marks: tuple[Any, ...] = getattr(hint, "__metadata__", ())
    texts = [mark for mark in marks if isinstance(mark, str)]
    if len(texts) != 1:
        return hint
    named = (Field(description=mark) if isinstance(mark, str) else mark for mark in marks)
    return Annotated[hint.__origin__, *named]


class TimedFunction(Function):
    """A function that has to end within a time, dependencies and questions to the user included."""

    def __init__(self, function: Work, executor: Executor | None, *, lenient: bool, seconds: float) -> None:
        """Set the time. Raises `TypeError` for one that is not a positive number."""
        super().__init__(function, executor, lenient=lenient)
        if type(seconds) not in {int, float} or not 0 < seconds < math.inf:
            self.refuse(f"the timeout {seconds!r:.40} is not a positive number of seconds")
        self._seconds = seconds

    @override
    async def __call__(self, ctx: Context, arguments: dict[str, Any], *, ready: bool = False) -> object:
        """Call the function. Raises `ToolError` if it takes longer; a coroutine is cancelled then."""
        if ready:
            return await super().__call__(ctx, arguments, ready=True)
        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                return await super().__call__(ctx, arguments)
        except TimeoutError:
            if not limit.expired():
                raise
            raise ToolError(f"the tool took longer than {self._seconds:g} s, so it was cancelled") from None


def _is_plain(schema: Any) -> bool:  # noqa: ANN401 - a core schema of pydantic
    """Return whether a parsed JSON value that is valid, and its JSON text, are always converted to the same value."""
    parts = _PLAIN.get(schema["type"])
    return parts is not None and all(part in schema and _is_plain(schema[part]) for part in parts)


def _arguments_of(hints: Mapping[str, Any]) -> TypeAdapter[Any]:
    """Return the adapter of an arguments object. Its members may be absent: the function then uses its own default."""
    make: Any = TypedDict  # type checkers require literal members
    made = make("Arguments", dict(hints))
    # The last two refuse numbers and text that JSON cannot carry: any bound makes pydantic look at the text.
    made.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False, str_min_length=0)
    return TypeAdapter(made)


def _with_default(hint: Any, default: object) -> Any:  # noqa: ANN401 - any annotation
    """Add the default to the schema of an annotation, if JSON can represent it."""
    try:
        told = to_jsonable_python(default)
        json.dumps(told, allow_nan=False)
    except (PydanticSerializationError, ValueError):
        return hint
    return Annotated[hint, Field(json_schema_extra={"default": told})]


def _whole(value: Json) -> Json:
    """Convert floats without a fraction to integers."""
    if value.__class__ is float and value.is_integer():
        return int(value)
    if isinstance(value, OBJECT):
        return {name: _whole(item) for name, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, LIST) else value
