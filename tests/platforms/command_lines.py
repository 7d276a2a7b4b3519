"""How Windows reads a command line: `cmd.exe` a line of text, and a C program its own. Written from their documentation."""

from __future__ import annotations

from collections.abc import Mapping

_SPECIAL = "&|<>^"


def words_of(line: str) -> list[str]:
    """The arguments that a program finds in its command line, by the rules of the C library."""
    found, word, quoted, begun, at = list[str](), "", False, False, 0
    while at < len(line):
        backslashes = len(line) - at - len(line[at:].lstrip("\\"))
        at += backslashes
        if line[at : at + 1] == '"':
            word += "\\" * (backslashes // 2)
            begun = True
            if backslashes % 2:
                word += '"'
            elif quoted and line[at : at + 2] == '""':
                word += '"'
                at += 1
            else:
                quoted = not quoted
            at += 1
            continue
        word += "\\" * backslashes
        begun = begun or backslashes > 0
        if at == len(line):
            break
        if line[at] in " \t" and not quoted:
            found += [word] if begun else []
            word, begun = "", False
        else:
            word += line[at]
            begun = True
        at += 1
    return [*found, word] if begun else found


def expanded(line: str, variables: Mapping[str, str]) -> str:
    """What `cmd.exe` makes of the variables of a line: `%NAME%`, and `%cd:~,%`, which has no characters."""
    text, at = "", 0
    while at < len(line):
        end = line.find("%", at + 1)
        name = line[at + 1 : end] if line[at] == "%" and end > 0 else ""
        if name == "cd:~,":
            at = end + 1
        elif name.upper() in variables:
            text, at = text + variables[name.upper()], end + 1
        else:
            text, at = text + line[at], at + 1
    return text


def read_by_cmd(line: str, variables: Mapping[str, str]) -> str:
    """The one command that `cmd.exe` runs for its own command line. Raises if there is more than one in it."""
    shell, _, rest = line.partition(" /d /e:ON /v:OFF /s /c ")
    assert shell.startswith('"')
    assert rest[0] == rest[-1] == '"'
    command = expanded(rest[1:-1], variables)
    quoted = False
    for each in command:
        quoted ^= each == '"'
        assert quoted or each not in _SPECIAL, f"{each} is outside of quotes in {command}"
    return command
