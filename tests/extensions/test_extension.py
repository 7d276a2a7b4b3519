"""An extension is used with peers that declare it, at every revision, and does not exist for any other (MOD-16, MOD-17)."""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from types import ModuleType
from typing import Any, Final

import pytest
from pydantic import ValidationError

import mcprev
from helpers.asgi_bridge import Client
from helpers.requirements import req
from helpers.running import run, until
from mcprev.core.capabilities import extension_settings
from mcprev.errors import ConversionError, InternalError, McpError
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m

NAME: Final = "com.acme/forecast"
SESSIONS: Final = [row for row in DEFAULT if row.handshake]
STATELESS: Final = [row for row in DEFAULT if not row.handshake]


class Acme:
    """An app and what its extension hears and answers."""

    def __init__(self, types: Any, *middleware: mcprev.Middleware, needs: Any = "both") -> None:
        self.types: Any = types
        self.heard: list[Any] = []
        self.answer: Any = None
        """The result, or an async function of the context that returns it."""
        acme = self

        class Forecasts(types.ServerHandler):  # type: ignore[misc]
            async def forecast(self, ctx: mcprev.Context, params: Any) -> Any:
                acme.heard.append((ctx.meta.get("who"), params.city))
                await ctx.progress(1)
                if acme.answer is None:
                    return types.ForecastResult(highs=[params.days])
                found: Any = acme.answer(ctx) if callable(acme.answer) else acme.answer
                return await found if isawaitable(found) else found

            def watch(self, ctx: mcprev.Context, params: Any) -> None:
                acme.heard.append(params.city)

        class Storms(types.ClientHandler):  # type: ignore[misc]
            async def storm(self, ctx: mcprev.ClientContext, params: Any) -> None:
                acme.heard.append(("storm", params.city))

            def agree(self, ctx: mcprev.ClientContext, params: Any) -> Any:
                return types.AgreeResult(agreed=params.text == "yes?")

        self.server = Forecasts()
        self.extension: mcprev.Extension[Any, Any] = mcprev.Extension(
            NAME, {"units": ["celsius"]}, types=types, server=self.server, client=Storms(), needs=needs
        )
        self.app = mcprev.App("a", "1", extensions=[self.extension], middleware=middleware)

        @self.app.tool
        def supported(ctx: mcprev.Context) -> bool:
            return ctx.client_supports(NAME)

    def connect(self, row: Revision, *, declares: bool = True, **options: Any) -> Any:
        extensions = [self.extension] if declares else []
        return mcprev.connect(self.app, revisions=[row.name], extensions=extensions, **options)

    def ask(self, client: mcprev.Client, city: str = "Oslo", **options: Any) -> Any:
        return self.extension.client_calls(client, **options).forecast(
            self.types.ForecastRequestParams(city=city, days=2)
        )


@req("MOD-16", "MOD-17")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_both_sides_see_what_the_other_declares(row: Revision, types: ModuleType) -> None:
    async def main() -> None:
        acme = Acme(types)
        for declares in (True, False):
            async with acme.connect(row, declares=declares) as client:
                assert client.supports(NAME) is declares
                assert not client.supports("com.acme/other")
                assert (await client.call_tool("supported", as_=bool)) is declares
                assert client.capabilities.extensions[NAME] == {"units": ["celsius"]}
        async with mcprev.connect(mcprev.App("b", "1"), extensions=[acme.extension]) as client:
            assert not client.supports(NAME)

    run(main())


@pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
def test_where_the_capabilities_have_no_extensions_they_are_in_both_places(
    row: Revision, types: ModuleType
) -> None:
    acme = Acme(types)
    declared = acme.app.server.identity.capabilities(row)
    assert declared["extensions"] == declared["experimental"] == {NAME: {"units": ["celsius"]}}
    own = m.ServerCapabilities(experimental={"own": {}, NAME: {"mine": 1}})
    app = mcprev.App("a", "1", capabilities=own, extensions=[acme.extension])
    assert app.server.identity.capabilities(row)["experimental"] == {"own": {}, NAME: {"mine": 1}}


