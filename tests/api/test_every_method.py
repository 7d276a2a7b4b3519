"""Every method of every revision, called in both roles: valid, invalid, not served; all of it seen on the wire.

Payloads come from the corpus, which is made from the schemas alone; what comes back is judged by the generated
model and by upstream's schema.json of the revision (see `api.wire`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cache
from types import new_class
from typing import Any, Final, cast

import pytest

import mcprev
from api.wire import HandClient, Json, Message, served, serving
from conversion.peers import levelled
from helpers.corpus import Corpus, Judge, mutations
from helpers.requirements import req
from helpers.running import run
from helpers.support import load
from mcprev.errors import ConversionError, RemoteProtocolError
from mcprev.revisions import LATEST, revision_named as row_of
from mcprev_codegen import ir
from mcprev_types import Direction, Kind, MethodSpec
from mcprev_types.latest import models as m

TO_SERVER, TO_CLIENT = Direction.CLIENT_TO_SERVER, Direction.SERVER_TO_CLIENT
OPENERS: Final = frozenset({"initialize", "notifications/initialized"})
OWN: Final = frozenset({"initialize", "ping", "server/discover", "subscriptions/listen"})
"""What a server serves without a handler."""
NOT_THEIRS: Final = frozenset({"", "_meta", "task"})
"""Members that are judged elsewhere: the whole as JSON-RPC, `_meta` by the era, and `task` only where there are
any, else it is ignored."""
OWN_RESULTS: Final[dict[str, type]] = {
    "tools/call": mcprev.ToolResult,
    "resources/read": mcprev.ResourceResult,
}
"""Results that the client has a class of its own for, below that of the revision."""
CLIENT_CAN: Final = m.ClientCapabilities.from_wire(
    {"sampling": {"tools": {}, "context": {}}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
)


# -- payloads --------------------------------------------------------------------------------------------


@cache
def corpus(revision: str) -> Corpus:
    return Corpus(load(revision))


def members(value: Json) -> Message:
    assert isinstance(value, dict)
    return cast("Message", value)


@cache
def valid(revision: str, method: str) -> tuple[Json, ...]:
    """Params that the revision takes, the smallest and the fullest; `_meta` is for whoever sends them."""
    spec = row_of(revision).methods[method]
    found: list[Json] = [None] if spec.params_optional else []
    # A state is the server's own, and no other is taken (MRTR-4).
    samples = [members(value) for value in corpus(revision).samples(str(spec.params))]
    return (
        *found,
        *({k: v for k, v in value.items() if k not in {"_meta", "requestState"}} for value in samples),
    )


@cache
def invalid(revision: str, method: str) -> tuple[Json, ...]:
    """Params that the revision does not take: in each one member is missing or of another kind."""
    type_, judge = str(row_of(revision).methods[method].params), Judge(load(revision))
    found = [
        members(mutation.value)
        for mutation in mutations(corpus(revision), type_)
        if mutation.member not in NOT_THEIRS and not judge.accepts(ir.Ref(type_), mutation.value)
    ]
    return tuple({k: v for k, v in value.items() if k != "_meta"} for value in found)


def methods(revision: str, direction: Direction, kind: Kind) -> list[MethodSpec]:
    return [
        spec
        for spec in row_of(revision).methods.values()
        if direction in spec.directions and spec.kind is kind and spec.method not in OPENERS
    ]


# -- who serves ------------------------------------------------------------------------------------------


def answering(base: type, methods_: Iterator[str]) -> Any:
    """A handler that answers each of some methods with the fullest result the latest revision has for it."""

    def stub(method: str) -> Any:
        async def answer(self: object, ctx: object, params: object) -> object:
            return result_of(method)

        return answer

    names = {LATEST.methods[method].attr: stub(method) for method in methods_}
    return new_class("Answering", (base,), exec_body=lambda space: space.update(names))()


def result_of(method: str) -> Message:
    """The fullest result that every revision can be told."""
    values: dict[str, Message] = {
        "sampling/createMessage": {
            "role": "assistant",
            "model": "m",
            "content": {"type": "text", "text": "x"},
        },
        "elicitation/create": {"action": "decline"},
        "roots/list": {"roots": [{"uri": "file:///a", "name": "a"}]},
    }
    if method in values:
        return values[method]
    *_, value = corpus(LATEST.name).samples(str(LATEST.methods[method].result))
    return {**levelled(value), "resultType": "complete"}


class Nothing(mcprev.ServerHandler):
    """Serves nothing."""


def everything() -> mcprev.Server:
    serves = [s.method for s in methods(LATEST.name, TO_SERVER, Kind.REQUEST) if s.method not in OWN]
    return mcprev.Server(answering(mcprev.ServerHandler, iter(serves)), "s", "1", validate=False)


def helpful() -> Any:
    asks = [spec.method for spec in methods(LATEST.name, TO_CLIENT, Kind.REQUEST)]
    return answering(mcprev.ClientHandler, iter(asks))


def is_served(spec: MethodSpec) -> bool:
    """Tasks of sessions are for exact handlers."""
    return not spec.method.startswith("tasks/")


# -- a server is called ----------------------------------------------------------------------------------


@req("TOOL-1", "RES-1", "PROM-1", "COMP-1", "BASE-9", "SEAM-2", "SEAM-4", "SEAM-5")
def test_a_server_answers_every_request_with_a_valid_result(revision: str) -> None:
    async def main() -> None:
        async with served(everything(), revision) as client:
            for spec in methods(revision, TO_SERVER, Kind.REQUEST):
                for params in valid(revision, spec.method):
                    if spec.method == "subscriptions/listen":
                        await listens(client, params)
                        continue
                    answer = await client.ask(spec.method, params)
                    if is_served(spec):
                        assert isinstance(answer.result, dict), (spec.method, params)
                    else:
                        assert answer.code == -32601

    run(main())


async def listens(client: HandClient, params: Json) -> None:
    """A stream is a request that is not answered before its end."""
    message = {**params, "_meta": client.stamp}
    client.send({"jsonrpc": "2.0", "id": "L", "method": "subscriptions/listen", "params": message})
    await client.heard("notifications/subscriptions/acknowledged")
    client.tell("notifications/cancelled", {"requestId": "L"})


@req("BASE-9", "SEAM-5", "TOOL-2")
def test_a_server_answers_invalid_params_with_minus_32602(revision: str) -> None:
    async def main() -> None:
        async with served(everything(), revision) as client:
            for spec in methods(revision, TO_SERVER, Kind.REQUEST):
                if not is_served(spec) or spec.method == "ping":
                    continue
                for params in invalid(revision, spec.method):
                    answer = await client.ask(spec.method, params)
                    if answer.message.get("error", {}).get("code") != -32602:
                        wrong.append((spec.method, params, answer.message))

    wrong: list[Json] = []
    run(main())
    assert wrong == []


@req("BASE-9", "SEAM-2", "COMP-3")
def test_a_server_answers_what_it_does_not_serve_with_minus_32601(revision: str) -> None:
    async def main() -> None:
        async with served(mcprev.Server(Nothing(), "s", "1"), revision) as client:
            for spec in methods(revision, TO_SERVER, Kind.REQUEST):
                if spec.method in OWN:
                    continue
                for params in (*valid(revision, spec.method), *invalid(revision, spec.method)[:3]):
                    assert (await client.ask(spec.method, params)).code == -32601, spec.method

    run(main())


@req("BASE-8", "BASE-9")
def test_a_server_never_answers_a_notification(revision: str) -> None:
    async def main() -> None:
        async with served(everything(), revision) as client:
            for spec in methods(revision, TO_SERVER, Kind.NOTIFICATION):
                for params in (*valid(revision, spec.method), *invalid(revision, spec.method)):
                    client.tell(spec.method, params)
            client.tell("notifications/made_up", {"x": 1})
            assert await client.settle() == []

    run(main())


# -- a client is called ----------------------------------------------------------------------------------

SAMPLES: Final[dict[str, tuple[Json, ...]]] = {
    "sampling/createMessage": (
        {"messages": [], "maxTokens": 1},
        {
            "messages": [{"role": "user", "content": {"type": "text", "text": "?"}}],
            "maxTokens": 9, "temperature": 0, "systemPrompt": "be kind", "stopSequences": ["."],
            "modelPreferences": {"hints": [{"name": "m"}], "costPriority": 1}, "metadata": {"x": None},
        },
    ),
}  # fmt: skip
"""In the place of the corpus where values have to fit each other: tool results answer tool uses (SAMP-3)."""


def asked_of_clients(revision: str, method: str) -> tuple[Json, ...]:
    return SAMPLES.get(method) or valid(revision, method)


@req("SAMP-1", "ROOT-1", "ELIC-1", "PING-1", "SEAM-4", "SEAM-5")
def test_a_client_answers_every_request_with_a_valid_result(revision: str) -> None:
    if not row_of(revision).handshake:
        return embedded(revision)

    async def main() -> None:
        async with serving(revision, handler=helpful(), capabilities_of_client=CLIENT_CAN) as (_, server):
            for spec in methods(revision, TO_CLIENT, Kind.REQUEST):
                for params in asked_of_clients(revision, spec.method):
                    answer = await server.ask(spec.method, params)
                    if is_served(spec):
                        assert isinstance(answer.result, dict), (spec.method, params)
                    else:
                        assert answer.code == -32601

    run(main())
    return None


def rounds(*results: Message) -> Callable[[Message], Message]:
    """One result after the other."""
    left = iter(results)
    return lambda _: next(left)


def embedded(revision: str) -> None:
    """Where servers send no requests, the same is asked in results, and the answer is in the retry."""

    async def main() -> None:
        for spec in methods(revision, TO_CLIENT, Kind.REQUEST):
            for params in asked_of_clients(revision, spec.method):
                request = {"method": spec.method} | ({} if params is None else {"params": params})
                asking: Message = {"resultType": "input_required", "inputRequests": {"k": request}}
                script = {"tools/call": rounds(asking, {"content": []})}
                async with serving(
                    revision, script, handler=helpful(), capabilities_of_client=CLIENT_CAN
                ) as (client, server):
                    await client.call_tool("t")
                    first, second = server.asked("tools/call")
                    assert second == {**first, "inputResponses": {"k": result_of(spec.method)}}

    run(main())


@req("SEAM-5", "BASE-9", "ERR-9")
def test_a_client_answers_invalid_params_with_minus_32602(revision: str) -> None:
    async def main() -> None:
        async with serving(revision, handler=helpful(), capabilities_of_client=CLIENT_CAN) as (_, server):
            for spec in methods(revision, TO_CLIENT, Kind.REQUEST):
                if not is_served(spec) or spec.method == "ping":
                    continue
                for params in invalid(revision, spec.method):
                    answer = await server.ask(spec.method, params)
                    if answer.message.get("error", {}).get("code") != -32602:
                        wrong.append((spec.method, params, answer.message))

    wrong: list[Json] = []
    if row_of(revision).handshake:
        run(main())
    assert wrong == []


@req("ROOT-2", "ERR-9", "BASE-9")
def test_a_client_answers_what_it_does_not_serve_with_minus_32601(revision: str) -> None:
    async def main() -> None:
        async with serving(revision) as (_, server):
            for spec in methods(revision, TO_CLIENT, Kind.REQUEST):
                if spec.method != "ping":
                    for params in (*valid(revision, spec.method), *invalid(revision, spec.method)[:3]):
                        assert (await server.ask(spec.method, params)).code == -32601, spec.method

    if row_of(revision).handshake:
        run(main())


@req("BASE-8", "BASE-12")
def test_a_client_never_answers_a_notification(revision: str) -> None:
    """Nor, where servers send no requests, anything at all."""

    async def main() -> None:
        async with serving(revision, handler=helpful()) as (client, server):
            for spec in methods(revision, TO_CLIENT, Kind.NOTIFICATION):
                for params in (*valid(revision, spec.method), *invalid(revision, spec.method)):
                    server.tell(spec.method, params)
            if not row_of(revision).handshake:
                for spec in methods(revision, TO_CLIENT, Kind.REQUEST):
                    server.send({"jsonrpc": "2.0", "id": spec.method, "method": spec.method, "params": {}})
            await client.ping()
            await client.ping()
            assert [message for message in server.got if "method" not in message] == []

    run(main())


# -- a client calls --------------------------------------------------------------------------------------


@req("SEAM-1", "SEAM-4", "SEAM-5", "CACHE-5")
def test_a_client_calls_every_method_and_reads_every_valid_result(revision: str) -> None:
    """In the words of the latest revision; what goes out is judged as what the server speaks."""
    shared = [
        spec.method
        for spec in methods(LATEST.name, TO_SERVER, Kind.REQUEST)
        if spec.method in row_of(revision).methods and spec.method not in OWN
    ]
    assert shared

    async def main() -> None:
        for method in shared:
            result = row_of(revision).methods[method].result
            for value in corpus(revision).samples(str(result)):
                script = {method: without_type(levelled(value))}
                async with serving(revision, script) as (client, server):
                    for params in valid(LATEST.name, method):
                        with contextlib.suppress(ConversionError):
                            found: Any = await client.call(method, levelled(params))
                            name = str(LATEST.methods[method].result)
                            wanted: type = OWN_RESULTS[method] if method in OWN_RESULTS else getattr(m, name)
                            assert type(found) is wanted
                            assert issubclass(wanted, getattr(m, name))
                            assert server.asked(method)

    run(main())


def without_type(value: Message) -> Message:
    return {name: item for name, item in value.items() if name != "resultType"}


@req("SEAM-5", "ERR-7", "BASE-14")
def test_a_client_refuses_every_invalid_result(revision: str) -> None:
    broken: dict[str, Any] = {
        "tools/list": {"tools": 5},
        "tools/call": {"content": [{"type": "text"}]},
        "resources/list": {"resources": [{"name": "r"}]},
        "resources/templates/list": {"resourceTemplates": [{}]},
        "resources/read": {"contents": [{"uri": "a:b"}]},
        "prompts/list": {"prompts": [{"name": 5}]},
        "prompts/get": {"messages": [{"role": "nobody"}]},
        "completion/complete": {"completion": {}},
    }

    async def main() -> None:
        async with serving(revision, dict(broken), strict=True) as (client, _):
            for method in broken:
                *_, params = valid(LATEST.name, method)
                with pytest.raises(RemoteProtocolError):
                    await client.call(method, params)

    run(main())
