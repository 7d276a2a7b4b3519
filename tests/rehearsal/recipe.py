"""The recipe of docs/new-revision.md, walked: a draft is changed; a revision is imported, generated, decided about and served; then the
oldest is removed.

Every step is checked for what it promises. As long as anything is missing, the server goes on with the revisions that
it knows, and what is missing is named with the file that it belongs into.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Final

from mcprev_codegen.typescript import reader as typescript
from rehearsal.mutations import Decision, Mutation, Plan
from rehearsal.scratch import Done, Failed, Scratch

TABLE: Final = "runtime/mcprev/revisions.py"
OVERLAY: Final = "schema/overlay.toml"
DESCRIPTIONS: Final = "schema/descriptions.toml"
DRAFT: Final = "draft"
COMMIT: Final = "0123456789" * 4
"""What stands for upstream's commit."""
_SERVE: Final = """\
import asyncio, json, sys
import mcprev
from mcprev.revisions import DEFAULT

async def spoken(mode):
    server, bounds = mcprev.stdio(sys.executable, "examples/server.py"), {"probe_timeout": 60, "open_timeout": 60}
    async with mcprev.connect(server, mode=mode, **bounds) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2}, timeout=60)
        assert result.content[0].text == "3", result
        return client.revision

async def main():
    modes = ["auto", *(row.name for row in DEFAULT if row.handshake)] if sys.argv[1:] else ["auto"]
    print(json.dumps(await asyncio.gather(*map(spoken, modes))))

asyncio.run(main())
"""
"""A server of the example's, started and asked to add, at each revision if there is an argument; prints what was spoken."""


def step_module(revision: str) -> str:
    """Where the rules between a revision and the one before stand."""
    return f"runtime/mcprev/conversion/step_{revision.replace('-', '_')}.py"


def served(scratch: Scratch, *, newest: bool = False) -> list[str]:
    """Start the example server at each revision that is offered and call its tool; the revisions that were spoken.

    The newest comes first, and is the only one on request. Raises `Failed` when a call does not come back as it should.
    """
    which = () if newest else ("all",)
    done = scratch.run(scratch.python, "-W", "error", "-c", _SERVE, *which, bound=120)
    text = scratch.must(done, "talking to the example server")
    spoken: list[str] = json.loads(text.strip().splitlines()[-1])
    return spoken


def names(done: Done, what: str, *files: str) -> None:
    """Raise `Failed` unless an output names some files."""
    silent = [file for file in files if file not in done.text]
    if silent:
        raise Failed(f"{what}: nothing names {', '.join(silent)}:\n{done.text}")


# -- a draft -----------------------------------------------------------------------------------------------


def draft(scratch: Scratch, plan: Plan, newest: str) -> None:
    """Change the draft alone, and decide what it leaves open. Raises `Failed` where a promise breaks."""
    before = served(scratch)
    step = step_module(DRAFT)
    imported = scratch.mcprev(
        "import", str(_upstream(scratch, plan)), "--revision", DRAFT, "--commit", COMMIT, "--repin"
    )
    scratch.must(imported, "mcprev import of the draft")
    names(imported, "mcprev import of the draft", step)
    with scratch.by_hand():
        _write_facts(scratch, plan, DRAFT)
    scratch.must(scratch.run("make", "generate"), "make generate, with a changed draft")
    names(scratch.mcprev("list"), "mcprev list, with an undecided draft", *_places(scratch, step))
    if (spoken := served(scratch)) != before:
        raise Failed(f"with an undecided draft the server speaks {spoken}")
    with scratch.by_hand():
        _write_step(scratch, plan, DRAFT)
    scratch.must(scratch.mcprev("generate", "--check"), "mcprev generate --check, with a changed draft")
    _nothing_left(scratch)
    if (spoken := served(scratch)) != before or before[0] != newest:
        raise Failed(f"with a changed draft the server speaks {spoken}")


# -- adding ------------------------------------------------------------------------------------------------


