"""Apps made of a folder of Python files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

import mcprev
from helpers.running import run
from mcprev.app.folders import resource

MARKED: Final = """
from pydantic import BaseModel
import mcprev
from mcprev.app.folders import prompt, resource, tool
from ._shared import greeting

class Person(BaseModel):
    name: str

@tool
async def greet(person: Person) -> str:
    return f"{greeting} {person.name}"

@tool(name="count", tags={"admin"})
def counted(ctx: mcprev.Context) -> int:
    return 3

@resource("notes://{name}")
def note(name: str) -> str:
    return name

@prompt(title="Ask")
def ask(what: str) -> str:
    return what
"""
EXPORTED: Final = """
import mcprev
from ..people import greet

async def lifespan(server):
    yield {"open": True}

app = mcprev.App("shop", "1", lifespan=lifespan)

@app.tool
async def buy(item: str, ctx: mcprev.Context) -> str:
    return f"{item} {ctx.lifespan(dict)}"
"""


def written(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def test_the_files_of_a_folder_make_an_app(tmp_path: Path) -> None:
    files = {
        "people.py": MARKED,
        "shops/shop-1.py": EXPORTED,
        "_shared.py": "greeting = 'Hello'",
        "_broken.py": "1 / 0",
        ".hidden/x.py": "1 / 0",
        "README.md": "no code",
    }
    (tmp_path / "inside.py").symlink_to(tmp_path / "people.py")
    with pytest.raises(ValueError, match="'greet' is registered already"):
        mcprev.App.from_folder(written(tmp_path, files), "all", "1")
    (tmp_path / "inside.py").unlink()
    app = mcprev.App.from_folder(tmp_path, "all", "1")

    async def main() -> None:
        async with mcprev.connect(app) as client:
            assert {tool.name async for tool in client.tools()} == {"greet", "count", "buy"}
            assert (await client.call_tool("greet", {"person": {"name": "Ann"}})).text == "Hello Ann"
            assert (await client.call_tool("buy", {"item": "hat"})).text == "hat {'open': True}"
            assert (await client.read_resource("notes://x")).contents[0].to_wire()["text"] == "x"
            [prompt] = (await client.list_prompts()).prompts
            assert (prompt.name, prompt.title) == ("ask", "Ask")
            app.disable(tags={"admin"})
            assert {tool.name async for tool in client.tools()} == {"greet", "buy"}

    run(main())


def test_folders_are_added_to_an_app_and_see_its_visibility(tmp_path: Path) -> None:
    def visible(_: mcprev.Context, tags: frozenset[str]) -> bool:
        return "admin" not in tags

    app = mcprev.App("all", "1", visible=visible)
    app.add_folder(written(tmp_path, {"people.py": MARKED, "_shared.py": "greeting = ''"}))

    async def main() -> None:
        async with mcprev.connect(app) as client:
            assert [tool.name async for tool in client.tools()] == ["greet"]

    run(main())


TOOL: Final = "from mcprev.app.folders import tool\n@tool\ndef find() -> str:\n    return ''\n"
WRONG: Final[Mapping[str, tuple[dict[str, str], str]]] = {
    "raises": ({"a.py": TOOL, "b.py": "1 / 0"}, "^b.py: ZeroDivisionError: division by zero"),
    "no syntax": ({"b.py": "def"}, "^b.py: SyntaxError"),
    "no module": ({"b.py": "import nowhere_at_all"}, "^b.py: ModuleNotFoundError"),
    "exits": ({"b.py": "raise SystemExit(3)"}, "^b.py: SystemExit: 3"),
    "one name twice": ({"a.py": TOOL, "b/c.py": TOOL}, "^b/c.py: ValueError: 'find' is registered already"),
    "no schema": (
        {"a.py": TOOL.replace("()", "(x)", 1)},
        r"^a.py: TypeError: find\(\): .* has no annotation",
    ),
    "an option": ({"a.py": TOOL.replace("@tool", "@tool(nam='x')")}, "^a.py: TypeError: .* no option 'nam'"),
    "a dot": ({"a.b.py": TOOL}, "^a.b.py: the name of a module must not contain a dot"),
    "nothing": ({"a.py": "x = 1"}, "no file with a tool"),
    "options that are lost": (
        {"a.py": "import mcprev\napp = mcprev.App('a', '1', show_errors=True)"},
        "^a.py: ValueError: `show_errors`",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_named_and_nothing_is_registered(case: str, tmp_path: Path) -> None:
    files, why = WRONG[case]
    app = mcprev.App("all", "1")
    with pytest.raises(ValueError, match=why):
        app.add_folder(written(tmp_path, files))
    assert app.registry.tools == {}


@pytest.mark.parametrize("link", ["a.py", "a"])
def test_a_link_out_of_the_folder_is_refused(link: str, tmp_path: Path) -> None:
    written(tmp_path, {"out/x.py": TOOL, "in/b.py": TOOL})
    (tmp_path / "in" / link).symlink_to(tmp_path / "out" / ("x.py" if link.endswith(".py") else ""))
    with pytest.raises(ValueError, match=f"^{link}: it is a link to a file outside of the folder"):
        mcprev.App.from_folder(tmp_path / "in", "all", "1")


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        mcprev.App.from_folder(tmp_path / "nowhere", "all", "1")
    (tmp_path / "x.py").write_text("")
    with pytest.raises(NotADirectoryError):
        mcprev.App.from_folder(tmp_path / "x.py", "all", "1")


def test_what_exists_already_is_refused(tmp_path: Path) -> None:
    app = mcprev.App("all", "1")

    @app.tool
    def find() -> str:
        return "own"

    with pytest.raises(ValueError, match="'find' is registered already"):
        app.add_folder(written(tmp_path, {"a.py": TOOL}))
    with pytest.raises(TypeError, match="is not a URI"):
        resource(find)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