def test_a_peer_may_declare_it_in_either_place_and_what_is_no_declaration_is_none() -> None:
    for place in ("extensions", "experimental"):
        assert extension_settings({place: {NAME: {"a": 1}}}, NAME) == {"a": 1}
        several: list[Any] = [None, [], "x", 1, {NAME: None}, {NAME: []}, {NAME: "x"}, {"com.acme/other": {}}]
        for wrong in several:
            assert extension_settings({place: wrong}, NAME) is None
    assert extension_settings({"extensions": [], "experimental": {NAME: {}}}, NAME) == {}


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_its_requests_are_typed_and_checked(row: Revision, types: Any) -> None:
    async def main() -> None:
        acme, told = Acme(types), list[float]()

        def progress(done: float, *_: object) -> None:
            told.append(done)

        async with acme.connect(row) as client:
            found = await acme.ask(client, progress=progress, meta={"who": "me"})
            assert isinstance(found, types.ForecastResult)
            assert (found.highs, acme.heard, told) == ([2], [("me", "Oslo")], [1])
            for wrong in ({"city": "Oslo", "days": 0}, {"days": 1}, {"city": 1}, {}, None):
                with pytest.raises(mcprev.InvalidParams):
                    await client.raw("acme/forecast", wrong)
            acme.answer = {"highs": "none"}
            with pytest.raises(InternalError):
                await acme.ask(client)
            acme.answer = {"highs": [3]}
            assert (await acme.ask(client)).highs == [3]

    run(main())


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_it_does_not_exist_for_a_peer_that_has_not_declared_it(row: Revision, types: Any) -> None:
    async def main() -> None:
        acme = Acme(types)
        async with acme.connect(row, declares=False) as client:
            for params in ({"city": "Oslo"}, {"city": 1}, None):
                with pytest.raises(mcprev.MethodNotFound, match=NAME):
                    await client.raw("acme/forecast", params)
            with pytest.raises(mcprev.LocalProtocolError, match=NAME):
                await acme.ask(client)
            client.session.notify("notifications/acme/watch", {"city": "Oslo"})
            await client.call_tool("supported")
            assert acme.heard == []

    run(main())


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_one_that_needs_the_server_alone_is_used_with_whoever_asks(row: Revision, types: Any) -> None:
    async def main() -> None:
        acme = Acme(types, needs="server")

        async def notify(ctx: mcprev.Context) -> Any:
            await acme.extension.server_calls(ctx).storm(types.StormNotificationParams(city="Rome"))
            return types.ForecastResult(highs=[0])

        acme.answer = notify
        heard: list[Any] = []
        async with acme.connect(row, declares=False, tap=heard.append) as client:
            assert not client.supports(NAME)
            assert (await acme.ask(client)).highs == [0]
            assert (await client.raw("acme/forecast", {"city": "Oslo"}))["highs"] == [0]
            with pytest.raises(mcprev.InvalidParams):
                await client.raw("acme/forecast", {"city": 1})
            if row.handshake:
                client.session.notify("notifications/acme/watch", {"city": "Bonn"})
                await client.call_tool("supported")
                assert acme.heard[-1] == "Bonn"
        assert any(b"notifications/acme/storm" in event.data for event in heard)
        async with mcprev.connect(
            mcprev.App("b", "1"), revisions=[row.name], extensions=[acme.extension]
        ) as client:
            with pytest.raises(mcprev.LocalProtocolError, match="the server does not declare"):
                await acme.ask(client)
            with pytest.raises(mcprev.MethodNotFound):
                await client.raw("acme/forecast", {"city": "Oslo"})

    run(main())


def test_who_has_to_declare_it_is_one_of_two_words() -> None:
    with pytest.raises(ValueError, match="'both' or 'server'"):
        mcprev.Extension(NAME, needs="client")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("row", STATELESS, ids=lambda row: row.name)
