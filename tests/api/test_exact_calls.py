"""`client.exact` as the guide shows it, at every revision: what the runtime knows, the caller need not say (SEAM-9, MOD-1)."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any, Final

import pytest

import mcprev
from helpers.requirements import req
from helpers.running import run
from mcprev.revisions import DEFAULT, Revision

PARAMS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "call_tool": ("CallToolRequestParams", {"name": "who"}),
    "read_resource": ("ReadResourceRequestParams", {"uri": "shop://hat"}),
    "subscribe": ("SubscribeRequestParams", {"uri": "shop://hat"}),
    "unsubscribe": ("UnsubscribeRequestParams", {"uri": "shop://hat"}),
    "get_prompt": ("GetPromptRequestParams", {"name": "advise", "arguments": {"city": "Oslo"}}),
    "set_level": ("SetLevelRequestParams", {"level": "info"}),
    "complete": (
        "CompleteRequestParams",
        {"ref": {"type": "ref/prompt", "name": "advise"}, "argument": {"name": "city", "value": "O"}},
    ),
    "progress": ("ProgressNotificationParams", {"progressToken": "none", "progress": 1}),
    "cancelled": ("CancelledNotificationParams", {"requestId": "none"}),
}
"""What the methods require, without what the runtime knows."""
OTHERS: Final = {
    "initialize": "the runtime has sent it",
    "subscriptions_listen": "it ends with the connection; clients have `listen`",
    "get_task": "no task", "get_task_payload": "no task", "cancel_task": "no task", "list_tasks": "no tasks", "task_status": "no task",
}  # fmt: skip
each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


def app() -> mcprev.App:
    made = mcprev.App("a", "1")

    @made.tool
    async def who(ctx: mcprev.Context) -> str:
        return f"{ctx.client_info}" if ctx.client_info else "nobody"

    @made.resource("shop://hat")
    async def hat() -> str:
        return "20 EUR"

    @made.prompt
    async def advise(city: str) -> str:
        return city

    @made.completion("advise", "city")
    async def cities(value: str) -> list[str]:
        return [f"{value}slo"]

    return made


def package(row: Revision) -> Any:
    return import_module(f"mcprev_types.v{row.name.replace('-', '_')}")


@req("SEAM-9", "MOD-1", everywhere=True)
@each_row
def test_params_of_the_package_need_no_meta(row: Revision) -> None:
    types = package(row)

    async def main() -> None:
        async with mcprev.connect(app(), mode=row.name, name="the-client", version="7") as client:
            calls = client.exact(types)
            for tools in (await calls.list_tools(), await calls.list_tools(types.PaginatedRequestParams())):
                assert [tool.name for tool in tools.tools] == ["who"]
            result = await calls.call_tool(types.CallToolRequestParams(name="who"))
            assert isinstance(result, types.CallToolResult)
            assert "the-client" in result.content[0].text

    run(main())


@req("SEAM-9", "MOD-1", everywhere=True)
@each_row
def test_every_method_takes_params_with_what_it_requires_alone(row: Revision) -> None:
    types = package(row)
    names = [name for name, _ in inspect.getmembers(types.ClientCalls, inspect.isfunction) if name[0] != "_"]

    async def main() -> None:
        async with mcprev.connect(app(), mode=row.name) as client:
            calls = client.exact(types)
            for name in names:
                if name in OTHERS:
                    continue
                params: tuple[Any, ...] = ()
                if name in PARAMS:
                    kind, members = PARAMS[name]
                    params = (getattr(types, kind)(**members),)
                result = await getattr(calls, name)(*params)
                assert result is None or isinstance(result, types.models.Result), name

    run(main())
    assert {"call_tool", "list_tools", "read_resource", "complete"} <= set(names) - OTHERS.keys()


@req("MOD-3", everywhere=True)
@each_row
def test_a_message_without_its_meta_is_as_invalid_as_before(row: Revision) -> None:
    """Constructors fill in what the runtime states; of what was received, nothing is filled in."""
    types = package(row)
    made = types.PaginatedRequestParams().to_wire()
    assert types.PaginatedRequestParams.from_wire(made).to_wire() == made
    if made:
        with pytest.raises(ValueError, match="_meta"):
            types.PaginatedRequestParams.from_wire({})
