"""Functions of users: what they return is awaited if it is awaitable, in whatever form they are; only True allows."""

# ruff: noqa: PLW0108 - the forms of functions are what is tested

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from contextvars import ContextVar
from itertools import product
from types import SimpleNamespace
from typing import Annotated, Any, Final, cast

import aiohttp
import pytest

import mcprev
from fuzz.fuzzing import each_once, sampled_of
from helpers.http_in_process import InProcess
from helpers.named import A, D
from helpers.running import run, until
from mcprev.middleware import Audit, ErrorMapping
from mcprev.protocol.http_request_class import HttpError
from mcprev.transports.http.server import asgi
from mcprev.wire.headers import Headers
from mcprev.wire.jsonrpc import Request
from mcprev_types.latest import models as m

F = Callable[..., Any]
HERE: Final = "https://mcp.example/mcp"


class Odd:
    """Cannot say whether it is true, as an array of several numbers."""

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")


class Later:
    """An awaitable that is no coroutine."""

    def __init__(self, made: F) -> None:
        self._made = made

    def __await__(self) -> Any:
        return cast("Awaitable[Any]", self._made()).__await__()


# -- the forms that a function has -----------------------------------------------------------------------


def like(plain: F, made: F, *, method: bool = False) -> F:
    """Give a function the signature of another one."""
    signature, found = inspect.signature(plain), cast("Any", made)
    if method:
        self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        signature = signature.replace(parameters=[self, *signature.parameters.values()])
    found.__signature__, found.__annotations__ = signature, plain.__annotations__
    return made


def forms(plain: F) -> dict[str, F]:
    """A function in every form; those with `async` in their names return what has to be awaited."""

    async def later(*args: Any, **named: Any) -> Any:
        await asyncio.sleep(0)
        return plain(*args, **named)

    async def own(_: object, *args: Any, **named: Any) -> Any:
        return plain(*args, **named)

    def method(_: object, *args: Any, **named: Any) -> Any:
        return plain(*args, **named)

    @functools.wraps(plain)
    async def around(*args: Any, **named: Any) -> Any:
        return plain(*args, **named)

    def partly(_number: int, *args: Any, **named: Any) -> Any:
        return later(*args, **named)

    like(plain, later)
    like(plain, own, method=True)
    like(plain, method, method=True)
    like(plain, partly, method=True)
    kind = type("Kind", (), {"__call__": method, "method": method, "own": own, "static": staticmethod(plain)})
    other: Any = type("Other", (), {"__call__": own})()
    one: Any = kind()
    return {
        "function": plain,
        "partial": functools.partial(plain),
        "object": one,
        "method": one.method,
        "staticmethod": one.static,
        "decorated": functools.wraps(plain)(lambda *args, **named: plain(*args, **named)),
        "async function": later,
        "async lambda": like(plain, lambda *args, **named: later(*args, **named)),
        "async partial": functools.partial(later),
        "async partial of a plain function": functools.partial(partly, 1),
        "async decorated": functools.wraps(later)(lambda *args, **named: later(*args, **named)),
        "async decorator of a plain function": around,
        "async object": other,
        "async partial of an object": functools.partial(other),
        "async method": one.own,
        "async awaitable": like(plain, lambda *args, **named: Later(lambda: later(*args, **named))),
    }


FORMS: Final = tuple(forms(lambda: None))
every_form = pytest.mark.parametrize("form", FORMS)


def in_forms(places: Iterable[F], share: int) -> pytest.MarkDecorator:
    """Each place with each form in `make fuzz`, and with a share of them in `make test`, at each place other ones."""
    every = [*product(places, FORMS)]
    return pytest.mark.parametrize(
        ("place", "form"),
        sampled_of(every, every[::share]),
        ids=lambda value: getattr(value, "__name__", value),
    )


ANSWERS: Final[dict[str, object]] = {
    "True": True, "False": False, "None": None, "0": 0, "1": 1, "text": "yes", "a list": [1], "odd": Odd(),
    "an error": RuntimeError("no"), "a cancellation": asyncio.CancelledError(),
}  # fmt: skip


def returning(value: object, names: str = "_") -> F:
    """A function with these parameters that returns a value, or raises it."""

    def returns(*_args: object, **_named: object) -> object:
        if isinstance(value, BaseException):
            raise value.with_traceback(None)  # without the frames through which it was raised before
        return value

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in names.split()])
    cast("Any", returns).__signature__ = signature
    returns.__annotations__ = {}
    return returns