@pytest.mark.parametrize("wrong", [[], "x", {NAME: 1}, {NAME: []}], ids=str)
def test_a_malformed_declaration_is_none(row: Revision, wrong: Any, types: Any) -> None:
    async def main() -> None:
        acme = Acme(types)
        async with acme.connect(row, declares=False) as client:
            capabilities = client.session.identity.capabilities(row)
            capabilities["extensions"] = wrong
            with pytest.raises(mcprev.MethodNotFound, match=NAME):
                await client.raw("acme/forecast", {"city": "Oslo"})

    run(main())


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_a_server_notifies_and_asks_while_it_serves_a_request(row: Revision, types: Any) -> None:
    async def main() -> None:
        acme = Acme(types)

        async def talk(ctx: mcprev.Context) -> Any:
            calls = acme.extension.server_calls(ctx, timeout=5)
            await calls.storm(types.StormNotificationParams(city="Rome"))
            agreed = await calls.agree(types.AgreeRequestParams(text="yes?"))
            return types.ForecastResult(highs=[int(agreed.agreed)])

        async def notify(ctx: mcprev.Context) -> Any:
            await acme.extension.server_calls(ctx).storm(types.StormNotificationParams(city="Rome"))
            return types.ForecastResult(highs=[0])

        async with acme.connect(row) as client:
            acme.answer = notify
            await acme.ask(client)
            await until(lambda: ("storm", "Rome") in acme.heard)
            acme.answer = talk
            if row.handshake:
                assert (await acme.ask(client)).highs == [1]
            else:
                with pytest.raises(InternalError):
                    await acme.ask(client)

    run(main())


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_a_server_sends_nothing_to_a_client_that_has_not_declared_it(row: Revision, types: Any) -> None:
    async def main() -> None:
        acme, seen = Acme(types), list[McpError]()

        @acme.app.tool
        async def talk(ctx: mcprev.Context) -> None:
            calls = acme.extension.server_calls(ctx)
            for call in (
                calls.storm(types.StormNotificationParams(city="Rome")),
                calls.agree(types.AgreeRequestParams(text="?")),
            ):
                try:
                    await call
                except McpError as error:
                    seen.append(error)

        async with acme.connect(row, declares=False) as client:
            await client.call_tool("talk")
        assert [type(error) for error in seen] == [mcprev.MissingClientCapability] * 2
        assert acme.heard == []

    run(main())


@pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
def test_a_client_notifies_and_refuses_what_is_not_valid(row: Revision, types: Any) -> None:
    async def main() -> None:
        acme, seen = Acme(types), list[McpError]()

        async def ask(ctx: mcprev.Context) -> Any:
            for params in ({}, {"text": 1}):
                try:
                    await acme.extension.server_calls(ctx).agree(params)
                except McpError as error:
                    seen.append(error)
            return types.ForecastResult(highs=[])

        acme.answer = ask
        async with acme.connect(row) as client:
            calls = acme.extension.client_calls(client)
            await calls.watch(types.WatchNotificationParams(city="Bonn"))
            client.session.notify("notifications/acme/watch", {"city": 1})
            await acme.ask(client)
            await until(lambda: "Bonn" in acme.heard)
        assert [type(error) for error in seen] == [mcprev.InvalidParams] * 2
        assert 1 not in acme.heard

    run(main())


@pytest.mark.parametrize("row", STATELESS, ids=lambda row: row.name)
def test_what_a_revision_cannot_send_is_an_error(row: Revision, types: Any) -> None:
    async def main() -> None:
        acme = Acme(types)
        async with acme.connect(row) as client:
            with pytest.raises(mcprev.LocalProtocolError, match="send no notifications"):
                await acme.extension.client_calls(client).watch(types.WatchNotificationParams(city="Bonn"))

    run(main())


@pytest.mark.parametrize("row", STATELESS, ids=lambda row: row.name)
def test_a_server_of_a_revision_without_requests_is_told_so(row: Revision, types: Any) -> None:
    async def main() -> None:
        acme, seen = Acme(types), list[str]()

        async def ask(ctx: mcprev.Context) -> Any:
            try:
                await acme.extension.server_calls(ctx).agree(types.AgreeRequestParams(text="?"))
            except mcprev.LocalProtocolError as error:
                seen.append(str(error))
            return types.ForecastResult(highs=[])

        acme.answer = ask
        async with acme.connect(row) as client:
            await acme.ask(client)
        assert seen == [f"'acme/agree' cannot be sent: servers of {row.name} send no requests"]

    run(main())