def add(scratch: Scratch, plan: Plan, newest: str) -> None:
    """Bring a revision in, from its schema.ts to a server that speaks it. Raises `Failed` where a promise breaks."""
    before = served(scratch)
    if before[0] != newest:
        raise Failed(f"the server speaks {before[0]} and not {newest}, the newest revision, to begin with")
    step = step_module(plan.revision)

    def goes_on(when: str) -> None:
        if (spoken := served(scratch, newest=True)) != [newest]:
            raise Failed(f"{when}: the server speaks {spoken} and no longer {newest}")

    source = _upstream(scratch, plan)
    imported = scratch.mcprev("import", str(source), "--revision", plan.revision, "--commit", COMMIT)
    scratch.must(imported, "mcprev import")
    names(imported, "mcprev import", TABLE, step)
    # Upstream's draft is the new revision on the day that it appears.
    draft = scratch.mcprev("import", str(source), "--revision", DRAFT, "--commit", COMMIT, "--repin")
    scratch.must(draft, "mcprev import of the draft")
    goes_on("imported only")

    with scratch.by_hand():
        _write_facts(scratch, plan, plan.revision)
    scratch.must(scratch.run("make", "generate"), "make generate")
    goes_on("with neither row nor step")
    _refused(scratch, plan.revision, TABLE)
    listed = scratch.mcprev("list")
    names(listed, "mcprev list, with neither row nor step", TABLE, *_places(scratch, step))

    with scratch.by_hand():
        _write_row(scratch, plan.revision, newest)
    goes_on("with an undecided step")
    _refused(scratch, plan.revision, step)
    with _away(scratch, step):
        goes_on("without the step")
        names(scratch.mcprev("list"), "mcprev list, without the step", step)
        _refused(scratch, plan.revision, step)

    with scratch.by_hand():
        _write_step(scratch, plan, plan.revision)
    with _put_back(scratch, TABLE):
        goes_on("without the row")
        names(scratch.mcprev("list"), "mcprev list, without the row", TABLE)
    scratch.must(scratch.run("make", "generate"), "make generate, with everything decided")
    scratch.must(scratch.mcprev("generate", "--check"), "mcprev generate --check, with everything decided")
    _nothing_left(scratch)
    if (spoken := served(scratch)) != [plan.revision, *before[1:]]:
        raise Failed(f"with everything decided the server speaks {spoken}")


def _upstream(scratch: Scratch, plan: Plan) -> Path:
    """The schema.ts of a plan, as a file outside the copy."""
    source = scratch.root.parent / "upstream" / "schema.ts"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(plan.text, encoding="utf-8")
    return source


def _nothing_left(scratch: Scratch) -> None:
    if "to decide:" in (listed := scratch.mcprev("list")).text:
        raise Failed(f"mcprev list still has something to decide:\n{listed.text}")


def _places(scratch: Scratch, step: str) -> list[str]:
    """Where the skeleton of a step has its undecided members, as `file:line`."""
    lines = scratch.path(step).read_text(encoding="utf-8").split("\n")
    return [f"{step}:{number}" for number, line in enumerate(lines, 1) if line.startswith(" " * 8)]


def _refused(scratch: Scratch, revision: str, file: str) -> None:
    """A revision that is not complete cannot be asked for, and the error names the file to write."""
    done = scratch.run(
        *(scratch.python, "-c"),
        f"from mcprev.revisions import revision_named; revision_named({revision!r})",
    )
    if not done.code:
        raise Failed(f"{revision} can be used, though {file} is not complete")
    error = done.text.strip().rpartition("\n")[2]
    if not error.startswith("mcprev.errors.RevisionError: ") or file not in error:
        raise Failed(f"asking for {revision}: the error does not name {file}:\n{done.text}")


@contextmanager
def _away(scratch: Scratch, name: str) -> Generator[None]:
    """A file is not there for a while."""
    path = scratch.path(name)
    aside = path.with_suffix(".aside")
    path.rename(aside)
    yield
    aside.rename(path)


