"""`mcprev generate-cli`: write a script that is a command for one server (SEC-6)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from mcprev.cli.command_target import TargetCommand, read_target, variables_and_headers
from mcprev.cli.exit_codes import ExitCode, Failure
from mcprev.cli.options import (
    env_option,
    header_option,
    login_option,
    revision_names,
    revisions_option,
    target_argument,
    timeout_option,
)
from mcprev.cli.table import clean, echo

_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_VARIABLE: Final = "\0"
"""What stands for a variable of the environment where a text is looked at: no command line has it."""
_HEADER: Final = r"[\w-]+: *"
_PAIR: Final = rf"[\w.-]+={_VARIABLE}+"
_HIDDEN: Final = (
    ("[...]", rf"(?i:(?:Bearer|Basic|DPoP|Token|ApiKey|Bot) +)?{_VARIABLE}+"),
    ("...@", rf"(?:[^:@/]*:)?{_VARIABLE}+@"),
    ("?...", rf"\?{_PAIR}(?:&{_PAIR})*"),
)
"""What may be where a mask is: variables, after a scheme, a user name, or the names in the query of a URL."""


@click.command("generate-cli", cls=TargetCommand)
@click.option("--out", "file", metavar="FILE", required=True, type=_FILE, help="The script to write.")
@click.option(
    "--skill",
    metavar="FILE",
    type=_FILE,
    help="Also write a skill file (SKILL.md), which tells an agent how to use it.",
)
@click.option("--force", is_flag=True, help="Write over files that are there.")
@revisions_option
@timeout_option
@login_option
@header_option
@env_option
@target_argument
def generate_cli_command(
    *,
    argv: tuple[str, ...],
    file: Path,
    skill: Path | None,
    force: bool,
    names: tuple[str, ...],
    timeout: float,
    login: bool | None,
    headers: tuple[str, ...],
    env: tuple[str, ...],
) -> None:
    """Write a script that is a command for one server.

    Each tool is a subcommand, whose options are the arguments of the tool. TARGET is as for `mcprev inspect`; paths are
    made absolute. The script has no credentials: `${NAME}` in a header, a variable or a word stands for a variable of
    the environment in which the script runs, and a NAME stays one of the configuration.

    Exit codes are those of `mcprev call`; 2 also for a file that cannot be written.
    """
    revisions = revision_names(names)
    server = read_target(argv, headers=headers, env=env)
    from mcprev.cli.server_command import ServerCommand
    from mcprev.cli.skill import skill_text
    from mcprev.cli.snapshot import taken_snapshot
    from mcprev.hosts.installing import module_path, words_anywhere

    files = [each for each in (file, skill) if each is not None]
    if len({os.path.abspath(each) for each in files}) < len(files):  # noqa: PTH100 - links stay links
        raise click.UsageError("--out and --skill name the same file; the script and the skill are two")
    for each in files:
        _check_writable(each, replace=force)
    variables, named = variables_and_headers(env, headers)
    words = words_anywhere(server)
    _check_secrets(words, {**variables, **named})
    variables = {**module_path(server), **variables}
    snapshot = taken_snapshot(words, variables, named, revisions=revisions, timeout=timeout, login=login)
    _write(file, snapshot.script(), replace=force, mode=0o777)
    count = len(snapshot.tools)
    echo(f"wrote {clean(str(file))}, a command with {count} tool{'' if count == 1 else 's'}")
    if skill is not None:
        _write(skill, skill_text(ServerCommand(file, snapshot), file), replace=force)
        echo(f"wrote {clean(str(skill))}")


def _check_secrets(words: Sequence[str], values: Mapping[str, str]) -> None:
    """Raise `Failure` for a credential that the script would hold in clear."""
    from mcprev.client.host_config import with_variables
    from mcprev.hosts.masking import HEADER_OPTIONS, masked_words
    from mcprev.hosts.named_server import is_url
    from mcprev.wire.payloads import MASK, is_secret, mask_text

    how = (
        "${NAME} in its place, alone or after a word such as Bearer, in single quotes, for a variable of the environment in which "
        "the script runs, or write the server into a file with `mcprev install FILE.json` and pass NAME@FILE.json"
    )
    for name, value in values.items():
        plain = with_variables(value, _VARIABLE)
        shown = MASK if is_secret(name) else mask_text(plain)
        if value and ("${" in plain or _VARIABLE not in plain or not _hides_variables(plain, shown)):
            text = (
                f"the script would hold the value of '{clean(name)}', or a part of it, in clear; write {how}"
            )
            raise Failure(text, ExitCode.USAGE)
    plains = [with_variables(word, _VARIABLE) for word in words]
    masked = [mask_text(plains[0])] if is_url(words[0]) else masked_words(plains)
    for before, plain, shown in zip(["", *words], plains, masked, strict=False):
        named = before in HEADER_OPTIONS or plain.partition("=")[0] in HEADER_OPTIONS
        if not _hides_variables(plain, shown, name=_HEADER if named else ""):
            text = (
                f"the script would hold what looks like a secret in clear, in '{clean(shown)}'; write {how}"
            )
            raise Failure(text, ExitCode.USAGE)


def _hides_variables(plain: str, shown: str, *, name: str = "") -> bool:
    """Return whether a text is what is shown of it, with nothing but variables where that has a mask."""
    pattern = re.escape(shown)
    for mask, hidden in _HIDDEN:
        pattern = pattern.replace(re.escape(mask), name + hidden)
    return plain == shown or re.fullmatch(pattern, plain) is not None


def _check_writable(file: Path, *, replace: bool) -> None:
    """Raise `Failure` for a file that is there or whose folder is not, before anything is started."""
    try:
        there, folder = file.is_symlink() or file.exists(), file.parent.is_dir()
    except (OSError, ValueError):
        return  # writing says why
    if there and not replace:
        raise _taken(file)
    if not folder:
        raise Failure(f"there is no folder '{clean(str(file.parent))}'; make it first", ExitCode.USAGE)


def _taken(file: Path) -> Failure:
    text = f"there is a file '{clean(str(file))}' already; pass --force to write over it, or another name"
    return Failure(text, ExitCode.USAGE)


def _write(file: Path, text: str, *, replace: bool, mode: int = 0o666) -> None:
    from mcprev.hosts.writing import write_file

    try:
        write_file(file, text, replace=replace, mode=mode)
    except FileExistsError:
        raise _taken(file) from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise Failure(
            f"cannot write '{clean(str(file))}': {why}; name another file", ExitCode.USAGE
        ) from None
