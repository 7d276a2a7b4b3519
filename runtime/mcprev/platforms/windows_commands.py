"""How Windows finds a program, and how it takes arguments: pure functions.

A program is looked for in PATH with the endings of PATHEXT, never in the working folder, where whoever wrote a project could
put one. Windows hands a batch file (`npx.cmd`) to `cmd.exe`, which reads a line of text: what would be a command in it is
quoted so that it stays an argument.
"""

from __future__ import annotations

import ntpath
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

STARTED: Final = (".com", ".exe", ".bat", ".cmd")
"""The endings of files that Windows starts by itself."""
_BATCH: Final = (".bat", ".cmd")
_UNQUOTED: Final = frozenset("#$*+-./:?@\\_")
"""The characters, beside letters and digits, that mean nothing to `cmd.exe`."""
_FORBIDDEN: Final = frozenset("\0\r\n")
_NOTHING: Final = "%cd:~,%"
"""A variable of no characters: after `%` it keeps what follows from being read as the name of a variable."""


def merged(variables: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return one environment of several: a later value replaces an earlier one, whatever the case of the name."""
    found: dict[str, tuple[str, str]] = {}
    for each in variables:
        for name, value in each.items():
            found[name.upper()] = name, value
    return dict(found.values())


def variable(environment: Mapping[str, str], name: str) -> str:
    """Return the value of a variable, whatever the case of its name; empty if it is not set."""
    return next((value for each, value in environment.items() if each.upper() == name), "")


def found_program(
    name: str, environment: Mapping[str, str], folder: str | os.PathLike[str] | None
) -> str | None:
    """Return the path of a program with its ending; None if there is none.

    A name without a folder is looked for in PATH; a relative path begins in the folder in which the program will run.
    """
    drive, rest = ntpath.splitdrive(name)
    if not rest or ":" in rest or (drive and rest[0] not in "/\\"):
        return None  # a stream of a file, or a path that depends on the folder of a drive
    endings = _endings(variable(environment, "PATHEXT"))
    if any(each in rest for each in "/\\"):
        return _with_ending(Path(folder or ".").absolute() / name, endings)
    for part in variable(environment, "PATH").split(os.pathsep):
        place = Path(part.strip('"'))
        if part and place.is_absolute() and (found := _with_ending(place / name, endings)) is not None:
            return found
    return None


def _endings(wanted: str) -> Sequence[str]:
    """Return the endings to try, in the order of PATHEXT."""
    asked = [each.lower() for each in wanted.split(";")]
    return [each for each in asked if each in STARTED] or STARTED


def _with_ending(path: Path, endings: Sequence[str]) -> str | None:
    """Return the path of a file that has an ending of a program, or gets one."""
    names = [path] if _ending(path.name) else []
    names += [path.with_name(f"{path.name}{ending}") for ending in endings]
    return next((str(each) for each in names if each.is_file()), None)


def _ending(name: str) -> str:
    """Return the ending of a name, for which Windows ignores dots and spaces at the end."""
    return ntpath.splitext(name.rstrip(". "))[1].lower()


def command_line(program: str, arguments: Sequence[str], system_folder: str) -> tuple[str, str]:
    """Return the file to start and its command line, which a program or a batch file reads as these arguments.

    Raises `ValueError` for what neither can be given, or for a file of another kind.
    """
    if any(_FORBIDDEN & set(each) for each in (program, *arguments)):
        if "\0" in "".join((program, *arguments)):
            raise ValueError("embedded null character")
        if _ending(program) in _BATCH:
            raise ValueError("a batch file cannot be given an argument of several lines")
    ending = _ending(program)
    if ending not in STARTED:
        raise ValueError(
            f"Windows does not start a file that ends with '{ending}': pass the program that runs it first, such as python"
        )
    if ending not in _BATCH:
        return program, subprocess.list2cmdline([program, *arguments])
    shell = ntpath.join(system_folder, "cmd.exe")
    words = " ".join((f'"{_without_variables(program)}"', *map(_quoted, arguments)))
    # /d: no command of the registry runs first; /e:ON for `_NOTHING`; /v:OFF: `!` means nothing; /s: the outer quotes go.
    return shell, f'"{shell}" /d /e:ON /v:OFF /s /c "{words}"'


def _quoted(argument: str) -> str:
    r"""Return an argument for a batch file and for the program that it passes its arguments to.

    `cmd.exe` takes `""` within quotes for a part of the text, and C programs for one quote, before which a backslash is
    doubled. A backslash at the end is doubled too, since the closing quote follows it.
    """
    plain = argument and all(each.isalnum() or each in _UNQUOTED for each in argument)
    if plain and argument[-1] != "\\" and argument.isascii():
        return argument
    text = '""'.join(f"{part}{_backslashes(part)}" for part in argument.split('"'))
    return f'"{_without_variables(text)}"'


def _backslashes(part: str) -> str:
    """Return as many backslashes as a text has at its end."""
    return "\\" * (len(part) - len(part.rstrip("\\")))


def _without_variables(text: str) -> str:
    """Return a text in which `cmd.exe` finds no variable."""
    return text.replace("%", f"%{_NOTHING}")
