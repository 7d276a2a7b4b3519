"""What can go wrong between a schema and the packages made from it.

CodegenError            anything a user of the generator can mend; the command exits with 3
├── SchemaError         a place in an input file: shown as file:line:column, the line and a caret
├── InputError          an input that is missing or cannot be read as a whole: shown as one line
└── SeveralErrors       more than one of the above: shown one below the other
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from typing_extensions import override

EXIT_CODE: Final = 3


class CodegenError(Exception):
    """The generator cannot go on, and says where and what to do."""

    @property
    def parts(self) -> tuple[CodegenError, ...]:
        """The single errors in it."""
        return (self,)


class InputError(CodegenError):
    """A file is missing or cannot be read as what it should be."""


class SchemaError(CodegenError):
    """One place of an input that the generator does not understand, cannot find or finds outdated."""

    def __init__(self, message: str, *, path: str, line: int, column: int, source_line: str) -> None:
        self.message = message
        self.path = path
        self.line = line
        self.column = column
        self.source_line = source_line
        super().__init__(self._render())

    @override
    def __reduce__(self) -> tuple[Callable[..., SchemaError], tuple[str | int, ...]]:
        """Errors come back from the processes that generate side by side."""
        return _restored, (self.message, self.path, self.line, self.column, self.source_line)

    @property
    def headline(self) -> str:
        """The place and the message, on one line."""
        return f"{self.path}:{self.line}:{self.column}: {self.message}"

    def _render(self) -> str:
        shown = self.source_line.expandtabs(1)
        caret = " " * (self.column - 1) + "^"
        return f"{self.headline}\n    {shown}\n    {caret}"


class SeveralErrors(CodegenError):
    """Everything that a run has found, so that it can be mended at once."""

    def __init__(self, errors: Sequence[CodegenError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join([*map(str, self.errors), f"{len(self.errors)} errors"]))

    @property
    @override
    def parts(self) -> tuple[CodegenError, ...]:
        return self.errors

    @override
    def __reduce__(self) -> tuple[type[SeveralErrors], tuple[tuple[CodegenError, ...]]]:
        return SeveralErrors, (self.errors,)


def reason(error: Exception) -> str:
    """Why a file cannot be read or written; what the system says repeats neither its name nor a number."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def together(errors: Sequence[CodegenError]) -> CodegenError:
    """One error that stands for all of them."""
    return errors[0] if len(errors) == 1 else SeveralErrors(errors)


def _restored(message: str, path: str, line: int, column: int, source_line: str) -> SchemaError:
    return SchemaError(message, path=path, line=line, column=column, source_line=source_line)


def at_line(path: Path, lines: Sequence[str], line: int, message: str) -> SchemaError:
    """An error at the first character of a line (counted from 1) of a file that has been read."""
    shown = lines[line - 1] if 0 < line <= len(lines) else ""
    column = len(shown) - len(shown.lstrip()) + 1
    return SchemaError(message, path=str(path), line=line, column=column, source_line=shown)
