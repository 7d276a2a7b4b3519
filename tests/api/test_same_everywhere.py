"""What is the same at every revision: the data of a result, `is_error`, and lenient arguments (TOOL-2, TOOL-5, MOD-1)."""

from __future__ import annotations

from typing import Any, Final, cast

import pytest
from pydantic import BaseModel

import mcprev
from api.wire import Message, serving
from helpers.requirements import req
from helpers.running import run
from mcprev.revisions import DEFAULT, LATEST, Revision
from mcprev_types.latest import models as m

each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


class Boxed(BaseModel):
    result: int


class Person(BaseModel):
    name: str


app: Final = mcprev.App("same", "1")


@app.tool
def listed() -> list[int]:
    return [1, 2]


@app.tool
def none() -> list[int]:
    return []


@app.tool
def number() -> int:
    return 5


@app.tool
def boxed() -> Boxed:
    return Boxed(result=5)


@app.tool
def maybe() -> Person | None:
    return Person(name="bob")


@app.tool
def nobody() -> Person | None:
    return None


@app.tool
def mapped() -> dict[str, dict[str, int]]:
    return {"result": {"a": 1}}


DATA: Final[dict[str, object]] = {
    "listed": [1, 2], "none": [], "number": 5, "boxed": {"result": 5}, "maybe": {"name": "bob"}, "nobody": None,
    "mapped": {"result": {"a": 1}},
}  # fmt: skip


@req("TOOL-5", "MOD-1")
@each_row
@pytest.mark.parametrize("tool", DATA)
def test_the_data_of_a_result_is_the_same_at_every_revision(row: Revision, tool: str) -> None:
    async def main() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            result = await client.call_tool(tool)
            assert (result.data, result.is_error) == (DATA[tool], False)
            assert "isError" not in result.to_wire(), "what was not sent is not written"

    run(main())


def reply(structured: object, *texts: str, **members: object) -> Message:
    content = [{"type": "text", "text": text} for text in texts]
    return {"content": content, "structuredContent": structured, **members}


PEERS: Final[dict[str, tuple[Message, object]]] = {
    # what other servers send, and the data of it
    "a list, one block for each item": (reply({"result": ["a", "b"]}, "a", "b"), ["a", "b"]),
    "no items": (reply({"result": []}), []),
    "a text": (reply({"result": "hi"}, "hi"), "hi"),
    "an object in an object": (reply({"result": {"a": 1}}, '{"a": 1}'), {"a": 1}),
    "an object and its own words": (reply({"result": {"a": 1}}, "one a"), {"result": {"a": 1}}),
    "an object of one member": (reply({"result": 1}, '{"result": 1}'), {"result": 1}),
    "two members": (reply({"result": 1, "more": 2}, "1"), {"result": 1, "more": 2}),
}


@req("TOOL-5", "TOOL-6", at=LATEST.name)
@pytest.mark.parametrize("case", PEERS)
def test_the_data_of_other_servers(case: str) -> None:
    sent, wanted = PEERS[case]

    async def main() -> None:
        async with serving(LATEST, {"tools/call": sent}, validate="off") as (client, _):
            result = await client.call_tool("t")
            assert result.data == wanted
            assert result.structured_content == sent["structuredContent"]

    run(main())


ERRORS: Final[tuple[tuple[Message, bool], ...]] = (
    ({}, False), ({"isError": False}, False), ({"isError": True}, True),
)  # fmt: skip


@req("TOOL-5")
@each_row
@pytest.mark.parametrize(("members", "wanted"), ERRORS)
def test_is_error_is_true_or_false(row: Revision, members: Message, wanted: bool) -> None:
    async def main() -> None:
        async with serving(row, {"tools/call": {"content": [], **members}}) as (client, _):
            assert (await client.call_tool("t")).is_error is wanted

    run(main())


@req("TOOL-2")
@each_row
def test_a_refusal_of_arguments_is_what_the_guide_says(row: Revision) -> None:
    """An error at the revisions whose `CallToolResult` is for failures of the tool alone; it can be told by no client."""

    async def main() -> None:
        async with mcprev.connect(taking(), mode=row.name) as client:
            if row.tool_argument_errors_are_results:
                assert (await client.call_tool("take", {"n": "one"})).is_error
                with pytest.raises(mcprev.ToolError):
                    await client.call_tool("take", {"n": "one"}, as_=str)
            else:
                for options in ({}, {"as_": str}):
                    with pytest.raises(mcprev.InvalidParams):
                        await client.call_tool("take", {"n": "one"}, **cast("dict[str, Any]", options))
            with pytest.raises(mcprev.InvalidParams):
                await client.call_tool("unknown")

    run(main())


def taking(*, lenient: bool | None = None, tool: bool | None = None) -> mcprev.App:
    said: Any = {} if lenient is None else {"strict_arguments": not lenient}
    made = mcprev.App("takes", "1", **said)
    own: Any = {} if tool is None else {"strict_arguments": not tool}

    @made.tool(**own)
    def take(
        n: int = 0, x: float = 0.0, yes: bool = False, items: list[int] | None = None,
        person: Person | None = None, text: str = "",
    ) -> str:  # fmt: skip
        return repr((n, x, yes, items, person and person.name, text))

    return made


LENIENT: Final[dict[str, tuple[dict[str, Any], str | None]]] = {
    # arguments, and what the function gets; None if they are refused
    "a number": ({"n": "1"}, "(1, 0.0, False, None, None, '')"),
    "a fraction": ({"x": "1.5"}, "(0, 1.5, False, None, None, '')"),
    "a bool": ({"yes": "true"}, "(0, 0.0, True, None, None, '')"),
    "a list": ({"items": "[1, 2]"}, "(0, 0.0, False, [1, 2], None, '')"),
    "texts in a list": ({"items": ["1", 2]}, "(0, 0.0, False, [1, 2], None, '')"),
    "an object": ({"person": '{"name": "bob"}'}, "(0, 0.0, False, None, 'bob', '')"),
    "a text that is JSON": ({"text": "[1]", "n": "1"}, "(1, 0.0, False, None, None, '[1]')"),
    "no number": ({"n": "one"}, None),
    "a fraction for an int": ({"n": "1.5"}, None),
    "no list": ({"items": "1, 2"}, None),
    "too deep": ({"items": "[" * 100_000}, None),
    "a number for a text": ({"text": 5}, None),
    "unknown": ({"m": "1"}, None),
}


@req("TOOL-2", at=LATEST.name)
@pytest.mark.parametrize("case", LENIENT)
def test_lenient_arguments_are_converted_and_strict_ones_refused(case: str) -> None:
    given, wanted = LENIENT[case]

    async def answered(made: mcprev.App) -> str | None:
        async with mcprev.connect(made, mode=LATEST.name) as client:
            result = await client.call_tool("take", given)
            return None if result.is_error else result.text

    async def main() -> None:
        assert await answered(taking()) == wanted
        assert await answered(taking(lenient=False, tool=True)) == wanted
        assert await answered(taking(lenient=False)) is None
        assert await answered(taking(tool=False)) is None

    run(main())


@req("TOOL-2", everywhere=True)
def test_lenience_changes_no_schema_and_no_message() -> None:
    async def main() -> None:
        found: list[tuple[m.Tool, str]] = []
        for lenient in (True, False):
            async with mcprev.connect(taking(lenient=lenient), mode=LATEST.name) as client:
                result = await client.call_tool("take", {"n": "one"})
                found.append(((await client.list_tools()).tools[0], result.text))
        assert found[0] == found[1]

    run(main())