# -- functions that decide -------------------------------------------------------------------------------


async def outcomes(*calls: Awaitable[object]) -> bool:
    """Whether all calls succeed; they succeed together or not at all."""
    found = {
        not isinstance(each, BaseException) for each in await asyncio.gather(*calls, return_exceptions=True)
    }
    assert len(found) == 1, found
    return found.pop()


async def of_a_tool(check: F) -> bool:
    app = mcprev.App("a", "1")
    app.tool(lambda_of(), name="t", visible=check)
    async with mcprev.connect(app) as client:
        called = await outcomes(client.call_tool("t", {}))
        assert called is bool([tool async for tool in client.tools()])
        return called


async def of_an_app(check: F) -> bool:
    inner, app = mcprev.App("inner", "1", visible=check), mcprev.App("a", "1")

    @inner.prompt
    @inner.resource("notes://{name}")
    def note(name: str) -> str:
        return name

    @inner.completion("note", "name")
    @inner.completion("notes://{name}", "name")
    def names(value: str) -> list[str]:
        return [value]

    inner.resource("notes://all")(lambda_of())
    inner.tool(lambda_of(), name="t")
    app.mount(inner)
    async with mcprev.connect(app) as client:
        seen = await outcomes(
            client.call_tool("t", {}),
            client.get_prompt("note", {"name": "a"}),
            client.complete(m.PromptReference(name="note"), "name", "a"),
            client.complete(m.ResourceTemplateReference(uri="notes://{name}"), "name", "a"),
            client.read_resource("notes://a"),
        )
        lists = [client.tools(), client.prompts(), client.resources(), client.resource_templates()]
        assert {bool([each async for each in one]) for one in cast("list[Any]", lists)} == {seen}
        return seen


async def of_a_task(check: F) -> bool:
    app = mcprev.App("a", "1")
    app.tool(lambda_of(), name="t", task="required", visible=check)
    async with mcprev.connect(app, mode=D) as client:
        return await outcomes(client.start_tool("t", {}))


async def of_scopes(check: F) -> bool:
    async def verify(token: str) -> mcprev.Access:
        return mcprev.Access(token, audience=HERE, scopes="write")

    bearer = mcprev.Bearer(
        verify, resource=HERE, authorization_servers=["https://as.example"], scopes=["read"], suffices=check
    )
    found = await bearer.admit(Headers.of([(b"authorization", b"Bearer me")]), b"")
    return isinstance(found, mcprev.Access)


async def of_an_operation(check: F) -> bool:
    paths = {path: {"get": {"responses": {"200": {"description": "ok"}}}} for path in ("/a", "/b")}
    document = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths}

    def select(method: str, path: str, operation: Mapping[str, Any]) -> Any:
        return True if path == "/a" else check(method, path, operation)

    try:
        app = mcprev.App.from_openapi(document, base_url="http://api.example", select=select)
    except (TypeError, RuntimeError, asyncio.CancelledError):
        return False
    async with mcprev.connect(app) as client:
        return len([tool async for tool in client.tools()]) == 2


PARAMETERS: Final[dict[F, str]] = {
    of_a_tool: "ctx", of_an_app: "ctx tags", of_a_task: "ctx", of_scopes: "granted needed",
    of_an_operation: "method path operation",
}  # fmt: skip


@in_forms(PARAMETERS, 3)
def test_only_true_allows_whatever_the_form_of_the_function(
    place: Callable[[F], Awaitable[bool]], form: str
) -> None:
    async def main() -> None:
        for name, answer in ANSWERS.items():
            said = await place(forms(returning(answer, PARAMETERS[place]))[form])
            # An app is made of a document without an event loop, so nothing is awaited.
            can = place is not of_an_operation or "async" not in form
            assert said is (name == "True" and can), name

    run(main())


@pytest.mark.parametrize(
    "place", [of_a_tool, of_an_app, of_a_task, of_scopes], ids=lambda place: place.__name__
)
def test_what_yields_and_what_is_made_allows_nothing(place: Callable[[F], Awaitable[bool]]) -> None:
    def generator(*_: object) -> Iterator[bool]:
        yield True

    async def async_generator(*_: object) -> AsyncIterator[bool]:
        yield True

    class Made:
        def __init__(self, *_: object) -> None: ...

    async def main() -> None:
        for function in (generator, async_generator, Made, isinstance, SimpleNamespace):
            assert not await place(function), function

    run(main())


