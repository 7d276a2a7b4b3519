"""The errors of the generator.

CodegenError            any error that the user can fix; the command exits with 3
├── SchemaError         an error at a place in an input file: file:line:column, the line and a caret
├── InputError          an input that is missing or cannot be read at all: one line
└── SeveralErrors       several of the above, one below the other
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from typing_extensions import override

EXIT_CODE: Final = 3
_BEFORE: Final = 200
_BEHIND: Final = 200
"""The maximum numbers of characters of a line that an error shows before its place and from there on."""


class CodegenError(Exception):
    """An error that stops the generator; the message says where it is and how to fix it.

    As text it is printable, whatever names and lines of a schema it repeats.
    """

    @override
    def __str__(self) -> str:
        return clean(cut(super().__str__()))

    @property
    def parts(self) -> tuple[CodegenError, ...]:
        """The single errors."""
        return (self,)


class InputError(CodegenError):
    """A file that is missing or has the wrong format."""


class SchemaError(CodegenError):
    """An error at one place of an input: not understood, not found or outdated."""

    def __init__(self, message: str, path: str, line: int, column: int, source_line: str) -> None:
        # The arguments of `Exception` are those that unpickling passes: errors are returned from worker processes.
        super().__init__(message, path, line, column, source_line)
        self.message = message
        self.path = path
        self.line = line
        self.column = column
        self.source_line = source_line

    def without_data(self, kind: str) -> NoDataError:
        """Return the same error at what describes no data."""
        found = NoDataError(self.message, self.path, self.line, self.column, self.source_line)
        found.kind = kind
        return found

    @property
    def headline(self) -> str:
        """The place and the message on one line."""
        return clean(f"{self.path}:{self.line}:{self.column}: {cut(self.message)}")

    @override
    def __str__(self) -> str:
        line = self.source_line.expandtabs(1)
        start = max(0, self.column - _BEFORE)
        before, rest = (
            clean(part) for part in (line[start : self.column - 1], line[self.column - 1 :][:_BEHIND])
        )
        return f"{self.headline}\n    {before}{rest}\n    {' ' * len(before)}^"


class NoDataError(SchemaError):
    """An error at what describes no data, such as a function: it may be left out unless something needs it."""

    kind = ""
    """What it is, in the plural."""


class SeveralErrors(CodegenError):
    """All errors of a run, so that they can be fixed together."""

    def __init__(self, errors: Sequence[CodegenError]) -> None:
        super().__init__(errors)
        self.errors = tuple(errors)

    @override
    def __str__(self) -> str:
        return "\n".join([*map(str, self.errors), f"{len(self.errors)} errors"])

    @property
    @override
    def parts(self) -> tuple[CodegenError, ...]:
        return self.errors


def reason(error: Exception) -> str:
    """Return the reason of an I/O error without the file name and the error number, which `str(OSError)` includes."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def together(errors: Sequence[CodegenError]) -> CodegenError:
    """Return the error itself if there is only one, else all of them as one error."""
    return errors[0] if len(errors) == 1 else SeveralErrors(errors)


def at_line(path: Path | str, lines: Sequence[str], line: int, message: str) -> SchemaError:
    """Return an error at the first character of a line (counted from 1) of a file that has been read."""
    shown = lines[line - 1] if 0 < line <= len(lines) else ""
    column = len(shown) - len(shown.lstrip()) + 1
    return SchemaError(message, path=str(path), line=line, column=column, source_line=shown)


_LONGEST: Final = 2_000


def clean(text: str) -> str:
    """Return foreign text with each character escaped that is not printable, line ends included."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def cut(text: str) -> str:
    """Return the start of a foreign text that may be of any length."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
