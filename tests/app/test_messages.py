"""What authors are told of their mistakes: where it is, and what to do instead."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from decimal import Decimal
from typing import Final, cast

import pytest
from pydantic import BaseModel

import mcprev
from helpers.asgi_bridge import Client, modern
from helpers.requirements import E, req
from helpers.running import run
from mcprev.core.questions import form_of
from mcprev.errors import InvalidParams
from mcprev.protocol.uris import check_uri
from mcprev.revisions import DEFAULT


class Inner(BaseModel):
    b: list[int]


class Outer(BaseModel):
    items: list[Inner]


def listed() -> list[Inner]:
    wrong: object = [Inner(b=[1]), {"b": ["x"]}]
    return cast("list[Inner]", wrong)


def nested() -> Outer:
    wrong: object = {"items": [{"b": [1]}, {"b": [1, "x"]}]}
    return cast("Outer", wrong)


def by_name() -> dict[str, list[int]]:
    wrong: object = {"k": ["x", "y", 3, "z", "u"]}
    return cast("dict[str, list[int]]", wrong)


def number() -> int:
    wrong: object = "many"
    return cast("int", wrong)


WHERE: Final[tuple[tuple[Callable[[], object], str], ...]] = (
    (listed, "[1].b[0] Input should be a valid integer"),
    (nested, "items[1].b[1] Input should be a valid integer"),
    (
        by_name,
        "; ".join(f"k[{at}] Input should be a valid integer" for at in (0, 1, 3)) + "; and 1 more",
    ),
    (number, "Input should be a valid integer"),
)


@req("TOOL-4", everywhere=True)
@pytest.mark.parametrize(("tool", "where"), WHERE)
def test_the_line_of_the_log_says_where_a_returned_value_is_wrong(
    tool: Callable[[], object], where: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = mcprev.App("x", "1")
    app.tool(tool)

    async def main() -> None:
        async with mcprev.connect(app) as client:
            result = await client.call_tool(tool.__name__, {})
            assert result.is_error
            assert "Input" not in result.text

    with caplog.at_level(logging.ERROR):
        run(main())
    [record] = caplog.records
    assert record.getMessage().endswith(f"that its return annotation does not allow: {where}")


class Shop:
    @classmethod
    def of_class(cls, x: int) -> int:
        return x

    @property
    def value(self) -> int:
        return 1


@pytest.mark.parametrize("name", ["of_class", "value"])
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
def test_what_is_bound_by_its_class_is_registered_below_it(name: str, kind: str) -> None:
    app, bound = mcprev.App("x", "1"), cast("Callable[..., object]", vars(Shop)[name])
    registers: dict[str, Callable[[Callable[..., object]], object]]
    registers = {"tool": app.tool, "prompt": app.prompt, "resource": app.resource("a:b")}
    with pytest.raises(TypeError, match=rf"Shop\.{name}\(\) is a .* below the class, register"):
        registers[kind](bound)


@req("RES-1", everywhere=True)
@pytest.mark.parametrize("uri", ["notes://a b", "notes://a\tb", " notes://a", "notes://a\u00a0b", "a b"])
def test_a_blank_in_a_uri_is_named(uri: str) -> None:
    with pytest.raises(InvalidParams, match="which no URI has; percent-encode it"):
        check_uri(uri)
    with pytest.raises(ValueError, match=r"which no URI has; write %"):
        mcprev.App("x", "1").resource(uri)(lambda: "")


@req("LIFE-3", at=(E,))
def test_a_request_to_a_server_that_failed_to_start_is_told_so() -> None:
    async def failing(server: mcprev.Server) -> AsyncGenerator[None, None]:
        raise OSError("no database")
        yield

    async def main() -> None:
        served = mcprev.App("x", "1", lifespan=failing).asgi()
        answer = await modern(Client(served), DEFAULT[-1], "tools/list", {}).done()
        assert (answer.status, b"the server failed to start; its log says why" in answer.body) == (503, True)

    run(main())


class Price(BaseModel):
    price: Decimal = Decimal("1.5")


def test_the_default_of_a_decimal_is_a_number() -> None:
    [(_, field)] = (
        form_of(Price).request("What?").to_wire()["params"]["requestedSchema"]["properties"].items()
    )
    assert field == {"type": "number", "default": 1.5}
