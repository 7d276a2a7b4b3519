"""docs/errors.md: an entry for each error class, whose program raises it with the message below, and messages that exist."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
from collections.abc import Coroutine, Iterator
from types import ModuleType
from typing import Any, Final, NamedTuple, cast

import pytest

import mcprev
from helpers.support import ROOT
from mcprev import errors
from mcprev.cli.exit_codes import code_of
from mcprev.errors import McpError

PAGE: Final = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ROW: Final = re.compile(r"^\| \[`(\w+)`\]\(#(\w+)\) \| (.*?) ?\| (.*?) ?\|$", re.MULTILINE)
SHORTEST: Final = 8
"""How many letters of a message say something."""


class Entry(NamedTuple):
    """What the page says of a class: its program, if it has one, and the messages below."""

    program: str
    messages: tuple[str, ...]


def entries() -> dict[str, Entry]:
    """The entries of the page by class; a program keeps its lines of the page."""
    found: dict[str, Entry] = {}
    for part in re.finditer(r"^### (\w+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL):
        programs = [*re.finditer(r"^```python\n(.*?)^```$", part[2], re.MULTILINE | re.DOTALL)]
        assert len(programs) <= 1, part[1]
        messages = re.findall(r"^```text\n(.*?)\n```$", part[2], re.MULTILINE | re.DOTALL)
        found[part[1]] = Entry("".join(each[1] for each in programs), tuple(messages))
    return found


ENTRIES: Final = entries()
ROWS: Final = {row[1]: row for row in ROW.finditer(PAGE)}
CLASSES: Final = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, McpError)
}
PROGRAMS: Final = [name for name, entry in ENTRIES.items() if entry.program]


def raised(program: str) -> McpError:
    """The error that a program of the page ends with."""
    module = ModuleType("errors_page")
    sys.modules["errors_page"] = module
    code = compile(program, "docs/errors.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    try:
        found: object = eval(code, module.__dict__)  # noqa: S307 - our own page
        if inspect.iscoroutine(found):
            asyncio.run(asyncio.wait_for(cast("Coroutine[Any, Any, None]", found), 20))
    except McpError as error:
        return error
    finally:
        del sys.modules["errors_page"]
    raise AssertionError("the program raises no error")


def test_every_error_class_has_a_row_and_an_entry() -> None:
    assert set(mcprev._HOMES["errors"]) <= set(CLASSES)
    assert list(ROWS) == [name for name in CLASSES if name in ROWS]
    assert set(ROWS) == set(ENTRIES) == set(CLASSES)
    assert all(row[2] == name.lower() for name, row in ROWS.items())


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_of_an_entry_raises_its_error(name: str) -> None:
    error = raised(ENTRIES[name].program)
    assert type(error) is CLASSES[name]
    pattern = re.escape(ENTRIES[name].messages[0]).replace(re.escape("..."), "(?:.|\n)*?")
    assert re.fullmatch(pattern, str(error)), str(error)
    listed = re.findall(r"`(\w+)`", ROWS[name][3])
    assert all(hasattr(error, each) for each in listed if each != "RpcError")
    if code := re.match("[0-9]", ROWS[name][4]):
        # A server in memory answers that it has no such method: it was reached, unlike one that does not answer.
        assert int(code[0]) == code_of(error)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_the_attributes_of_the_class(name: str) -> None:
    own = {"message", "code", "data", "http_status", "raw"} if name == "RpcError" else attributes(name)
    assert {*re.findall(r"`(\w+)`", ROWS[name][3])} - {"RpcError"} == own
    assert ("as `RpcError`" in ROWS[name][3]) == (
        issubclass(CLASSES[name], errors.RpcError) and name != "RpcError"
    )


def attributes(name: str) -> set[str]:
    """The attributes that a class adds to those of `McpError` and `RpcError`: properties, and what `__init__` sets."""
    if name == "McpError":
        return {"retry_after"}
    found = set[str]()
    for each in CLASSES[name].__mro__:
        if issubclass(each, McpError) and each not in {McpError, errors.RpcError}:
            found |= {key for key, value in vars(each).items() if isinstance(value, property)}
            made = vars(each).get("__init__")
            found |= set(re.findall(r"self\.(\w+)[:,]? ", inspect.getsource(made))) if made else set()
    return found


def literals() -> str:
    """Every text in the source of the runtime, those of f-strings in pieces, one a line; without `%s` and the like."""
    found = "\n".join(
        node.value
        for path in sorted((ROOT / "runtime" / "mcprev").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return re.sub(r"%\.?[0-9]*[a-z]", "", found)


def quoted() -> Iterator[str]:
    """Messages on the page that no program shows."""
    for entry in ENTRIES.values():
        yield from entry.messages[1 if entry.program else 0 :]
    for part in re.findall(r"^## (?:Messages|Lines)(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL):
        yield from re.findall(r"^\| `(.*?)` \| ", part, re.MULTILINE)


def test_a_message_on_the_page_is_one_that_the_runtime_writes() -> None:
    known = literals()
    for message in quoted():
        pieces = [piece.strip() for piece in message.split("...") if len(piece.strip()) >= SHORTEST]
        assert pieces, message
        assert [piece for piece in pieces if piece not in known] == []
