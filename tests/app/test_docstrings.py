"""The whole docstring is the description; what it says of arguments is in the schema of each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import Field

import mcprev
from helpers.running import run
from mcprev.app.signatures import Function

GOOGLE = """Forecasts the weather.

Ask for one city
at a time.

Args:
    city: The name of the city,
        in English.

        Not a code.
    days (int, optional): How many: at most 7.
    ctx: The context.

Returns:
    A line for each day.
"""
NUMPY = """Forecasts the weather.

Parameters
----------
city, country : str
    A name.
days
    How many.

Returns
-------
str
    A line for each day.
"""
SPHINX = """Forecasts the weather.

:param str city: The name
    of the city.
:param days: How many.
:type days: int
:returns: A line for each day.
"""


def documented(text: str | None) -> Callable[..., str]:
    def forecast(city: str, *, days: int = 3, country: str = "", ctx: mcprev.Context) -> str:
        return ""

    forecast.__doc__ = text
    return forecast


TABLE: dict[str, tuple[str | None, str | None, dict[str, str]]] = {
    "none": (None, None, {}),
    "several paragraphs": ("One.\n\n    Two,\n    long.\n\n    Three.\n    ", "One.\n\nTwo,\nlong.\n\nThree.", {}),
    "Google": (
        GOOGLE,
        "Forecasts the weather.\n\nAsk for one city\nat a time.\n\nReturns:\n    A line for each day.",
        {"city": "The name of the city,\nin English.\n\nNot a code.", "days": "How many: at most 7."},
    ),
    "Google, the last section": ("Do.\n\nArguments:\n    city: A name.", "Do.", {"city": "A name."}),
    "Google, keywords": ("Do.\n\nKeyword Args:\n    days: Days.\n\nMore.", "Do.\n\nMore.", {"days": "Days."}),
    "NumPy": (
        NUMPY,
        "Forecasts the weather.\n\nReturns\n-------\nstr\n    A line for each day.",
        {"city": "A name.", "country": "A name.", "days": "How many."},
    ),
    "NumPy, others": ("Do.\n\nOther Parameters\n----------------\ndays\n    Days.", "Do.", {"days": "Days."}),
    "Sphinx": (
        SPHINX,
        "Forecasts the weather.\n\n:returns: A line for each day.",
        {"city": "The name\nof the city.", "days": "How many."},
    ),
    "a name that is no parameter": (
        "Do.\n\nArgs:\n    city: A name.\n    town: Lost?",
        "Do.\n\nArgs:\n    city: A name.\n    town: Lost?",
        {"city": "A name."},
    ),
    "a section without entries": ("Do.\n\nArgs:\n    See the manual.", "Do.\n\nArgs:\n    See the manual.", {}),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_a_docstring_is_read_whole(case: str) -> None:
    doc, text, arguments = TABLE[case]
    read = Function(documented(doc))
    described = {
        name: it["description"] for name, it in read.schema["properties"].items() if "description" in it
    }
    assert (read.description, described) == (text, arguments)


def test_what_annotations_say_of_an_argument_wins() -> None:
    def find(a: Annotated[int, Field(description="by Field")], b: Annotated[int, "by text"], c: int) -> None:
        """Finds.

        Args:
            a: by the docstring
            b: by the docstring
            c: by the docstring
        """

    properties = Function(find).schema["properties"]
    assert [properties[name]["description"] for name in "abc"] == ["by Field", "by text", "by the docstring"]


class Caller:
    """Calls somebody."""

    def __call__(self, name: str) -> None: ...


def test_an_object_that_can_be_called_is_described_by_its_class() -> None:
    assert (Function(Caller()).description, Function(len_of).description) == ("Calls somebody.", None)


def len_of(name: str) -> None: ...


def test_clients_get_the_text_of_tools_resources_and_prompts() -> None:
    app = mcprev.App("weather", "1.0")

    def forecast(city: str) -> str:
        """Forecasts the weather.

        Of one city.

        Args:
            city: The name of the city.
        """
        return city

    app.tool(forecast)
    app.prompt(forecast)
    app.resource("weather://{city}")(forecast)

    async def listed() -> tuple[list[Any], list[Any], list[Any]]:
        async with mcprev.connect(app) as client:
            return (
                [each async for each in client.tools()],
                [each async for each in client.prompts()],
                [each async for each in client.resource_templates()],
            )

    tools, prompts, templates = run(listed())
    described = {each.description for each in (*tools, *prompts, *templates)}
    assert described == {"Forecasts the weather.\n\nOf one city."}
    assert prompts[0].arguments[0].description == "The name of the city."
    assert (tools[0].input_schema.properties or {})["city"]["description"] == "The name of the city."


@pytest.mark.slow
def test_the_reader_of_sections_is_imported_only_if_there_is_one() -> None:
    program = (
        "import sys, mcprev\n"
        "app = mcprev.App('a', '1')\n"
        "@app.tool\n"
        "def plain(a: int) -> int:\n"
        "    'One.\\n\\nTwo.'\n"
        "    return a\n"
        "assert 'docstring_parser' not in sys.modules\n"
        "@app.tool\n"
        "def described(a: int) -> int:\n"
        "    'One.\\n\\nArgs:\\n    a: An a.'\n"
        "    return a\n"
        "assert 'docstring_parser' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
