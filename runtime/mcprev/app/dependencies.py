"""Dependencies of functions: values that are made for one request and closed after it, and that clients do not pass.

`Annotated[T, Depends(f)]` calls `f`, which may itself take the context and other dependencies. It may be a coroutine
function, a generator function that yields once (sync or async), or any other callable, which runs in a thread. The
result of the call decides, not its function: an awaitable is awaited, and a generator yields the value.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final, NoReturn, TypeAlias, cast, get_args, get_origin, get_type_hints

from mcprev.callbacks import finished, title_of
from mcprev.server.context import Context

Factory: TypeAlias = Callable[..., object]
Refuse: TypeAlias = Callable[[str], NoReturn]
InThread: TypeAlias = Callable[[Callable[[], object]], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Depends:
    """Marks a parameter whose value a function makes for each request: `Annotated[Session, Depends(session)]`.

    The function may be sync or async, and may take `mcprev.Context` and other dependencies as parameters. It is called
    once for each request, even if several parameters name it. The value is its result, or the value that a generator
    function yields; the generator continues after the tool, resource or prompt has returned or raised, in reverse
    order.
    Clients do not see the parameter.
    """

    function: Factory


class FromLifespan:
    """Marks a parameter that receives the value of its type that the lifespan yields: `Annotated[Database, FromLifespan]`.

    It is the same value as that of `ctx.lifespan(Database)`. Clients do not see the parameter.
    """


@dataclass(slots=True)
class RequestScope:
    """The dependencies of one request."""

    ctx: Context
    stack: AsyncExitStack
    in_thread: InThread
    known: dict[Factory, object] = field(default_factory=dict[Factory, object])


Need: TypeAlias = Callable[[RequestScope], Awaitable[object]]


def need_of(hint: Any, within: tuple[Factory, ...] = ()) -> Need | None:  # noqa: ANN401 - any annotation
    """Return how to get the value of a parameter that is no argument; None for an argument.

    Raises `TypeError` for a dependency that cannot be called.
    """
    if get_origin(hint) is not Annotated:
        return None
    kind, *marks = get_args(hint)
    for mark in marks:
        if isinstance(mark, Depends):
            return Dependency(mark.function, within).value
        if mark is FromLifespan or isinstance(mark, FromLifespan):
            return partial(_from_lifespan, cast("type[object]", kind))
    return None


async def _from_lifespan(kind: type[object], scope: RequestScope) -> object:
    return scope.ctx.lifespan(kind)


async def _context(scope: RequestScope) -> Context:
    return scope.ctx


class Dependency:
    """A function that makes a value, with what it needs itself."""

    def __init__(self, function: Factory, within: tuple[Factory, ...]) -> None:
        """Read the signature. Raises `TypeError` for a parameter that has no value."""
        self._function = function
        self._title = title_of(function)
        if not callable(function):
            self._refuse("is not a function; write Depends(f) without calling f")
        if function in within:
            self._refuse("depends on itself; break the cycle")
        inner: Any = innermost(function)
        if not inspect.isroutine(inner):
            inner = inner.__init__ if inspect.isclass(inner) else type(inner).__call__
        hints = read_hints(inner, self._refuse)
        self._needs: Final[dict[str, Need]] = {}
        for name, parameter in self._parameters().items():
            hint: Any = hints.get(name)
            if inspect.isclass(hint) and issubclass(hint, Context):
                self._needs[name] = _context
            elif (need := need_of(hint, (*within, function))) is not None:
                self._needs[name] = need
            elif parameter.default is parameter.empty and parameter.kind not in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            ):
                self._refuse(
                    f"the parameter '{name}' has no value: a dependency takes `mcprev.Context`, dependencies and "
                    "parameters with a default"
                )
        self._in_thread = not is_async(function)

    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        try:
            return inspect.signature(self._function).parameters
        except ValueError:
            self._refuse("its signature cannot be read; wrap it in a function")

    def _refuse(self, why: str) -> NoReturn:
        raise TypeError(f"{self._title}(): {why}")

    async def _enter(self, scope: RequestScope, given: Mapping[str, object]) -> object:
        """Call the function, and return the value that it returns or that its generator yields."""
        call = partial(self._function, **given)
        found = await finished(await scope.in_thread(call) if self._in_thread else call())
        if inspect.isasyncgen(found):
            return await scope.stack.enter_async_context(asynccontextmanager(lambda: found)())
        if inspect.isgenerator(found):
            return await _enter_in_thread(contextmanager(lambda: found)(), scope)
        return found

    async def value(self, scope: RequestScope) -> object:
        """Return the value for a request. Raises what the function raises."""
        if self._function not in scope.known:
            given = await values(self._needs, scope)
            scope.known[self._function] = await self._enter(scope, given)
        return scope.known[self._function]


async def values(needs: Mapping[str, Need], scope: RequestScope) -> dict[str, object]:
    """Return the values of the parameters that are no arguments, one after the other."""
    return {name: await need(scope) for name, need in needs.items()}


async def _enter_in_thread(block: AbstractContextManager[object], scope: RequestScope) -> object:
    """Enter a blocking context manager in a thread, and leave it in one when the request ends."""

    async def leave(*error: Any) -> bool:  # noqa: ANN401 - as of `__exit__`
        return bool(await scope.in_thread(partial(block.__exit__, *error)))

    value = await scope.in_thread(block.__enter__)
    scope.stack.push_async_exit(leave)
    return value


def innermost(function: Factory) -> object:
    """Unwrap partial objects and decorators."""
    while isinstance(function, partial):
        function = cast("Factory", function.func)
    return inspect.unwrap(function)


def is_async(function: Factory) -> bool:
    """Return whether a function is called in the event loop, and not in a thread: calling it does not block."""
    called: tuple[object, ...] = (function, type(function).__call__)
    return any(map(inspect.iscoroutinefunction, called)) or any(map(inspect.isasyncgenfunction, called))


def read_hints(inner: Factory, refuse: Refuse) -> dict[str, Any]:
    """Return the annotations of a function, read; calls `refuse` if they cannot be."""
    try:
        return get_type_hints(inner, include_extras=True)
    except NameError as error:
        refuse(
            f"its annotations name {error.name!r}, which is undefined when it is registered: define or import it "
            "at the top of the module, and not under `if TYPE_CHECKING`"
        )
    except (AttributeError, TypeError, SyntaxError) as error:
        refuse(f"its annotations cannot be read ({error}); annotate each parameter with its type")