@contextmanager
def _put_back(scratch: Scratch, name: str) -> Generator[None]:
    """A file is for a while what it was before anything was written by hand."""
    path = scratch.path(name)
    text = path.read_text(encoding="utf-8")
    path.write_text(scratch.must(scratch.run("git", "show", f"HEAD:{name}"), "git show"), encoding="utf-8")
    yield
    path.write_text(text, encoding="utf-8")


def _write_facts(scratch: Scratch, plan: Plan, revision: str) -> None:
    for mutation in plan.mutations:
        write_overlay(scratch, mutation, revision)
    _write_descriptions(scratch, plan.mutations)


def write_overlay(scratch: Scratch, mutation: Mutation, revision: str) -> None:
    """Append the entries of a mutation to the overlay."""
    for pointer, expected, new in mutation.overlay:
        scratch.append(
            OVERLAY,
            f'\n[[entry]]\npointer = "{pointer}"\nsince = "{revision}"\n'
            f"expected = {json.dumps(expected)}\nnew = {json.dumps(new)}\n"
            f'why = "{mutation.kind}: what the specification says of {mutation.subject}."\n',
        )


def _write_descriptions(scratch: Scratch, mutations: tuple[Mutation, ...]) -> None:
    """Texts of new types at the end of the file, texts of new members in the table of their type.

    Members whose name has a text that all types share get none of their own.
    """
    text = scratch.path(DESCRIPTIONS).read_text(encoding="utf-8")
    shared = tomllib.loads(text)["fields"].keys()
    fields: dict[str, dict[str, str]] = defaultdict(dict)
    for place, said in chain.from_iterable(m.fields.items() for m in mutations):
        owner, _, member = place.partition(".")
        if member not in shared:
            fields[owner][member] = said
    for name, said in chain.from_iterable(m.types.items() for m in mutations):
        own = "".join(f"fields.{member} = {json.dumps(s)}\n" for member, s in fields.pop(name, {}).items())
        scratch.append(DESCRIPTIONS, f"\n[types.{name}]\ndoc = {json.dumps(said)}\n{own}")
    for name, members in fields.items():
        own = "".join(f"{member} = {json.dumps(s)}\n" for member, s in members.items())
        head = f"[types.{name}.fields]\n"
        if head in text:
            scratch.edit(DESCRIPTIONS, head, head + own)
        else:
            scratch.append(DESCRIPTIONS, f"\n{head}{own}")


def _write_row(scratch: Scratch, revision: str, previous: str) -> None:
    text = scratch.path(TABLE).read_text(encoding="utf-8")
    found = re.search(
        rf'^(_\w+): Final = (?:Revision\(\n    |replace\(\w+, )name="{previous}"', text, re.MULTILINE
    )
    if found is None:
        raise Failed(f"{TABLE} has no row of {previous}")
    above = found[1]
    rows = re.search(r"^_ROWS: Final.*\n", text, re.MULTILINE)
    if rows is None:
        raise Failed(f"{TABLE} has no list of the rows")
    row = f'_NEW: Final = replace({above}, name="{revision}")\n'
    scratch.edit(TABLE, rows[0], row + rows[0].replace(f"{above})", f"{above}, _NEW)"))


_NEEDED: Final = ("as_list",)
"""What rules of the mutations use beside the types of their signatures."""


def _write_step(scratch: Scratch, plan: Plan, revision: str) -> None:
    """Give every entry of the skeleton its rule, and take the entries out."""
    path = scratch.path(step_module(revision))
    text = path.read_text(encoding="utf-8")
    decisions = [d for m in plan.mutations for d in m.decisions]
    code = "\n\n".join(d.code for d in decisions if d.code)
    used = ["ConversionContext", "JsonObject", "Rules", *(name for name in _NEEDED if f"{name}(" in code)]
    head, found, _ = text.partition("from mcprev.conversion.rules import Rules\n")
    if not found:
        raise Failed(f"{path.name} is no skeleton:\n{text}")
    if "quote(" in code:
        head = head.replace(
            "from typing import Final\n", "from typing import Final\nfrom urllib.parse import quote\n"
        )
    path.write_text(
        f"{head}from mcprev.conversion.rules import {', '.join(used)}\n\n\n{code}\n\n"
        f"DOWN: Final = {rules(decisions, 'DOWN')}\nUP: Final = {rules(decisions, 'UP')}\n",
        encoding="utf-8",
    )
    scratch.must(
        scratch.run(scratch.python, "-m", "black", "--quiet", str(path)), "formatting the step module"
    )


