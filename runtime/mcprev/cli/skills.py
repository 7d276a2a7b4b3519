"""`mcprev skill`: the skills of a server, their files checked against their digests, and installing one for a host.

Uses the public client API. What a server says is printed without control characters, and as the server's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mcprev.cli.call import no_more, split_optional
from mcprev.cli.command_target import TargetCommand
from mcprev.cli.exit_codes import ExitCode, Failure
from mcprev.cli.options import words_argument
from mcprev.cli.rendering import Renderer
from mcprev.cli.server_use import server_use_of, session_options
from mcprev.cli.table import clean, echo, echo_json, echo_table
from mcprev.cli.terminal_input import TerminalInput

if TYPE_CHECKING:
    from mcprev.client.client import Client
    from mcprev.extensions.skills.client import HeldSkill, SkillFile
    from mcprev.extensions.skills.installing import SkillInstallation

_DYNAMIC: Final = "dynamic"


@click.command("skill", cls=TargetCommand)
@session_options
@click.option("--verify", is_flag=True, help="Read all files, and check their digests and sizes.")
@click.option(
    "--out", metavar="FILE", type=click.Path(dir_okay=False), help="Write the file of the skill to FILE."
)
@click.option(
    "--install", metavar="DIR", type=click.Path(file_okay=False), help="Install the skill below this folder."
)
@click.option("--replace", is_flag=True, help="With --install: replace what is there under this name.")
@click.option("--yes", is_flag=True, help="With --install: do not ask before files are written.")
@click.option(
    "--dry-run", is_flag=True, help="With --install: show what would be written, and write nothing."
)
@words_argument("TARGET [URI [FILE]] | [URI [FILE]] -- COMMAND", "resources")
def skill_command(
    *,
    words: tuple[str, ...],
    verify: bool,
    out: str | None,
    install: str | None,
    replace: bool,
    yes: bool,
    dry_run: bool,
    **options: Any,  # noqa: ANN401 - as declared
) -> None:
    """Show the skills of a server, one of them, or a file of it.

    URI is that of its SKILL.md; a skill need not be listed. FILE is a path in the skill, such as templates/email.txt; it is checked
    against the digest that the server gives, and printed. --install writes a skill for a host, such as below ~/.claude/skills: what
    would be written is shown first, and nothing is replaced unless --replace says so.

    What a skill says is its server's: read it before you let a model follow it. Exit codes are those of `mcprev call`; a file
    that is not the one of its skill is 4.
    """
    target, rest = split_optional(words)
    no_more(rest[2:], "a skill has one URI, and one FILE is shown at a time")
    uri, file = (*rest, None, None)[:2]
    if (install is not None and (uri is None or file is not None)) or (out is not None and file is None):
        raise click.UsageError("--install takes a URI, and --out a URI and a FILE")
    if (replace or yes or dry_run) and install is None:
        raise click.UsageError("--replace, --yes and --dry-run belong to --install")
    session = server_use_of(target, **options)

    async def use(client: Client) -> int:
        if uri is None:
            return await _list(client, as_json=session.as_json, verify=verify)
        skill = await _skill(client, uri)
        if file is not None:
            _show_file(await _read(skill, file), out)
            return ExitCode.OK
        if install is not None:
            await _install(
                skill,
                install,
                session.server.name or session.server.label,
                replace=replace,
                yes=yes,
                dry_run=dry_run,
            )
            return ExitCode.OK
        shown = await _shown(skill, verify=verify)
        if session.as_json:
            echo_json({"format": 1, "revision": client.revision, "skill": shown})
        else:
            _show(skill, shown.get("checked"))
        return ExitCode.FAILED if wrong_files([shown]) else ExitCode.OK

    session.run(use)


async def _list(client: Client, *, as_json: bool, verify: bool) -> int:
    skills = [await _shown(skill, verify=verify) async for skill in client.skills()]
    if as_json:
        echo_json({"format": 1, "revision": client.revision, "skills": skills})
    else:
        print_skills(skills)
    return ExitCode.FAILED if wrong_files(skills) else ExitCode.OK


async def listed_skills(
    client: Client, seconds: float, errors: dict[str, str], *, verify: bool
) -> list[dict[str, Any]]:
    """Return the skills that a server lists, each with what is wrong with its files; an error of the list is put into `errors`."""
    from mcprev.errors import ConnectionLost, McpError

    skills: list[HeldSkill] = []
    try:
        async for skill in client.skills(total_timeout=seconds):
            skills.append(skill)  # noqa: PERF401 - what came before an error is kept
    except ConnectionLost:
        raise
    except McpError as error:
        errors["skills"] = str(error) or type(error).__name__
    return [await _shown(skill, verify=verify) for skill in skills]


async def _shown(skill: HeldSkill, *, verify: bool) -> dict[str, Any]:
    return {**skill.entry.to_wire(), **({"checked": await checked(skill)} if verify else {})}


def wrong_files(skills: Iterable[dict[str, Any]]) -> list[str]:
    """Return a line for each file that is not the one of its entry."""
    return [
        f"{clean(str(skill['uri']))}: {clean(path)}: {why}"
        for skill in skills
        for path, why in skill.get("checked", {}).items()
        if why
    ]


def print_skills(skills: Sequence[dict[str, Any]]) -> None:
    """Print a row for each skill, and what is wrong with its files."""
    rows: list[tuple[str, ...]] = []
    for skill in skills:
        front, files = skill["frontmatter"], skill["resources"]
        dynamic = files == _DYNAMIC
        size = "" if dynamic else str(sum(int(file["size"]) for file in files))
        count = _DYNAMIC if dynamic else str(len(files))
        about = " ".join(str(front["description"]).split())
        verified = _verdict(skill.get("checked"), dynamic=dynamic)
        rows.append((str(front["name"]), str(skill["uri"]), count, size, *verified, about))
    checks = ("CHECK",) if any("checked" in skill for skill in skills) else ()
    header = ("SKILL", "URI", "FILES", "BYTES", *checks, "DESCRIPTION")
    echo_table(header, rows or [("(none)", *[""] * (len(header) - 1))])
    for line in wrong_files(skills):
        echo(line)


def _verdict(wrong: dict[str, str] | None, *, dynamic: bool) -> tuple[str, ...]:
    if wrong is None:
        return ()
    if any(wrong.values()):
        return ("wrong",)
    return ("no digests",) if dynamic else ("verified",)


async def checked(skill: HeldSkill) -> dict[str, str]:
    """Return what is wrong with each file of a skill, by its path; empty texts for those that are right.

    Of a dynamic skill only SKILL.md can be read and compared with its entry.
    """
    from mcprev.errors import McpError, TransportError

    found: dict[str, str] = {}
    for path in skill.files or ("SKILL.md",):
        found[path] = ""
        try:
            await skill.read(path)
        except TransportError:
            raise
        except McpError as error:
            found[path] = clean(str(error))
    return found


async def _skill(client: Client, uri: str) -> HeldSkill:
    try:
        skill = client.skill(uri)
    except ValueError as error:
        raise Failure(clean(str(error)), ExitCode.USAGE) from None
    return await skill


async def _read(skill: HeldSkill, path: str) -> SkillFile:
    try:
        return await skill.read(path)
    except ValueError as error:
        raise Failure(clean(str(error)), ExitCode.USAGE) from None


def _show_file(file: SkillFile, out: str | None) -> None:
    if out is not None:
        try:
            with Path(out).open("xb") as stream:  # never over another file
                stream.write(file.data)
        except OSError as error:
            raise Failure(
                f"cannot write '{clean(out)}': {error.strerror}; name another file", ExitCode.USAGE
            ) from None
        return
    try:
        text = file.data.decode()
    except UnicodeDecodeError:
        echo(f"[{file.mime_type or 'file'}, {len(file.data)} bytes; --out FILE writes it]")
    else:
        Renderer(None).text(text)


def _show(skill: HeldSkill, wrong: dict[str, str] | None) -> None:
    rows = [("name", skill.name), ("uri", skill.uri)]
    rows += [
        (name, value if isinstance(value, str) else json.dumps(value))
        for name, value in skill.front_matter.items()
        if name != "name"
    ]
    echo_table(("PROPERTY", "VALUE"), rows)
    echo()
    if skill.dynamic and wrong is None:
        echo("its files are dynamic: they are not listed, and cannot be checked")
        return
    files = [
        (path, str(int(file.size)), file.digest, *(() if wrong is None else (wrong[path] or "verified",)))
        for path, file in skill.files.items()
    ] or [("SKILL.md", "", _DYNAMIC, (wrong or {}).get("SKILL.md") or "front matter verified")]
    header = ("FILE", "BYTES", "DIGEST") if wrong is None else ("FILE", "BYTES", "DIGEST", "CHECK")
    echo_table(header, files)


async def _install(
    skill: HeldSkill, folder: str, origin: str, *, replace: bool, yes: bool, dry_run: bool
) -> None:
    from mcprev.extensions.skills.installing import install_skill, planned_installation

    try:
        plan = planned_installation(skill, folder, origin)
        _show_plan(plan)
        if plan.before is not None and not replace:
            raise Failure(f"{plan.folder} is there already; --replace replaces all of it", ExitCode.USAGE)
        if dry_run:
            return
        if not yes:
            _ask()
        echo(f"installed {await install_skill(plan, replace=replace)}")
    except OSError as error:
        name = clean(str(error.filename or folder))
        raise Failure(
            f"cannot write '{name}': {error.strerror or error}; nothing was changed", ExitCode.USAGE
        ) from None
    except ValueError as error:
        raise Failure(clean(str(error)), ExitCode.USAGE) from None


def _show_plan(plan: SkillInstallation) -> None:
    skill = plan.skill
    echo(f"the skill '{skill.name}' of {plan.origin}, {skill.uri}:")
    echo(f"  {skill.description}")
    for path, file in skill.files.items():
        echo(f"  + {plan.folder / path} ({int(file.size)} bytes)")
    if plan.is_other:
        was = plan.before or {}
        echo(
            f"  what is there now is of {was.get('server') or 'an unknown origin'}, {was.get('uri') or 'no known skill'}"
        )
    allowed = skill.front_matter.get("allowed-tools")
    if allowed is not None:
        echo(f"  it asks for these tools without questions: {allowed}")


def _ask() -> None:
    """Ask whether files are written. Ends the command if not."""
    if not TerminalInput.is_there():
        raise Failure(
            "there is no terminal to ask for confirmation: pass --yes, or --dry-run", ExitCode.USAGE
        )
    sys.stdout.flush()
    if not click.confirm("write these files?", err=True):
        raise Failure("nothing was written", ExitCode.FAILED)
