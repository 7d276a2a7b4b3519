"""Rewrites code so that its value stays in a variable, where what runs the code can check it.

It looks at tokens alone: the code is foreign, and a parser of this process recurses as deep as the code nests.
"""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

_BEGIN_EXPRESSIONS: Final = {"None", "True", "False", "await", "lambda", "not"}
_BEGIN_STATEMENTS: Final = {*keyword.kwlist} - _BEGIN_EXPRESSIONS
_DEFINE: Final = {"def", "class", "async"}
_COMPOUND: Final = {*_DEFINE, "if", "elif", "else", "for", "while", "try", "except", "finally", "with"}
_OPEN: Final = {"(", "[", "{"}
_CLOSE: Final = {")", "]", "}"}
_COMPARE: Final = {"==", "!=", "<=", ">="}
_SPACE: Final = {tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER}


def keeping_value(code: str, name: str) -> str | None:
    """Return code that assigns its value to a variable, and whose own is None: that of its last expression, or of a `return` outside functions.

    No line moves. None for code that this version of Python cannot split into tokens; other wrong code may be returned
    with another mistake.
    """
    lines = [*io.StringIO(code, newline=None)]
    try:
        found = [*_values(tokenize.generate_tokens(iter(lines).__next__))]
    except (tokenize.TokenError, SyntaxError):
        return None
    for first, last in reversed(found):
        for (row, column), text in ((last.end, ")), None)[1]"), (first.start, f"(({name} := (")):
            line = lines[row - 1]
            lines[row - 1] = line[:column] + text + line[column:]
    return "".join(lines)


@dataclass(frozen=True, slots=True)
class _Statement:
    """A part of a line of code that ends with a semicolon or the line."""

    begin: str
    """The word with which its line begins."""
    in_function: bool
    """Whether it is in the block of a function or class."""
    in_block: bool
    tokens: list[tokenize.TokenInfo] = field(default_factory=list[tokenize.TokenInfo])
    outer: list[str] = field(default_factory=list[str])
    """The texts of its tokens outside brackets."""

    def returned(self) -> list[tokenize.TokenInfo]:
        """Return the tokens of what it returns as the value of the code."""
        if self.in_function or self.begin in _DEFINE:
            return []
        at = [index for index, token in enumerate(self.tokens) if token.string == "return"]
        return self.tokens[at[0] + 1 :] if at else []

    def is_expression(self) -> bool:
        """Return whether it is an expression outside each block."""
        if self.in_block or self.begin in _COMPOUND or self.tokens[0].string in _BEGIN_STATEMENTS:
            return False
        lambdas = 0
        for text in self.outer:
            if text == "lambda":
                lambdas += 1
            elif text == ":" and lambdas:
                lambdas -= 1
            elif text == ":" or (text[-1:] == "=" and text not in _COMPARE and not lambdas):
                return False
        return True


def _values(tokens: Iterable[tokenize.TokenInfo]) -> Iterator[tuple[tokenize.TokenInfo, tokenize.TokenInfo]]:
    """Find the first and the last token of each expression that can be the value of the code, in their order."""
    last: _Statement | None = None
    for last in _statements(tokens):
        if returned := last.returned():
            yield returned[0], returned[-1]
    if last is not None and last.is_expression():
        yield last.tokens[0], last.tokens[-1]


def _statements(tokens: Iterable[tokenize.TokenInfo]) -> Iterator[_Statement]:
    functions, begin, depth = [False], "", 0
    statement: _Statement | None = None
    starts = True
    for token in tokens:
        if token.type == tokenize.INDENT:
            functions.append(functions[-1] or begin in _DEFINE)
        elif token.type == tokenize.DEDENT:
            functions.pop()
        elif token.type == tokenize.NEWLINE or (token.string == ";" and depth == 0):
            if statement is not None:
                yield statement
            statement, starts = None, starts or token.type == tokenize.NEWLINE
        elif token.type not in _SPACE:
            if starts:
                begin, starts = token.string, False
            if statement is None:
                statement = _Statement(begin, functions[-1], len(functions) > 1)
            statement.tokens.append(token)
            depth -= token.string in _CLOSE
            if depth == 0:
                statement.outer.append(token.string)
            depth += token.string in _OPEN
