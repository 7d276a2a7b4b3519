"""The page of limits and defaults, from the signatures, options and constants of the code."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeGuard

import mcprev
from helpers.support import ROOT
from mcprev.bridge.upstreams import Bounds
from mcprev.client.connect_options import ClientOptions
from mcprev.server.options import ServiceOptions
from mcprev.transforms import MontySandbox, tools_by_code
from mcprev.transports.http.server.options import HttpOptions, HttpSettings

RUNTIME: Final = ROOT / "runtime" / "mcprev"
CALLS: Final[dict[str, Callable[..., Any]]] = {
    "mcprev.Server": mcprev.Server,
    "mcprev.Tasks": mcprev.Tasks,
    "mcprev.StateLimits": mcprev.StateLimits,
    "mcprev.MemoryStore": mcprev.MemoryStore,
    "mcprev.MemoryTaskStore": mcprev.MemoryTaskStore,
    "mcprev.LogBounds": mcprev.LogBounds,
    "mcprev.RequestStateSealer": mcprev.RequestStateSealer,
    "mcprev.RateLimit": mcprev.RateLimit,
    "mcprev.connect": mcprev.connect,
    "mcprev.http": mcprev.http,
    "mcprev.stdio": mcprev.stdio,
    "mcprev.ReconnectPolicy": mcprev.ReconnectPolicy,
    "mcprev.ResultCache": mcprev.ResultCache,
    "mcprev.JwtVerifier": mcprev.JwtVerifier,
    "mcprev.IntrospectionVerifier": mcprev.IntrospectionVerifier,
    "mcprev.transforms.tools_by_code": tools_by_code,
    "mcprev.transforms.MontySandbox": MontySandbox,
    "mcprev.bridge.upstreams.Bounds": Bounds,
}
"""What takes limits as arguments, in the order of the page."""
HEAD: Final = """# Limits and defaults

Everything that waits, collects or repeats has a limit. The first table has those that you can set, with their defaults; times are in
seconds, sizes in bytes. The second has those that are fixed. Both are written from the code.

## Limits that you can set

| where | option | default | what it limits |
|---|---|---|---|
"""
FIXED: Final = """
## Fixed limits

| limit | value | what it limits | module |
|---|---|---|---|
"""


def shown(value: float, says: str) -> str:
    """A number as a reader wants it; a size in KiB or MiB, if the text is about one."""
    if isinstance(value, float):
        return f"{value:,g}"
    size = re.search("byte|size|memory|length|MiB", says)
    for unit, name in ((1024 * 1024, "MiB"), (1024, "KiB")) if size else ():
        if value >= max(unit, 16 * 1024) and value % unit == 0:
            return f"{value // unit:,} {name}"
    return f"{value:,}"


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a default is a limit: a number above 0, and not True."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def cell(text: str) -> str:
    """A text in a cell of a table: the first sentence, on one line."""
    line = " ".join(text.split()).replace("|", "\\|")
    first = re.split(r"(?<=[.]) (?=[A-Z`])", line)[0].rstrip(".")
    return re.sub("^(?:is|are) (.)", lambda found: found[1].upper(), first)


def members(kind: type) -> dict[str, str]:
    """What the source of a class says of each of its annotated names, in the string below it."""
    (made,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(made, ast.ClassDef)
    return documented(made.body)


def documented(body: list[ast.stmt]) -> dict[str, str]:
    """The string below each annotated name of a class or module."""
    return {
        name.target.id: text.value.value
        for name, text in itertools.pairwise(body)
        if isinstance(name, ast.AnnAssign)
        and isinstance(name.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def arguments(call: Callable[..., Any]) -> dict[str, str]:
    """What a docstring says of each argument: the items of its list, or the fields of a dataclass."""
    made = call.__init__ if inspect.isclass(call) else call
    text = "\n".join(inspect.getdoc(each) or "" for each in (call, made))
    found = {
        name: " ".join(said.split())
        for names, said in re.findall(
            r"^- ((?:`\w+`(?:, | and )?)+) (.*?)(?=^- |^\S|\Z)", text, re.MULTILINE | re.DOTALL
        )
        for name in re.findall(r"`(\w+)`", names)
    }
    has_fields = inspect.isclass(call) and (dataclasses.is_dataclass(call) or hasattr(call, "_fields"))
    fields = members(call) if inspect.isclass(call) and has_fields else {}
    mentioned = {
        name: sentence
        for part in re.split(r"\n- |\n\n|^- ", text)
        for sentence in re.split(r"(?<=[.]) (?=[A-Z`])", " ".join(part.split()))
        for name in re.findall(r"`(\w+)`", sentence)
    }
    return mentioned | fields | found


def settable() -> Iterator[str]:
    """The rows of limits that are options."""
    said = members(HttpOptions)
    for field in dataclasses.fields(HttpSettings):
        if field.name in said and is_number(field.default):
            yield row("`http=` of `mcprev.App`", field.name, field.default, said[field.name])
    typed: dict[object, dict[str, str]] = {
        mcprev.Server: members(ServiceOptions),
        mcprev.connect: members(ClientOptions),
    }
    for where, call in CALLS.items():
        told = arguments(call) | typed.get(call, {})
        for parameter in inspect.signature(call).parameters.values():
            if is_number(parameter.default):
                yield row(f"`{where}`", parameter.name, parameter.default, told[parameter.name])


def row(where: str, name: str, value: float, says: str) -> str:
    """A row of the first table."""
    return f"| {where} | `{name}` | {shown(value, says)} | {cell(says)} |"


def fixed() -> Iterator[str]:
    """The rows of the constants `MAX_...` that have a text of their own."""
    for path in sorted(RUNTIME.rglob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        said = documented(body)
        for each in body:
            if not (isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.value):
                continue
            name = each.target.id
            if name.startswith("MAX_") and name in said and (value := number(each.value)) is not None:
                module = path.relative_to(RUNTIME).with_suffix("").as_posix()
                yield f"| `{name}` | {shown(value, said[name])} | {cell(said[name])} | `{module}` |"


def number(node: ast.expr) -> float | None:
    """The number that an expression of numbers is, such as 4 * 1024; None for another one."""
    if isinstance(node, ast.Constant) and is_number(node.value):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = number(node.left), number(node.right)
        return None if left is None or right is None else left * right
    return None


def limits_page() -> str:
    """The whole page."""
    return HEAD + "\n".join(settable()) + "\n" + FIXED + "\n".join(fixed()) + "\n"
