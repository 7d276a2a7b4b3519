"""The public surface as text, to compare with that of the last release: what a user's code can name, call and override.

`python tools/public_surface.py` writes tools/public_surface.txt; it is run for a release, and only then. Each line is a
name, of a function or method with its parameters: `name` is required, `name=` has a default, `*` begins those that are
passed by name, and the members of a typed `**options` stand for it.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import mcprev
from mcprev.app.options import AppOptions, EntryOptions, ResourceOptions, ToolOptions
from mcprev.auth.authorization_server.options import LoginOptions
from mcprev.auth.client.credentials import AuthOptions
from mcprev.client.options import Options
from mcprev.transports.http.server.options import HttpOptions

BASELINE: Final = Path(__file__).with_suffix(".txt")
OPTIONS: Final = (
    AppOptions,
    AuthOptions,
    EntryOptions,
    HttpOptions,
    LoginOptions,
    Options,
    ResourceOptions,
    ToolOptions,
)
"""Those that modules import for type checkers only."""


def surface() -> dict[str, str]:
    """Each public name with its parameters, or the empty text where it has none."""
    found: dict[str, str] = {}
    for name in sorted(name for names in mcprev._HOMES.values() for name in names):
        value = getattr(mcprev, name)
        found[name] = parameters(value)
        if inspect.isclass(value):
            for member, function in members(value):
                found[f"{name}.{member}"] = parameters(function)
    return found


def members(owner: type) -> Iterator[tuple[str, Any]]:
    """The public members of a class that we have written, those of its bases too."""
    for name in sorted(dir(owner)):
        home = next((base for base in owner.__mro__ if name in vars(base)), None)
        if home is not None and not name.startswith("_") and home.__module__.startswith("mcprev"):
            value = vars(home)[name]
            yield name, getattr(value, "__func__", value)


def parameters(value: Any) -> str:
    """The parameters of what can be called, in one line."""
    if not callable(value):
        return ""
    try:
        listed = [*inspect.signature(value).parameters.values()]
        if inspect.isclass(value) and "__init__" in vars(value):
            # Not what pydantic says of the class, which changes when its models are complete.
            _, *listed = inspect.signature(vars(value)["__init__"]).parameters.values()
    except (TypeError, ValueError):
        return ""
    if [each.kind for each in listed] == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        return ""  # a class without a constructor of its own
    parts: list[str] = []
    by_name = False
    for each in listed:
        default = "" if each.default is each.empty else "="
        match each.kind:
            case each.VAR_POSITIONAL:
                by_name = True
                parts.append(f"*{each.name}")
            case each.KEYWORD_ONLY:
                parts += [*([] if by_name else ["*"]), each.name + default]
                by_name = True
            case each.VAR_KEYWORD:
                options = options_of(value, each)
                parts += [*(["*"] if options and not by_name else []), *(options or [f"**{each.name}"])]
            case _:
                parts.append(each.name + default)
    return f"({', '.join(parts)})"


def options_of(function: Any, each: inspect.Parameter) -> list[str]:
    """The members of `**options: Unpack[Options]`, wherever `Options` is defined."""
    found = re.fullmatch(r"Unpack\[(\w+)\]", str(each.annotation))
    if found is None:
        return []
    function = function.__init__ if inspect.isclass(function) else function
    known = {one.__name__: one for one in OPTIONS} | vars(inspect.getmodule(function))
    options = known[found[1]]
    return sorted([*options.__required_keys__, *(f"{name}=" for name in options.__optional_keys__)])


def text(found: Mapping[str, str]) -> str:
    return "".join(f"{name}{arguments}\n" for name, arguments in found.items())


def read(path: Path = BASELINE) -> dict[str, str]:
    """The surface that was written for the last release."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {name: f"{bracket}{rest}" for name, bracket, rest in (line.partition("(") for line in lines)}


def breaks(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """The names whose users may have to change their code."""
    return [name for name, had in old.items() if name not in new or is_broken(had, new[name])]


def is_broken(old: str, new: str) -> bool:
    """Whether calls that the old parameters allow fail with the new ones."""
    if not old:
        return False
    had, has = (each.strip("()").split(", ") if each.strip("()") else [] for each in (old, new))
    if any(part.startswith("**") for part in has):
        return False
    first, rest = divided(had)
    now_first, now_rest = divided(has)
    names = [part.rstrip("=") for part in now_first]
    places = [part.rstrip("=") for part in first]
    accepted = {*names, *(part.rstrip("=") for part in now_rest)}
    required = {part for part in (*now_first, *now_rest) if not part.endswith("=")}
    return (
        names[: len(places)] != places
        or not {part.rstrip("=") for part in rest} <= accepted
        or not required <= {*first, *rest}
    )


def divided(parts: list[str]) -> tuple[list[str], list[str]]:
    """The parameters that can be passed by place, and those that are passed by name only."""
    star = next((number for number, part in enumerate(parts) if part.startswith("*")), len(parts))
    return parts[:star], [part for part in parts[star:] if not part.startswith("*")]


if __name__ == "__main__":
    BASELINE.write_text(text(surface()), encoding="utf-8")
    sys.stdout.write(f"{BASELINE.name} is the surface of {mcprev.__version__}\n")