def rules(decisions: Sequence[Decision], direction: str) -> str:
    """The text of the rules of one direction."""
    parts: dict[str, list[str]] = defaultdict(list)
    for decision in decisions:
        if decision.direction == direction:
            parts[decision.part].append(f'"{decision.key}": {decision.rule}')
    return "Rules(" + ", ".join(f"{part}={{{', '.join(entries)}}}" for part, entries in parts.items()) + ")"


# -- removing ----------------------------------------------------------------------------------------------


def remove(scratch: Scratch, oldest: str, second: str) -> None:
    """Take the oldest revision out: the recipe backwards. Raises `Failed` where a promise breaks."""
    rest = [name for name in served(scratch) if name != oldest]
    step = step_module(second)
    scratch.must(scratch.mcprev("unpin", oldest), "mcprev unpin")
    made = scratch.run("make", "generate")
    scratch.must(made, f"make generate, without the pin of {oldest}")
    names(made, "make generate, without the pin", TABLE, step)
    broken = scratch.run(scratch.python, "-c", _SERVE)
    if broken.code:
        names(broken, "with a row and no package", TABLE, oldest)
    with scratch.by_hand():
        _delete_row(scratch, oldest)
    names(scratch.mcprev("list"), "mcprev list, without the row", step)
    if (spoken := served(scratch)) != rest:
        raise Failed(f"without the row of {oldest} the server speaks {spoken}")
    with scratch.by_hand():
        scratch.path(step).unlink()
        _delete_entries(scratch, OVERLAY, "[[entry]]\n", f'until = "{oldest}"')
        _delete_entries(scratch, DESCRIPTIONS, "\n[", f'revisions."{oldest}".')
        for name in _undeclared(scratch):
            _delete_entries(scratch, DESCRIPTIONS, "\n[", f"types.{name}]")
            _delete_entries(scratch, DESCRIPTIONS, "\n[", f"types.{name}.")
    scratch.must(scratch.mcprev("generate", "--check"), f"mcprev generate --check, without {oldest}")
    _nothing_left(scratch)
    if (spoken := served(scratch)) != rest:
        raise Failed(f"without {oldest} the server speaks {spoken}")


def _undeclared(scratch: Scratch) -> set[str]:
    """The types that are described and that no pinned revision declares."""
    contracts = scratch.path("schema").glob("*/schema.ts")
    modules = [typescript.parse(path.read_text(encoding="utf-8"), str(path)) for path in contracts]
    described: dict[str, object] = tomllib.loads(scratch.path(DESCRIPTIONS).read_text(encoding="utf-8"))[
        "types"
    ]
    return described.keys() - set(chain.from_iterable(module.types for module in modules))


def _delete_entries(scratch: Scratch, name: str, start: str, about: str) -> None:
    """Delete the tables of a file in which something is said."""
    path = scratch.path(name)
    head, *tables = path.read_text(encoding="utf-8").split(start)
    path.write_text(start.join([head, *(table for table in tables if about not in table)]), encoding="utf-8")


def _delete_row(scratch: Scratch, revision: str) -> None:
    path = scratch.path(TABLE)
    text = path.read_text(encoding="utf-8")
    row = re.search(
        rf'^(_\w+): Final = Revision\(\n    name="{revision}".*?^\)\n', text, re.MULTILINE | re.DOTALL
    )
    if row is None:
        raise Failed(f"{TABLE} has no row of {revision}")
    path.write_text(re.sub(rf"\b{row[1]}, ", "", text.replace(row[0], "")), encoding="utf-8")
