"""The revision that docs/new-revision.md shows from import to green: its files as the page has them, and how they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rehearsal import recipe
from rehearsal.scratch import Failed, Scratch

PAGE: Final = Path("docs") / "new-revision.md"
SECTION: Final = re.compile(r"(?ms)^## One revision from import to green\n(.*?)(?=^## )")
_BLOCK: Final = re.compile(r"(?ms)^```(\w+)\n(.*?)^```$")
REVISION: Final = "2027-01-01"
_BEFORE: Final = re.compile(r"`(schema/([\d-]+)/schema\.ts)`")


def before(text: str) -> tuple[str, str]:
    """The file of the revision before that of the page, and its name."""
    found = _BEFORE.search(text, text.index("## One revision"))
    if found is None:
        raise Failed(f"{PAGE} does not say what it changes")
    return found[1], found[2]


def blocks(text: str) -> list[tuple[str, str]]:
    """The language and the text of each block of the section."""
    section = SECTION.search(text)
    if section is None:
        raise Failed(f"{PAGE} has no section with a whole revision")
    return _BLOCK.findall(section[1])


def edits(block: str) -> tuple[str, list[tuple[str, str]]]:
    """The file of a diff, and what each of its parts replaces by what; one that replaces nothing stands at the end."""
    name, _, rest = block.partition("\n")
    found: list[tuple[str, str]] = []
    for part in rest.split("@@\n"):
        lines = part.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        found.append((old, "".join(line[1:] for line in lines if line[0] in " +")))
    return name.strip(), found


def edited(text: str, parts: list[tuple[str, str]], name: str) -> str:
    """A file with the parts of a diff. Raises `Failed` for a part that does not stand there once."""
    for old, new in parts:
        if not old:
            text += f"\n{new}"
            continue
        # What stands within a line has a space in front in the diff.
        inner = [(old, new)] if text.count(old) == 1 else [(old.strip("\n"), new.strip("\n"))]
        if text.count(inner[0][0]) != 1:
            raise Failed(f"{PAGE}: {name} has {text.count(old)} times\n{old}")
        text = text.replace(*inner[0])
    return text


def written(text: str, files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each file that the page writes by hand, with its text; `files` are those that are there."""
    for language, block in blocks(text):
        if language == "diff":
            name, parts = edits(block)
            source = before(text)[0] if name.startswith("schema.ts") else name
            yield name, edited(files[source], parts, name)
        elif language == "python":
            name, _, module = block.partition("\n")
            yield name.removeprefix("# "), module


def walk(scratch: Scratch) -> None:
    """Do what the page says. Raises `Failed` where something is left to decide, or fails."""
    text = scratch.path(str(PAGE)).read_text(encoding="utf-8")
    names = [edits(block)[0] for language, block in blocks(text) if language == "diff"][1:]
    there = {name: scratch.path(name).read_text(encoding="utf-8") for name in [*names, before(text)[0]]}
    made = dict(written(text, there))
    source = scratch.root.parent / "schema.ts"
    source.write_text(made.pop(next(iter(made))), encoding="utf-8")
    commands = next(block for language, block in blocks(text) if language == "sh")
    for line in commands.splitlines():
        words = [str(source) if word == "~/schema.ts" else word for word in line.split()]
        scratch.must(scratch.run(*words), line)
    late = {name: made.pop(name) for name in [*made] if name != "schema/overlay.toml"}
    for files in (made, late):
        with scratch.by_hand():
            for name, content in files.items():
                scratch.path(name).write_text(content, encoding="utf-8")
        listed = scratch.must(scratch.run("make", "generate"), "make generate")
        for name in late:
            if (name in listed) == (files is late):
                raise Failed(
                    f"{name}, which the page writes by hand, is {'still' if files is late else 'not'} in the list:\n{listed}"
                )
    if "to decide:" in (listed := scratch.must(scratch.mcprev("list"), "mcprev list")):
        raise Failed(f"something is left to decide:\n{listed}")
    if (spoken := recipe.served(scratch))[0] != REVISION:
        raise Failed(f"with everything decided the example server speaks {spoken}")
