"""Whatever a server answers, who asks gets a result or an `McpError` (ERR-1, MOD-10): each member of each result is tried."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, cast

import pytest
from click.testing import CliRunner
from typing_extensions import override

import mcprev
from api.odd_results import Odd, OddServer, odd_results, task_state
from api.test_every_method import CLIENT_CAN, helpful
from api.wire import serving
from bridge.hands import Downstream, Servers, bridge_to, bridged
from bridge.task_hands import capabilities_with_tasks
from fuzz.fuzzing import each_once
from helpers.requirements import req
from helpers.running import run
from mcprev.bridge.bridge import Bridge
from mcprev.bridge.several.options import BridgedServer
from mcprev.cli import main as app
from mcprev.errors import McpError
from mcprev.protocol import tasks
from mcprev.protocol.durations import seconds_of
from mcprev.revisions import DEFAULT, LATEST, Revision, TaskSupport

CASES: Final = 25
"""How many odd answers of each revision `make test` tries at each place."""
Use: TypeAlias = Callable[[mcprev.Client], Awaitable[object]]
PATIENCE: Final = 0.2
"""Seconds for which a task is followed that does not end."""
LIMIT: Final = 1e7
"""Seconds of the clock of the loop, which goes on by itself where nothing else can happen."""


async def _all(entries: Any) -> list[Any]:
    return [entry async for entry in entries]


async def _tools(client: mcprev.Client) -> None:
    with contextlib.suppress(McpError):
        await client.list_tools(fresh=True)
    await _all(client.tools(fresh=True))
    await client.call_tool("t")


async def _call(client: mcprev.Client) -> None:
    await client.list_tools(fresh=True)
    found = await client.call_tool("t", total_timeout=PATIENCE)
    _ = found.text, found.data, repr(found), found.to_wire()
    with contextlib.suppress(mcprev.ToolError):
        found.read(dict[str, int])


async def _task(client: mcprev.Client) -> None:
    task = await client.start_tool("t")
    _ = task.id, task.status, task.message, task.input_requests, task.poll_interval
    await (await client.task("t")).result(PATIENCE)


async def _listed_tasks(client: mcprev.Client) -> None:
    await client.raw("tasks/list")


async def _listens(client: mcprev.Client) -> None:
    async with client.listen(tools=True) as changes:
        async for _ in changes:
            break


USES: Final[Mapping[str, tuple[Use, ...]]] = {
    "ping": (lambda client: client.ping(),),
    "tools/list": (_tools,),
    "tools/call": (_call, _task),
    "resources/list": (lambda client: _all(client.resources(fresh=True)),),
    "resources/templates/list": (lambda client: _all(client.resource_templates(fresh=True)),),
    "prompts/list": (lambda client: _all(client.prompts(fresh=True)),),
    "resources/read": (lambda client: client.read_resource("a:b", fresh=True),),
    "prompts/get": (lambda client: client.get_prompt("p"),),
    "completion/complete": (lambda client: client.complete("p", "a", ""),),
    "logging/setLevel": (lambda client: client.set_log_level("info"),),
    "subscriptions/listen": (_listens,),
    "resources/subscribe": (lambda client: client.raw("resources/subscribe", {"uri": "a:b"}),),
    "resources/unsubscribe": (lambda client: client.raw("resources/unsubscribe", {"uri": "a:b"}),),
    tasks.GET: (_call, _task),
    tasks.RESULT: (_call, _task),
    tasks.CANCEL: (lambda client: client.raw(tasks.CANCEL, {"taskId": "t"}),),
    "tasks/list": (_listed_tasks,),
}
OPENERS: Final = ("initialize", "server/discover")


async def _tried(use: Awaitable[object], odd: Odd, wrong: list[str]) -> None:
    try:
        await use
    except McpError:
        pass
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - it is told
        wrong.append(f"{odd.note}: {type(error).__name__}: {error!s:.200}")


async def _each(row: Revision, odds: Any, wrong: list[str]) -> None:
    """Use one client for as many odd answers as it bears."""
    server = OddServer(row)
    options: Any = {"handler": helpful(), "capabilities": CLIENT_CAN, "restart": False}
    async with mcprev.connect(mcprev.memory(cast("Any", server)), mode=row.name, **options) as client:
        for odd in odds:
            server.odd = odd
            for use in USES[odd.method]:
                await _tried(use(client), odd, wrong)
            server.odd = None
            await client.call_tool("t")  # it can still be used


@req("ERR-1", "TIME-1")
def test_a_client_gets_a_result_or_an_error_of_mcprev(row: Revision) -> None:
    wrong: list[str] = []
    run(
        _each(row, [odd for odd in odd_results(row, 3 * CASES, 1) if odd.method not in OPENERS], wrong),
        limit=LIMIT,
    )
    assert wrong == []


@req("ERR-1", "LIFE-4")
def test_a_client_is_opened_or_raises_an_error_of_mcprev(row: Revision) -> None:
    wrong: list[str] = []

    async def use(server: OddServer) -> None:
        async with mcprev.connect(mcprev.memory(cast("Any", server)), mode=row.name, restart=False) as client:
            _ = client.server_info, client.capabilities, client.instructions, client.revision
            with contextlib.suppress(McpError):
                await client.ping()
            await client.call_tool("t")

    async def main() -> None:
        for odd in odd_results(row, CASES, 2, OPENERS):
            server = OddServer(row)
            server.odd = odd
            await _tried(use(server), odd, wrong)

    run(main(), limit=LIMIT)
    assert wrong == []


@req("ERR-1", "SEAM-1")
def test_one_odd_server_of_several_costs_only_itself(row: Revision) -> None:
    """Of `connect_all(partial=True)`."""
    wrong: list[str] = []
    methods = (*OPENERS, "tools/list", "prompts/list", "resources/list", "resources/templates/list")

    async def use(server: OddServer) -> None:
        targets = {
            "odd": mcprev.memory(cast("Any", server)),
            "good": mcprev.memory(cast("Any", OddServer(row))),
        }
        async with mcprev.connect_all(targets, partial=True, restart=False) as clients:
            for entries in (clients.tools, clients.prompts, clients.resources, clients.resource_templates):
                await _all(entries())
            assert "good__t" in [tool.name for tool in await _all(clients.tools(fresh=True))]

    async def main() -> None:
        for odd in odd_results(row, CASES, 3, methods):
            server = OddServer(row)
            server.odd = odd
            await _tried(use(server), odd, wrong)

    run(main(), limit=LIMIT)
    assert wrong == []


HUGE: Final = 10**400


@req("TIME-1", "CACHE-2", everywhere=True)
@pytest.mark.parametrize(
    "number", [0, -1, HUGE, -HUGE, 1e300, 5e-324, True, "7", None, [], {}], ids=lambda n: repr(n)[:10]
)
def test_a_time_that_a_peer_gives_is_one_within_limits_or_none(number: Any) -> None:
    found = seconds_of(number, least=0.5, most=60.0)
    valid = isinstance(number, int | float) and not isinstance(number, bool) and number >= 0
    assert found is None if not valid else found is not None and 0.5 <= found <= 60.0


@req("CACHE-2", "TIME-1", everywhere=True)
def test_lists_and_contents_that_last_for_ever_are_read_and_cached() -> None:
    row = LATEST

    async def main() -> None:
        answers: Any = {"tools/list": {"tools": []}, "resources/read": {"contents": []}}
        replies: Any = {method: {**answer, "ttlMs": HUGE} for method, answer in answers.items()}
        async with serving(row, replies) as (client, hand):
            for _ in range(2):
                assert await _all(client.tools()) == []
                await client.read_resource("a:b")
            assert len(hand.asked("tools/list")) == len(hand.asked("resources/read")) == 1

    run(main())


@req("TASKX-3", "TIME-1", everywhere=True)
def test_a_failed_task_whose_error_has_no_code_is_an_error_with_its_text() -> None:
    row = next(row for row in DEFAULT if row.tasks is TaskSupport.EXTENSION)

    async def main() -> None:
        failed = task_state(row, "failed", error={"message": "out of paper"})
        replies: Any = {
            "tools/call": {"resultType": "task", **task_state(row, "working", pollIntervalMs=HUGE)},
            tasks.GET: {"resultType": "complete", **failed},
        }
        async with serving(row, replies) as (client, _):
            with pytest.raises(mcprev.RpcError, match="out of paper"):
                await client.call_tool("t")

    run(main())


# -- what stands before the server: a bridge, the command ---------------------------------------------------------


PARAMS: Final[Mapping[str, dict[str, Any]]] = {
    "tools/call": {"name": "t"},
    "resources/read": {"uri": "a:b"},
    "prompts/get": {"name": "p"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "p"},
        "argument": {"name": "a", "value": ""},
    },
}
LISTED: Final = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")


class Taking(Downstream):
    """A client by hand that takes what is valid at no revision, as a bridge of one revision passes it on."""

    @override
    def _take(self, message: dict[str, Any]) -> None:
        try:
            super()._take(message)
        except Exception:  # noqa: BLE001 - what is judged here is that an answer comes
            self.got.append(message)
            waiting = self._waiting.get(message.get("id"))
            if waiting is not None and not waiting.done():
                waiting.set_result(message)


@each_once
@req("SEAM-10", "ERR-1")
@pytest.mark.parametrize("there", DEFAULT, ids=lambda row: row.name)
@pytest.mark.parametrize("several", [False, True], ids=["one server", "several"])
def test_a_bridge_answers_each_request_whatever_its_server_says(
    there: Revision, several: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """And logs no exception of its own."""
    rows = (DEFAULT[0], DEFAULT[-1])

    async def main(row: Revision) -> None:
        made: list[OddServer] = []

        def server() -> OddServer:
            made.append(OddServer(there))
            made[-1].odd = odd_now
            return made[-1]

        odd_now: Odd | None = None
        servers = Servers(server)
        target = mcprev.memory(cast("Any", servers))
        bridge = (
            Bridge({"a": BridgedServer(target=target)}, server_revisions=[there.name])
            if several
            else bridge_to(servers, there)
        )
        client = Taking(row)
        async with bridged(bridge, client):
            for odd in odd_results(there, CASES, 4, (*PARAMS, *LISTED)):
                odd_now = odd
                for each in made:
                    each.odd = odd
                if odd.method not in row.methods:
                    continue
                params = {**PARAMS.get(odd.method, {})}
                if several and "name" in params:
                    params["name"] = f"a__{params['name']}"
                answer = (await client.ask(odd.method, params or None)).message
                assert ("result" in answer) is not ("error" in answer), odd.note

    for row in rows:
        run(main(row), limit=LIMIT)
    assert [each.getMessage() for each in caplog.records if each.exc_info] == []


@each_once
@req("ERR-1")
@pytest.mark.parametrize(
    "command", [("inspect",), ("call", "t"), ("prompt", "p"), ("read", "a:b")], ids=" ".join
)
def test_the_command_ends_with_a_message_whatever_the_server_says(
    row: Revision, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    servers: list[OddServer] = []

    def last(*_: object, **__: object) -> mcprev.memory:
        return mcprev.memory(cast("Any", servers[-1]))

    for module in ("server_use", "inspect_"):
        monkeypatch.setattr(f"mcprev.cli.{module}.target_of_server", last)
    wrong: list[str] = []
    for odd in odd_results(row, 4, 5, (*OPENERS, *PARAMS, *LISTED)):
        servers.append(OddServer(row))
        servers[-1].odd = odd
        done = CliRunner().invoke(app, [*command, "--as", row.name, "--timeout", "1", "--", "x"])
        assert servers[-1].got
        if not isinstance(done.exception, SystemExit | None) or "Traceback" in done.output:
            wrong.append(f"{odd.note}: {done.exception!r:.200}")
    assert wrong == []


@req("TASK-3", "TOOL-10")
@pytest.mark.parametrize("support", [[], {}, None, 7, "x", ["required"]], ids=str)
def test_a_bridge_takes_a_tool_with_odd_support_of_tasks_for_one_without_any(support: Any) -> None:
    there = next(row for row in DEFAULT if row.tasks is TaskSupport.CORE)
    made: list[OddServer] = []

    def server() -> OddServer:
        made.append(OddServer(there))
        tool = {"name": "t", "inputSchema": {"type": "object"}, "execution": {"taskSupport": support}}
        made[-1].replies["tools/list"] = {"tools": [tool]}
        return made[-1]

    async def main() -> None:
        client = Downstream(LATEST, capabilities_with_tasks(LATEST, {}))
        async with bridged(bridge_to(Servers(server), there), client):
            assert (await client.ask("tools/call", {"name": "t"})).result["content"] == []
        assert any(each.asked("tools/list") for each in made)

    run(main())