@pytest.mark.parametrize("streams", [True, False])
def test_over_http_a_server_speaks_in_the_stream_of_the_request_and_asks_nobody_without_one(
    streams: bool, types: Any
) -> None:
    async def main() -> None:
        acme, seen = Acme(types), list[str]()

        async def talk(ctx: mcprev.Context) -> Any:
            calls = acme.extension.server_calls(ctx, timeout=5)
            await calls.storm(types.StormNotificationParams(city="Rome"))
            if not streams:
                try:
                    await calls.agree(types.AgreeRequestParams(text="?"))
                except mcprev.LocalProtocolError as error:
                    seen.append(str(error))
            return types.ForecastResult(highs=[1])

        acme.answer = talk
        app = acme.app.asgi(json_response=None if streams else True)
        declared: dict[str, Any] = {"experimental": {NAME: {}}}
        client = await Client(app).open(SESSIONS[-1], **declared)
        exchange = await client.request("acme/forecast", {"city": "Oslo", "days": 1}).done()
        assert b'"highs":[1]' in exchange.body
        assert (b"notifications/acme/storm" in exchange.body) is streams
        assert bool(seen) is not streams
        assert all("as JSON" in text for text in seen)
        await app.aclose()

    run(main())


def test_a_client_without_the_extension_does_not_find_its_requests(types: Any) -> None:
    async def main() -> None:
        acme, seen = Acme(types), list[McpError]()

        async def ask(ctx: mcprev.Context) -> Any:
            engine: Any = ctx.request.engine
            call = engine.call(
                "acme/agree",
                {"text": "?"},
                ctx.connection.now(),
                idle=5,
                total=5,
                channel=ctx.request,
                unchecked=True,
            )
            try:
                await ctx.connection.wait(call)
            except McpError as error:
                seen.append(error)
            return m.CallToolResult(content=[])

        acme.app.tool(name="ask")(ask)
        server_only = mcprev.App("b", "1")
        server_only.tool(name="ask")(ask)
        # The client has declared it and serves the method, but this server has not.
        async with mcprev.connect(
            server_only, revisions=[SESSIONS[-1].name], extensions=[acme.extension]
        ) as client:
            await client.call_tool("ask")
        assert [type(error) for error in seen] == [mcprev.MethodNotFound]

    run(main())


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_middleware_runs_around_its_methods(row: Revision, types: Any) -> None:
    async def main() -> None:
        seen: list[Any] = []

        async def audit(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
            seen.append((call.method, type(call.params).__name__))
            if call.ctx.meta.get("who") == "nobody":
                raise mcprev.InvalidRequest("no")
            return await call_next(call)

        acme = Acme(types, audit)
        async with acme.connect(row) as client:
            await acme.ask(client)
            await acme.ask(client)
            with pytest.raises(mcprev.InvalidRequest):
                await acme.ask(client, meta={"who": "nobody"})
        assert seen == [("acme/forecast", "ForecastRequestParams")] * 3
        assert len(acme.heard) == 2

    run(main())


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_params_whose_types_want_meta_get_that_of_the_session(row: Revision, types: Any) -> None:
    """As those of a revision's own requests do."""

    async def main() -> None:
        seen: list[Any] = []

        class Who(types.ServerHandler):  # type: ignore[misc]
            async def who(self, ctx: mcprev.Context, params: Any) -> Any:
                seen.append(getattr(params.meta, "own", None))
                return types.WhoResult(
                    name=params.to_wire()["_meta"]["io.modelcontextprotocol/clientInfo"]["name"]
                )

        extension = mcprev.Extension(NAME, types=types, server=Who())
        app = mcprev.App("a", "1", extensions=[extension])
        async with mcprev.connect(app, revisions=[row.name], extensions=[extension], name="me") as client:
            assert (await client.raw("acme/who"))["name"] == "me"
            assert (await client.raw("acme/who", {"_meta": {"own": 7}}))["name"] == "me"
            if row.handshake:  # what the request itself says comes first
                said = {"io.modelcontextprotocol/clientInfo": {"name": "mine", "version": "1"}}
                assert (await client.raw("acme/who", {"_meta": said}))["name"] == "mine"
                with pytest.raises(mcprev.InvalidParams):
                    await client.raw("acme/who", {"_meta": {key: {"name": 1} for key in said}})
            with pytest.raises(mcprev.InvalidParams):
                await client.raw("acme/who", {"_meta": {"own": "x"}})
        assert seen[1] == 7

    run(main())


def test_an_exact_handler_of_a_revision_does_not_hide_it(types: Any) -> None:
    async def main() -> None:
        acme, row = Acme(types), SESSIONS[-1]
        package: Any = __import__("importlib").import_module(row.package)

        class Exact(package.ServerHandler):  # type: ignore[misc]
            pass

        server = mcprev.Server(None, "a", "1", exact={row.name: Exact()}, extensions=[acme.extension])
        async with mcprev.connect(server, revisions=[row.name], extensions=[acme.extension]) as client:
            assert (await acme.ask(client)).highs == [2]

    run(main())


@pytest.mark.parametrize("name", ["forecast", "", "/x", "com.acme/", "a b/c"])
def test_a_name_has_a_prefix(name: str) -> None:
    with pytest.raises(ValueError, match="name of an extension"):
        mcprev.Extension(name)


def test_what_cannot_be_declared_or_served_is_refused_at_once(types: Any) -> None:
    acme = Acme(types)
    with pytest.raises(ValidationError):
        mcprev.Extension(NAME, {"a": object()})
    with pytest.raises(TypeError, match="pass `types`"):
        mcprev.Extension(NAME, server=object())
    side: Any
    for side in ("server", "client"):
        several: list[Any] = [object(), types.ServerHandler, mcprev.ServerHandler()]
        for wrong in several:
            with pytest.raises(TypeError, match="must be an instance"):
                mcprev.Extension(NAME, types=types, **{side: wrong})

    class Ping(types.ClientHandler):  # type: ignore[misc]
        async def ping(self, ctx: Any, params: Any) -> Any: ...

    with pytest.raises(ValueError, match="'ping' is a method of MCP"):
        mcprev.Extension(NAME, types=types, client=Ping())
    others: list[Any] = [{}, {"capabilities": m.ServerCapabilities(extensions={NAME: {}})}]
    for extensions, options in zip([[acme.extension] * 2, [acme.extension]], others, strict=True):
        with pytest.raises(ValueError, match=f"'{NAME}' is declared twice"):
            mcprev.Server(None, "a", "1", extensions=extensions, **options)
    again = mcprev.Extension("com.acme/again", types=types, server=acme.server)
    with pytest.raises(ValueError, match=r"acme/[a-z]*' is declared twice"):
        mcprev.Server(None, "a", "1", extensions=[acme.extension, again])
    outer = mcprev.App("o", "1")
    with pytest.raises(ValueError, match="`extensions` of the mounted app"):
        outer.mount(acme.app)


def test_an_extension_without_types_has_no_calls() -> None:
    async def main() -> None:
        plain: mcprev.Extension[Any, Any] = mcprev.Extension(NAME)
        async with mcprev.connect(mcprev.App("a", "1"), extensions=[plain]) as client:
            with pytest.raises(mcprev.LocalProtocolError, match="has no methods"):
                plain.client_calls(client)
        assert repr(plain) == f"<Extension {NAME}>"

    run(main())


def test_the_result_of_a_server_is_checked_by_the_client(types: Any) -> None:
    async def main() -> None:
        acme = Acme(types)
        async with acme.connect(SESSIONS[-1]) as client:

            async def odd(method: str, params: Any = None, **_: Any) -> Any:
                return {"highs": [method, params]}

            client.raw = odd
            with pytest.raises(mcprev.RemoteProtocolError, match="highs"):
                await acme.ask(client)

    run(main())


def test_a_call_waits_as_long_as_its_options_say(types: Any) -> None:
    async def main() -> None:
        acme = Acme(types)

        async def never(_: mcprev.Context) -> Any:
            await asyncio.Event().wait()

        acme.answer = never
        async with acme.connect(SESSIONS[-1]) as client:
            with pytest.raises(mcprev.RequestTimeout):
                await acme.ask(client, timeout=0.01)

    run(main())


def test_errors_name_the_package_whose_type_a_result_is_not(types: Any) -> None:
    acme = Acme(types)
    binding: Any = acme.extension.methods("ServerHandler")["acme/forecast"]
    with pytest.raises(ConversionError, match=r"highs.*forecast_types"):
        binding.result({"highs": 1})