def test_the_log_names_the_function_and_the_type_and_nothing_secret(caplog: pytest.LogCaptureFixture) -> None:
    def may_see(token: str, _: object) -> Any:
        return f"the secret {token}"

    with caplog.at_level(logging.ERROR):
        run(of_a_tool(functools.partial(may_see, "hunter2")))
    assert "may_see() returned neither True nor False" in caplog.text
    assert "may_see() returned str" in caplog.text
    assert "hunter2" not in caplog.text
    assert "the secret" not in caplog.text.replace('f"the secret', "")


def test_a_call_that_is_cancelled_while_it_is_decided_leaves_no_decision(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended: list[str] = []

    async def check(_: mcprev.Context) -> bool:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("check")
        return True

    async def main() -> None:
        app = mcprev.App("a", "1")
        app.tool(lambda_of(), name="t", visible=check)
        async with mcprev.connect(app) as client:
            with pytest.raises(mcprev.RequestTimeout):
                await client.call_tool("t", {}, timeout=0.05)
            await until(lambda: bool(ended))

    run(main())
    assert "returned neither True nor False" not in caplog.text


def test_middleware_prepares_what_decides_about_a_tool_that_may_run_as_a_task() -> None:
    user: ContextVar[str] = ContextVar("user", default="nobody")

    async def identify(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        user.set("ann")
        return await call_next(call)

    def check(_: mcprev.Context) -> bool:
        return user.get() == "ann"

    async def main() -> None:
        app = mcprev.App("a", "1", middleware=[identify])
        app.tool(lambda_of(), name="t", visible=check, task="optional")
        async with mcprev.connect(app, mode=D) as client:
            assert (await client.call_tool("t", {})).text == "ok"

    run(main())


def test_a_decision_about_a_request_over_http_has_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> Any:
        await asyncio.Event().wait()

    async def main() -> None:
        access = mcprev.Access("me", audience=HERE, scopes="read")
        bearer = bearer_with(
            returning(access, "token"), needs=never, suffices=never, scopes=["x"], timeout=0.01
        )
        shown = Headers.of([(b"authorization", b"Bearer me")])
        for found in (
            await bearer.admit(shown, b""),
            await bearer.covers(access, Request(1, "tools/call", {})),
        ):
            assert isinstance(found, HttpError)
            assert found.status == 503
        with pytest.raises(mcprev.McpError, match="403"):
            await as_principal(never)

    monkeypatch.setattr(asgi, "IDENTIFY", 0.01)
    run(main())


@pytest.mark.parametrize("task", [None, "optional", "required"])
def test_who_sees_an_entry_is_asked_once_for_each_request(task: Any) -> None:
    asked: list[str] = []

    async def check(ctx: mcprev.Context) -> bool:
        asked.append(ctx.request.method)
        return True

    inner, app = mcprev.App("inner", "1", middleware=[as_it_is]), mcprev.App("a", "1")
    options: Any = {} if task is None else {"task": task}
    inner.tool(lambda_of(), name="t", visible=check, **options)
    app.tool(lambda_of(), name="other", task="optional")
    app.mount(inner)

    async def main() -> None:
        async with mcprev.connect(app, mode=D) as client:
            assert len([tool async for tool in client.tools()]) == 2
            assert asked == ["tools/list"]
            await (client.call_tool if task is None else client.start_tool)("t", {})
            assert asked == ["tools/list", "tools/call"]

    run(main())


async def twice_at_once(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
    first, second = asyncio.ensure_future(call_next(call)), asyncio.ensure_future(call_next(call))
    await asyncio.wait([first, second])
    return second.result() if first.exception() is not None else first.result()


async def again_in_time(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
    first = asyncio.ensure_future(call_next(call))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    return await call_next(call)


@pytest.mark.parametrize("middleware", [twice_at_once, again_in_time])
def test_nobody_sees_an_entry_before_it_is_decided(middleware: mcprev.Middleware) -> None:
    """Another call of the same request asks meanwhile, or after the one that asked was cancelled."""
    asked: list[str] = []

    async def check(_: mcprev.Context) -> bool:
        asked.append("")
        for _turn in range(20):
            await asyncio.sleep(0)
        return False

    async def main() -> None:
        app = mcprev.App("a", "1", middleware=[middleware])
        app.tool(lambda_of(), name="t", visible=check)
        async with mcprev.connect(app) as client:
            with pytest.raises(mcprev.RpcError, match="Unknown tool"):
                await client.call_tool("t", {}, timeout=5)
        assert len(asked) == 2

    run(main())


async def as_it_is(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
    return await call_next(call)


def lambda_of(text: str = "ok") -> F:
    async def f() -> str:
        return text

    return f


# -- functions that return values ------------------------------------------------------------------------


async def text_of(app: mcprev.App, name: str = "t", **options: Any) -> str:
    async with mcprev.connect(app, **options) as client:
        found = await client.call_tool(name, {})
        if found.is_error:
            raise RuntimeError(found.text)
        return found.text


async def over_http(app: mcprev.App, headers: Any = None, **options: Any) -> str:
    served = app.asgi(**options)
    connector = InProcess(served)
    try:
        async with aiohttp.ClientSession(connector=connector, connector_owner=False) as session:
            target = mcprev.http(connector.origin + "/mcp", session=session, headers=headers)
            return await text_of(app, mode=D) if headers is None and not options else await call_at(target)
    finally:
        await served.aclose()
        await connector.close()


async def call_at(target: Any) -> str:
    async with mcprev.connect(target, mode=D) as client:
        return (await client.call_tool("t", {})).text


async def as_tool(function: F) -> object:
    app = mcprev.App("a", "1")
    app.tool(function, name="t")
    return await text_of(app)


async def as_resource(function: F) -> object:
    app = mcprev.App("a", "1")
    app.resource("notes://all", name="n")(function)
    async with mcprev.connect(app) as client:
        [found] = (await client.read_resource("notes://all")).contents
        return cast("Any", found).text


async def as_prompt(function: F) -> object:
    app = mcprev.App("a", "1")
    app.prompt(function, name="p")
    async with mcprev.connect(app) as client:
        [found] = (await client.get_prompt("p")).messages
        return cast("Any", found.content).text


async def as_dependency(function: F) -> object:
    app = mcprev.App("a", "1")

    def made() -> Any:
        return function()

    async def tool(own: str, other: str) -> str:
        assert own == other
        return f"{own}"

    tool.__annotations__ = {
        "own": Annotated[str, mcprev.Depends(function)], "other": Annotated[str, mcprev.Depends(made)],
        "return": str,
    }  # fmt: skip
    app.tool(tool, name="t")
    return await text_of(app)


async def as_middleware(function: F) -> object:
    app = mcprev.App("a", "1", middleware=[function])
    app.tool(lambda_of("not reached"), name="t")
    return await text_of(app)


async def as_key(function: F) -> object:
    pytest.importorskip("limits")
    app = mcprev.App("a", "1", middleware=[mcprev.RateLimit("1/hour", key=function)])
    app.tool(lambda_of(), name="t")
    async with mcprev.connect(app) as client:
        first, second = await client.call_tool("t", {}), await client.call_tool("t", {})
        assert second.is_error
        if first.is_error:
            raise RuntimeError(first.text)
        return "v"


async def as_principal(function: F) -> object:
    app = mcprev.App("a", "1")

    @app.tool(name="t")
    async def tool(ctx: mcprev.Context) -> str:
        return str(ctx.principal)

    return await over_http(app, principal=function)


async def as_headers(function: F) -> object:
    app = mcprev.App("a", "1")

    @app.tool(name="t")
    async def tool(ctx: mcprev.Context) -> str:
        return ctx.headers["x-text"]

    return await over_http(app, headers=function)


def bearer_with(verify: F, **options: Any) -> mcprev.Bearer:
    return mcprev.Bearer(verify, resource=HERE, authorization_servers=["https://as.example"], **options)


async def as_verify(function: F) -> object:
    found = await bearer_with(function).admit(Headers.of([(b"authorization", b"Bearer me")]), b"")
    if isinstance(found, HttpError):
        raise RuntimeError(found.status)  # noqa: TRY004 - it is refused
    return found.subject


async def as_needs(function: F) -> object:
    access = mcprev.Access("me", audience=HERE, scopes="read")
    bearer = bearer_with(returning(None, "token"), needs=function)
    found = await bearer.covers(access, Request(1, "tools/call", {}))
    assert found is not None, "a scope is missing"
    if found.status != 403:
        raise RuntimeError(found.status)
    return "v"


async def as_elicitation(function: F) -> object:
    app = mcprev.App("a", "1")

    @app.tool(name="t")
    async def tool(ctx: mcprev.Context) -> str:
        found = await ctx.elicit("What?", str)
        return cast("Any", found).data if isinstance(found, mcprev.Accepted) else "nothing"

    return await text_of(app, elicitation=function)


async def as_sampling(function: F) -> object:
    app = mcprev.App("a", "1")

    @app.tool(name="t")
    async def tool(ctx: mcprev.Context) -> str:
        return (await ctx.sample("Say it", max_tokens=9)).text

    return await text_of(app, sampling=function, mode=D)


SAMPLED: Final = m.CreateMessageResult(role="assistant", model="x", content=m.TextContent(text="v"))
RESULT: Final = m.CallToolResult(content=[m.TextContent(text="v")])
VALUES: Final[dict[F, tuple[str, object, object]]] = {
    as_tool: ("", "v", object()),
    as_resource: ("", "v", object()),
    as_prompt: ("", "v", object()),
    as_dependency: ("", "v", ValueError("no")),
    as_middleware: ("call call_next", RESULT, None),
    as_key: ("ctx", "v", None),
    as_principal: ("scope", "v", 1),
    as_headers: ("", {"X-Text": "v"}, None),
    as_verify: ("token", mcprev.Access("v", audience=HERE), True),
    as_needs: ("method params", "write", 1),
    as_elicitation: ("params", {"value": "v"}, True),
    as_sampling: ("params", SAMPLED, "yes"),
}
"""For each place: the parameters of a function, a value that leads to `v`, and one that is an error there."""


@in_forms(VALUES, 3)
def test_a_value_arrives_whatever_the_form_of_the_function(place: F, form: str) -> None:
    names, good, bad = VALUES[place]

    async def main() -> None:
        assert await place(forms(returning(good, names))[form]) == "v"
        for wrong in (bad, RuntimeError("no")):
            with pytest.raises((mcprev.McpError, RuntimeError, TypeError)):
                await place(forms(returning(wrong, names))[form])

    run(main())


# -- functions that only listen ----------------------------------------------------------------------------


async def to_log(function: F) -> None:
    await reported(logging=function)


async def to_progress(function: F) -> None:
    await reported(progress=function)


async def to_changes(function: F) -> None:
    await reported(on_change=function)


async def reported(progress: F | None = None, **options: Any) -> None:
    app = mcprev.App("a", "1")

    @app.tool
    async def work(ctx: mcprev.Context) -> str:
        await ctx.log("error", "careful")
        await ctx.progress(1)
        ctx.changed("tools")
        return "done"

    given: Any = {} if progress is None else {"progress": progress}
    async with mcprev.connect(app, mode=D, **options) as client:
        assert (await client.call_tool("work", {}, **given)).text == "done"
        await asyncio.sleep(0.01)


@each_once
@every_form
@pytest.mark.parametrize("place", [to_log, to_progress, to_changes], ids=lambda place: place.__name__)
def test_who_listens_is_waited_for_and_may_return_anything(
    place: F, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    for answer in ("None", "True", "odd", "an error"):
        heard: list[str] = []

        def listen(*_: object, answer: str = answer, heard: list[str] = heard) -> object:
            heard.append(answer)
            return returning(ANSWERS[answer])()

        caplog.clear()
        run(place(forms(listen)[form]))
        assert heard == [answer]
        assert ("raised" in caplog.text) is (answer == "an error")


# -- functions that yield --------------------------------------------------------------------------------


def opened(log: list[str]) -> dict[str, F]:
    """Functions that open and close something, in several forms."""

    def sync() -> Iterator[str]:
        log.append("open")
        yield "v"
        log.append("closed")

    async def later() -> AsyncIterator[str]:
        log.append("open")
        yield "v"
        log.append("closed")

    class Opens:
        def __init__(self, made: F) -> None:
            self.made = made

        def __call__(self) -> Any:
            return self.made()

    return {
        "generator": sync, "async generator": later,
        "partial": functools.partial(sync), "partial async": functools.partial(later),
        "lambda": lambda: sync(), "async lambda": lambda: later(),
        "decorated": functools.wraps(sync)(lambda: sync()), "decorated async": functools.wraps(later)(lambda: later()),
        "object": Opens(sync), "async object": Opens(later),
    }  # fmt: skip


OPENED: Final = tuple(opened([]))


@pytest.mark.parametrize("form", OPENED)
def test_a_dependency_that_yields_is_closed_after_the_call(form: str) -> None:
    log: list[str] = []
    function = opened(log)[form]
    app = mcprev.App("a", "1")

    async def tool(own: str) -> str:
        log.append(own)
        return own

    tool.__annotations__ = {"own": Annotated[str, mcprev.Depends(function)], "return": str}
    app.tool(tool, name="t")
    assert run(text_of(app)) == "v"
    assert log == ["open", "v", "closed"]


@pytest.mark.parametrize("form", OPENED)
def test_a_lifespan_that_is_an_async_generator_is_one_in_every_form(form: str) -> None:
    log: list[str] = []
    function = opened(log)[form]
    with refused_if("async" not in form):
        app = mcprev.App("a", "1", lifespan=with_server(function, form))

        @app.tool(name="t")
        async def tool(ctx: mcprev.Context) -> str:
            log.append("used")
            return ctx.lifespan(str)

        assert run(text_of(app)) == "v"
        assert log == ["open", "used", "closed"]


def refused_if(wrong: object) -> Any:
    return pytest.raises(TypeError, match="a lifespan is an `async def` function") if wrong else nullcontext()


def with_server(function: F, form: str) -> Any:
    """The same with a parameter for the server, in the form of an object or of a function."""

    def made(*_: object) -> Any:
        return function()

    return type("WithServer", (), {"__call__": made})() if "object" in form else made


@pytest.mark.parametrize("form", ["async function", "async lambda", "async object", "function"])
def test_a_lifespan_that_yields_nothing_is_refused_before_anything_is_served(form: str) -> None:
    app = mcprev.App("a", "1", lifespan=forms(returning(7, "server"))[form])
    app.tool(lambda_of(), name="t")
    with pytest.raises(TypeError, match="a lifespan is an `async def` function that yields once"):
        run(text_of(app))


@pytest.mark.parametrize("made", [lambda: (x for x in "v"), Odd, dict, len])
def test_a_dependency_of_any_other_kind_is_its_value_or_refused(made: F) -> None:
    app = mcprev.App("a", "1")

    async def tool(own: Any) -> str:
        return type(own).__name__

    tool.__annotations__ = {"own": Annotated[Any, mcprev.Depends(made)], "return": str}
    if made in (dict, len):
        with pytest.raises(TypeError, match=r"signature cannot be read|has no value"):
            app.tool(tool, name="t")
        return
    app.tool(tool, name="t")
    assert run(text_of(app)) in ("str", "Odd")


def test_what_cannot_be_awaited_is_refused_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def later(*_: object) -> None: ...

    server = mcprev.Server(mcprev.ServerHandler(), "a", "1")
    with pytest.raises(TypeError, match="`ready` must not be async"):
        run(server.serve_http(port=0, ready=later))


@pytest.mark.parametrize("answer", [True, "text", [1]])
def test_a_replacement_that_is_no_object_fails_the_call(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Handler(mcprev.ServerHandler):
        async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
            return m.CallToolResult(content=[m.AudioContent(data="AA==", mime_type="audio/wav")])

    async def main() -> None:
        server = mcprev.Server(Handler(), "a", "1", validate=False, on_downgrade=returning(answer))
        async with mcprev.connect(server, mode=A) as client:
            assert (await client.call_tool("t", {})).is_error

    run(main())
    assert f"on_downgrade returned {type(answer).__name__}; return a dict or None" in caplog.text


# -- functions of middleware -------------------------------------------------------------------------------


@every_form
@pytest.mark.parametrize("on_error", ["deny", "warn"])
def test_a_call_is_served_only_if_its_record_was_written_whatever_the_form_of_the_function(
    form: str, on_error: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """What would have to be awaited has written nothing."""
    written: list[object] = []

    def write(record: object) -> None:
        written.append(record)

    app = mcprev.App("a", "1", middleware=[Audit(forms(write)[form], on_error=on_error)])
    ran: list[int] = []
    app.tool(lambda: ran.append(1), name="t")

    async def main() -> None:
        async with mcprev.connect(app) as client:
            result = await client.call_tool("t", {})
            assert bool(result.is_error) is (not ran)

    run(main())
    writes = "async" not in form
    assert len(written) == (2 if writes else 0)
    assert bool(ran) is (writes or on_error == "warn")
    assert ("cannot be recorded" in caplog.text) is not writes


@every_form
def test_an_error_becomes_what_a_function_of_any_form_returns(form: str) -> None:
    def told(error: Exception) -> Exception:
        return mcprev.ToolError(f"told {error}")

    app = mcprev.App("a", "1", middleware=[ErrorMapping({KeyError: forms(told)[form]})])

    @app.tool
    def t() -> str:
        raise KeyError("k")

    async def main() -> None:
        async with mcprev.connect(app) as client:
            result = await client.call_tool("t", {})
            assert cast("Any", result.content[0]).text == "told 'k'"

    run(main())
