"""docs/names.md has every public name of FastMCP and of the official SDK, as their installed packages export them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Final

import pytest

import names_page
from interop.compared import LIBRARIES
from mcprev_types.latest import models

MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "FastMCP": (
        "fastmcp", "fastmcp.client", "fastmcp.client.transports", "fastmcp.client.auth", "fastmcp.server", "fastmcp.server.auth",
        "fastmcp.server.middleware", "fastmcp.server.transforms", "fastmcp.server.providers", "fastmcp.server.dependencies",
        "fastmcp.server.elicitation", "fastmcp.server.extensions", "fastmcp.dependencies", "fastmcp.tools", "fastmcp.resources",
        "fastmcp.prompts", "fastmcp.apps", "fastmcp.exceptions", "fastmcp.server.middleware.caching",
        "fastmcp.server.middleware.error_handling", "fastmcp.server.middleware.logging", "fastmcp.server.middleware.rate_limiting",
        "fastmcp.server.middleware.timing", "fastmcp.server.event_store", "fastmcp.server.lifespan", "fastmcp.utilities.types",
    ),
    "mcp": (
        "mcp", "mcp.client", "mcp.client.auth", "mcp.client.caching", "mcp.server", "mcp.server.mcpserver",
        "mcp.server.mcpserver.exceptions", "mcp.server.caching", "mcp.server.subscriptions", "mcp.server.lowlevel",
    ),
}  # fmt: skip
CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    "FastMCP": ("fastmcp.FastMCP", "fastmcp.Client", "fastmcp.Context"),
    "mcp": (
        "mcp.server.mcpserver.MCPServer", "mcp.server.mcpserver.Context", "mcp.server.lowlevel.Server", "mcp.Client",
        "mcp.ClientSession", "mcp.ClientSessionGroup",
    ),
}  # fmt: skip
LIST: Final = """
import importlib, inspect, json, sys, warnings
warnings.simplefilter("ignore")
modules, classes = json.load(sys.stdin)
found = []
for path in modules:
    module = importlib.import_module(path)
    own = lambda value: getattr(value, "__module__", None) == path and (inspect.isclass(value) or inspect.isfunction(value))
    found += getattr(module, "__all__", [name for name, value in vars(module).items() if name[0] != "_" and own(value)])
for path in classes:
    module, _, name = path.rpartition(".")
    owner = getattr(importlib.import_module(module), name)
    for each in dir(owner):
        static = inspect.getattr_static(owner, each)
        home = next((base for base in owner.__mro__ if each in vars(base)), object)
        if each[:1] != "_" and each[:6] != "model_" and (callable(getattr(owner, each, None)) or isinstance(static, property)):
            if home.__module__.partition(".")[0] in ("fastmcp", "mcp"):
                found.append(f"{name}.{each}")
print(json.dumps(sorted(set(found))))
"""
"""Prints what an environment exports: names of `__all__`, or what a module without it defines, and members of classes."""


@pytest.mark.parametrize("whose", MODULES)
def test_every_public_name_of_another_library_stands_in_the_tables(whose: str) -> None:
    python = LIBRARIES[whose.lower()]
    if not python.exists():
        pytest.skip(f"{python} is not there: make interop")
    done = subprocess.run(
        [str(python), "-c", LIST],
        input=json.dumps([MODULES[whose], CLASSES[whose]]),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    exported: list[str] = json.loads(done.stdout)
    listed = {
        name
        for row in names_page.rows(names_page.PAGE.read_text(encoding="utf-8"))
        if row.whose == whose
        for name in row.theirs
    }
    assert len(exported) > 200
    missing = [name for name in exported if name not in listed and not hasattr(models, name)]
    assert missing == []
    assert sorted(name for name in listed if name not in exported) == []
