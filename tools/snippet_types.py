"""Checks that mypy and pyright, both strict, accept every Python program of README.md and docs/ as it stands there.

Each section of a page is a module; one process of each checker reads all of them. Packages that a page generates are
generated. Unused variables and functions are not looked for: a reader's program goes on.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

from helpers.support import ROOT
from helpers.vendor_schema import snippets, vendor_schema

PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK: Final = re.compile(
    r'^```python(?: title="(?P<file>[\w.]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL
)
SECTION: Final = re.compile(r"^## ", re.MULTILINE)
SECTIONS: Final = {"errors": re.compile(r"^##+ ", re.MULTILINE)}
"""Where a program begins on pages where that is not each heading of the second level."""
PLACE: Final = re.compile(r"^\s*\S*?(\w+__\d+\.py)(:\d+)(?::\d+)?(?:: | - )error: ", re.MULTILINE)
"""How a line of either checker about a program begins."""
GENERATED: Final = ("acme-types", "forecast-types")
"""The projects that pages generate; types.md writes a package without one."""
MYPY: Final = "[mypy]\nstrict = true\nenable_error_code = redundant-expr, truthy-bool, ignore-without-code\n"
PYRIGHT: Final = {
    "typeCheckingMode": "strict",
    "reportDeprecated": False,
    "reportUnusedVariable": False,
    "reportUnusedFunction": False,
    "reportUnusedClass": False,
}


def programs(page: Path) -> Iterator[tuple[int, str, str | None]]:
    """The programs of a page, each on the lines of the page, with the number of its line and the name of its file.

    The blocks of a section belong together, but a block with the name of a file is that file.
    """
    text = page.read_text(encoding="utf-8")
    starts = [0, *(head.start() for head in SECTIONS.get(page.stem, SECTION).finditer(text)), len(text)]
    for start, end in pairwise(starts):
        together, first = "", 0
        for block in BLOCK.finditer(text, start, end):
            line = text.count("\n", 0, block.start("text"))
            if block["file"]:
                yield line, "\n" * line + block["text"], block["file"]
            else:
                together += "\n" * (line - together.count("\n")) + block["text"]
                first = first or line
        if together:
            yield first, in_function(together), None


def in_function(program: str) -> str:
    """A program as it stands there; on the same lines in a function if it awaits outside of any."""
    try:
        compile(program, "program", "exec")
    except SyntaxError:
        body = program.lstrip("\n")
        above = "\n" * (len(program) - len(body) - 1)
        return f"{above}async def program() -> None:\n{textwrap.indent(body, '    ')}"
    return program


def write(folder: Path) -> dict[str, str]:
    """Write all programs into a folder; return the page of each file."""
    found: dict[str, str] = {}
    for page in PAGES:
        for line, program, file in programs(page):
            name = f"{page.stem.replace('-', '_')}__{line}.py"
            found[name] = str(page.relative_to(ROOT))
            (folder / name).write_text(program, encoding="utf-8")
            if file is not None:
                (folder / file).write_text(program, encoding="utf-8")  # what other files of the page import
    return found


def generate(folder: Path) -> None:
    """Run the commands of pages that generate the packages of their programs."""
    extensions, types = (
        (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("extensions", "types")
    )
    (folder / "acme.ts").write_text(vendor_schema(), encoding="utf-8")
    (folder / "forecast.ts").write_text(block(extensions, "typescript"), encoding="utf-8")
    for commands in (snippets("sh")[1], block(extensions, "sh"), block(types, "sh")):
        words = shlex.split(commands.splitlines()[0], comments=True)
        subprocess.run(
            [sys.executable, "-m", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT / "codegen")},
        )  # fmt: skip


def block(text: str, language: str) -> str:
    """The first block of a page in a language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def refused(folder: Path, pages: Mapping[str, str]) -> list[str]:
    """What the checkers refuse, with page and line."""
    search = [
        str(path) for path in (ROOT / "runtime", ROOT / "generated", *(folder / each for each in GENERATED))
    ]
    (folder / "mypy.ini").write_text(MYPY, encoding="utf-8")
    settings = {
        **PYRIGHT,
        "include": sorted(pages),
        "extraPaths": search,
        "venvPath": str(ROOT),
        "venv": ".venv",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    tools = Path(sys.executable).parent
    cache = ROOT / ".mypy_cache" / "snippets"
    lines: list[str] = []
    commands: dict[str, list[str | Path]] = {
        "mypy": [tools / "mypy", "--config-file=mypy.ini", f"--cache-dir={cache}", *sorted(pages)],
        "pyright": [tools / "pyright"],
    }
    for name, command in commands.items():
        run = subprocess.run(
            command, cwd=folder, env={**os.environ, "MYPYPATH": os.pathsep.join(search)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        for place, line in ((PLACE.match(line), line) for line in run.stdout.splitlines()):
            if place is not None:
                lines.append(f"{pages[place[1]]}{place[2]}: {name}: {line[place.end() :]}")
        if run.returncode and not lines:
            lines.append(f"{name} failed: {run.stdout}{run.stderr}")
    return lines


def main() -> int:
    """Print what is refused; return 1 if anything is."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        pages = write(folder)
        generate(folder)
        lines = refused(folder, pages)
    print(
        *lines, f"{len(pages)} programs of {len(set(pages.values()))} pages, {len(lines)} refused", sep="\n"
    )
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
