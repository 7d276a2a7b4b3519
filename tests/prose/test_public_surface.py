"""The public surface: one table of names, the same for type checkers, and documentation that stands by itself.

`mcprev._HOMES` lists every public name with the module that defines it. What `help()`, an editor or `--help` shows of
them names no requirement by its id: the ids are for those who work on the runtime.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Final

import pytest
from click.testing import CliRunner

import mcprev
from helpers.requirements import REQUIREMENTS
from helpers.support import ROOT
from limits_page import members
from mcprev.app.options import EntryOptions, FunctionOptions, ResourceOptions, ToolOptions
from mcprev.auth.client.credentials import AuthOptions
from mcprev.cli import _COMMANDS, main
from mcprev.client.connect_options import ClientOptions, ConnectionOptions, ConnectOptions
from mcprev.client.options import Options
from mcprev.server.options import OfferOptions, ServiceOptions
from mcprev.server.server import HandlerOptions, ServerOptions
from mcprev.transports.http.server.options import HttpOptions

HOMES: Final = {name: f"mcprev.{home}" for home, names in mcprev._HOMES.items() for name in names}
AREAS: Final = "|".join(sorted({id_.split("-")[0] for id_ in REQUIREMENTS}))
ID: Final = re.compile(rf"\b(?:{AREAS})-(?:\d|\*)")
INIT: Final = ast.parse((ROOT / "runtime/mcprev/__init__.py").read_text(encoding="utf-8"))


def test_type_checkers_see_what_the_table_lists() -> None:
    block = next(node for node in INIT.body if isinstance(node, ast.If))
    seen: dict[str, str] = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name, "only `X as X` is public"
            seen[alias.name] = str(node.module)
    assert seen == HOMES


def documentation(body: list[ast.stmt], name: str | None = None) -> Iterator[str]:
    """The documentation of public things: of classes, functions and members, and of the attributes before a string.

    With a `name`, of that one alone.
    """
    last = ""
    for node in body:
        match node:
            case ast.Expr(ast.Constant(str(text))):
                if name in {None, last} and not last.startswith("_"):
                    yield text
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                public = not node.name.startswith("_") or node.name == "__init__"
                if public if name is None else node.name == name:
                    yield from documentation(node.body)
            case ast.AnnAssign(target=ast.Name(id=last)):
                pass
            case _:
                pass


def shown(name: str) -> list[str]:
    """What is shown of a public name, and of the classes that it inherits from."""
    value: object = getattr(mcprev, name)
    kind = value if isinstance(value, type) else type(value)
    sources = {
        (base.__module__, base.__name__) for base in kind.__mro__ if base.__module__.startswith("mcprev.")
    }
    return [
        text
        for module, each in {(HOMES[name], name), *sources}
        for text in documentation(ast.parse(inspect.getsource(import_module(module))).body, each)
    ]


@pytest.mark.parametrize("name", HOMES)
def test_a_public_name_is_documented_in_the_module_that_the_table_names(name: str) -> None:
    assert getattr(mcprev, name) is getattr(import_module(HOMES[name]), name)
    assert name in dir(mcprev)
    module = ast.parse(inspect.getsource(import_module(HOMES[name])))
    assert list(documentation(module.body, name))


@pytest.mark.parametrize("name", HOMES)
def test_what_users_read_names_no_requirement(name: str) -> None:
    assert [text for text in shown(name) if ID.search(text)] == []


OF_SERVERS: Final = (OfferOptions, ServiceOptions, ServerOptions)
DESCRIBED: Final[Mapping[Callable[..., object], tuple[type, ...]]] = {
    # by function: the TypedDicts of its `**options`, in which each has its text
    mcprev.App.__init__: (FunctionOptions, *OF_SERVERS),
    mcprev.Server.__init__: (*OF_SERVERS, HandlerOptions),
    mcprev.connect.__init__: (ClientOptions, ConnectionOptions),
    mcprev.connect_all.__init__: (ClientOptions, ConnectOptions),
    mcprev.App.tool: (EntryOptions, ToolOptions),
    mcprev.App.resource: (EntryOptions, ResourceOptions),
    mcprev.App.prompt: (EntryOptions,),
    mcprev.Server.asgi: (HttpOptions,),
    mcprev.OAuth.__init__: (AuthOptions,),
    mcprev.Client.call_tool: (Options,),
    mcprev.http.__init__: (),
    mcprev.stdio.__init__: (),
}


@pytest.mark.parametrize("function", DESCRIBED, ids=lambda function: function.__qualname__)
def test_every_option_is_described(function: Callable[..., object]) -> None:
    options = {name for kind in DESCRIBED[function] for name in kind.__annotations__}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            options.add(name)
    described = inspect.getdoc(function) or ""
    told = {name for kind in DESCRIBED[function] for name in members(kind)}
    assert {name for name in options - told if not re.search(rf"`{name}\b", described)} == set()


@pytest.mark.parametrize("name", ["", *_COMMANDS])
def test_the_help_of_a_command_names_no_requirement(name: str) -> None:
    result = CliRunner().invoke(main, [*name.split(), "--help"])
    assert result.exit_code == 0
    assert "Usage: " in result.output
    assert not ID.search(result.output)


def test_requirement_ids_are_found() -> None:
    assert ID.search("as HTTP-23 says")
    assert ID.search("(LIFE-*)")
    assert not ID.search("UTF-8 and MCP")
