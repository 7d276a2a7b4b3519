"""Counts the steps of a parser, to show that they grow no faster than its input (SEC-6).

    assert_linear(parse, lambda size: "a, " * size, module_of_parse)

calls `parse` with inputs of doubling size and fails where the steps more than double. A step is one of these:

- a line of Python that is executed (seen by `sys.settrace`), a turn of a loop on one line included;
- a character that a method of `str` or `bytes` reads or copies (the input is a `str` or `bytes` that counts, and so is
  whatever is cut out of it);
- an instruction of a backtracking matcher that runs each regular expression of the modules named, for every regular
  expression at the top level of a module is replaced during the call. What it finds is compared with what `re` finds.

Not counted: `json`, `int`, `float` and other functions written in C that are given the text.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any, Final, TypeVar
from unittest import mock
from urllib.parse import urlsplit

from fuzz.fuzzing import sampled

T = TypeVar("T")
SIZES: Final = (64, 128, 256)
"""The sizes that inputs are made of, each twice the one before."""
GROWTH: Final = 2.2
"""How much the steps may grow where the size doubles; those of a quadratic parser grow to four times as many."""
CONSTANT: Final = 64
"""Steps that do not depend on the size."""
_parser: Final[Any] = import_module("re._parser")


class _Count:
    """The steps so far; of an object, for each change of a class makes Python look up everything anew."""

    steps = 0


_count: Final = _Count()


def add(steps: int) -> None:
    """Count further steps: for a wrapper of a test's own around something that is not counted here."""
    _count.steps += steps


def steps(work: Callable[[], object], *modules: ModuleType) -> int:
    """The steps of a call. The regular expressions of `modules` are counted too.

    What an earlier call left in a cache of `modules` or of `urlsplit` is forgotten, so that each size is counted whole.
    """
    for cached in (urlsplit, *(value for module in modules for value in vars(module).values())):
        if forget := getattr(cached, "cache_clear", None):
            forget()

    def enter(frame: FrameType, _event: str, _argument: object) -> Any:
        return None if frame.f_code.co_filename == __file__ else trace

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            _count.steps += 1
        return trace

    before, _count.steps = sys.gettrace(), 0
    with contextlib.ExitStack() as stack:
        for module in modules:
            for name, value in list(vars(module).items()):
                if type(value) is re.Pattern:
                    stack.enter_context(mock.patch.object(module, name, _Pattern(value)))
        sys.settrace(enter)
        try:
            work()
        finally:
            sys.settrace(before)
    return _count.steps


def assert_linear(
    work: Callable[[T], object],
    make: Callable[[int], T],
    *modules: ModuleType,
    sizes: Sequence[int] = SIZES,
) -> None:
    """Fail where the steps of `work` with the input that `make` gives for a size more than double with that size."""
    if len(sizes) > 2 and sampled(1) == 1:  # `make fuzz` goes on to the last
        sizes = sizes[:-1]
    work(make(sizes[0] // 2))  # what happens once in a process is not counted
    counts = [steps(functools.partial(work, counted(make(size))), *modules) for size in sizes]
    for (size, fewer), more in zip(zip(sizes, counts, strict=True), counts[1:], strict=False):
        assert more <= GROWTH * fewer + CONSTANT, (
            f"{fewer} steps at size {size} and {more} at twice the size: they grow faster than the input; "
            f"at the sizes {sizes} they are {counts}"
        )


# -- text that counts --------------------------------------------------------------------------------------


def counted(found: Any) -> Any:
    """The same text, bytes, or list or tuple of such, whose methods count."""
    if type(found) is str:
        return Text(found)
    if type(found) is bytes:
        return Octets(found)
    if type(found) in (list, tuple):
        return type(found)(counted(item) for item in found)
    return found


def _counting(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        found = method(self, *arguments, **named)
        add(1 + _cost(name, self, arguments, found))
        return counted(found)

    return call


def _cost(name: str, whole: Any, arguments: tuple[Any, ...], found: Any) -> int:
    """How many characters a method reads or copies."""
    match name:
        case "__getitem__":
            return len(found) if isinstance(arguments[0], slice) else 1
        case "startswith" | "endswith":
            return 1
        case "find" | "index" | "rfind" | "rindex":
            start, end, _ = slice(*(*arguments[1:], None, None)[:2]).indices(len(whole))
            if found < 0:
                return max(end - start, 0)
            return int(end - found if name.startswith("r") else found - start)
        case "__add__" | "__radd__" | "join":
            return len(found)
        case _:
            return len(whole)


_METHODS: Final = (
    "__add__", "__contains__", "__getitem__", "casefold", "count", "decode", "encode", "endswith", "find", "index",
    "isalnum", "isascii", "isdecimal", "isdigit", "isprintable", "isspace", "join", "lower", "lstrip", "partition",
    "removeprefix", "removesuffix", "replace", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "split",
    "splitlines", "startswith", "strip", "translate", "upper",
)  # fmt: skip


class Text(str):
    """A text whose methods count."""

    __slots__ = ()


class Octets(bytes):
    """Bytes whose methods count."""

    __slots__ = ()


for _kind, _plain in ((Text, str), (Octets, bytes)):
    for _name in _METHODS:
        if hasattr(_plain, _name):
            setattr(_kind, _name, _counting(getattr(_plain, _name), _name))


# -- regular expressions that count ------------------------------------------------------------------------


class _Match:
    """What was found, in counted texts."""

    def __init__(self, found: re.Match[Any]) -> None:
        self._found = found

    def __getitem__(self, group: Any) -> Any:
        return self.group(group)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._found, name)
        if not callable(member):
            return member

        def call(*arguments: Any) -> Any:
            found: Any = member(*arguments)
            parts: list[Any] = [*found] if isinstance(found, tuple) else [found]
            add(1 + sum(len(part) for part in parts if isinstance(part, str | bytes)))
            return counted(found)

        return call


class _Pattern:
    """A regular expression whose matching counts."""

    def __init__(self, pattern: Any) -> None:
        self._pattern: Any = pattern
        self._program = program(pattern)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pattern, name)

    def match(self, text: Any, at: int = 0) -> Any:
        return self._judge(self._pattern.match(text, at), self._run(text, at))

    def fullmatch(self, text: Any, at: int = 0) -> Any:
        return self._judge(self._pattern.fullmatch(text, at), self._run(text, at, full=True))

    def search(self, text: Any, at: int = 0) -> Any:
        return next(self.finditer(text, at), None)

    def finditer(self, text: Any, at: int = 0) -> Iterator[_Match]:
        start, empty = at, False
        for found in self._pattern.finditer(text, at):
            while (end := self._run(text, start, advance=empty)) is None:
                start, empty = start + 1, False
            assert (start, end) == found.span(), self._pattern.pattern
            yield _Match(found)
            start, empty = end, end == start
        for rest in range(start, len(text) + 1):
            assert self._run(text, rest, advance=empty and rest == start) is None, self._pattern.pattern

    def findall(self, text: Any, at: int = 0) -> Any:
        for _ in self.finditer(text, at):
            pass
        return counted(self._pattern.findall(text, at))

    def sub(self, by: Any, text: Any) -> Any:
        for _ in self.finditer(text):
            pass
        return counted(self._pattern.sub(by, text))

    def split(self, text: Any, most: int = 0) -> Any:
        for _ in self.finditer(text):
            pass
        return counted(self._pattern.split(text, most))

    def _run(self, text: Any, at: int, *, full: bool = False, advance: bool = False) -> int | None:
        plain = bytes(text).decode("latin-1") if isinstance(text, bytes) else str(text)
        return run(self._program, plain, at, full=full, advance=advance)

    def _judge(self, found: re.Match[Any] | None, end: int | None) -> _Match | None:
        assert (None if found is None else found.end()) == end, self._pattern.pattern
        return None if found is None else _Match(found)


Program = list[tuple[Any, ...]]


@functools.cache
def program(pattern: re.Pattern[Any]) -> Program:
    """The instructions of a regular expression. Raises `NotImplementedError` for what is not counted here."""
    if pattern.flags & (re.MULTILINE | re.LOCALE):
        raise NotImplementedError(f"flags of {pattern.pattern!r}")
    found: Program = []
    _sequence(_parser.parse(pattern.pattern, pattern.flags), pattern.flags, found)
    found.append(("end",))
    return found


def _sequence(nodes: Any, flags: int, out: Program) -> None:
    for kind, argument in nodes:
        _node(str(kind), argument, flags, out)


def _inner(nodes: Any, flags: int) -> Program:
    found: Program = []
    _sequence(nodes, flags, found)
    return [*found, ("end",)]


def _node(kind: str, argument: Any, flags: int, out: Program) -> None:
    match kind:
        case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
            out.append(("one", _one(kind, argument, flags)))
        case "SUBPATTERN":
            _, added, removed, nodes = argument
            _sequence(nodes, (flags | added) & ~removed, out)
        case "ATOMIC_GROUP":
            out.append(("atomic", _inner(argument, flags)))
        case "POSSESSIVE_REPEAT":
            inner: Program = []
            _repeat(argument, flags, inner, greedy=True)
            out.append(("atomic", [*inner, ("end",)]))
        case "MAX_REPEAT" | "MIN_REPEAT":
            _repeat(argument, flags, out, greedy=kind == "MAX_REPEAT")
        case "BRANCH":
            ends: list[int] = []
            for branch in argument[1]:
                split = len(out)
                out.append(("split", split + 1, None))
                _sequence(branch, flags, out)
                ends.append(len(out))
                out.append(("jump", None))
                out[split] = ("split", split + 1, len(out))
            out.append(("fail",))
            for end in ends:
                out[end] = ("jump", len(out))
        case "ASSERT" | "ASSERT_NOT":
            direction, nodes = argument
            back = 0 if direction > 0 else nodes.getwidth()[0]
            out.append(("look", _inner(nodes, flags), back, kind == "ASSERT"))
        case "AT":
            out.append(("at", str(argument)))
        case _:
            raise NotImplementedError(kind)


def _repeat(argument: Any, flags: int, out: Program, *, greedy: bool) -> None:
    least, most, nodes = argument
    for _ in range(least):
        _sequence(nodes, flags, out)

    def split() -> int:
        out.append(("split", None, None))
        return len(out) - 1

    def close(at: int) -> None:
        out[at] = ("split", at + 1, len(out)) if greedy else ("split", len(out), at + 1)

    if most == _parser.MAXREPEAT:
        if not nodes.getwidth()[0]:
            raise NotImplementedError("a repetition of what may be empty")
        again = split()
        _sequence(nodes, flags, out)
        out.append(("jump", again))
        close(again)
        return
    splits: list[int] = []
    for _ in range(most - least):
        splits.append(split())
        _sequence(nodes, flags, out)
    for at in splits:
        close(at)


_CATEGORIES: Final[dict[str, Callable[[str], bool]]] = {
    "DIGIT": str.isdecimal,
    "SPACE": str.isspace,
    "WORD": lambda c: c.isalnum() or c == "_",
}


def _one(kind: str, argument: Any, flags: int) -> Callable[[str], bool]:
    """Whether a character is one that a node takes."""
    if kind == "ANY":
        return (lambda _: True) if flags & re.DOTALL else (lambda c: c != "\n")
    items = argument if kind == "IN" else [("LITERAL", argument)]
    negate = kind == "NOT_LITERAL" or (kind == "IN" and str(items[0][0]) == "NEGATE")
    tests = [_item(str(name), what, flags) for name, what in items if str(name) != "NEGATE"]

    @functools.cache
    def takes(c: str) -> bool:
        forms = {c, c.lower(), c.upper()} if flags & re.IGNORECASE else {c}
        return any(test(form) for test in tests for form in forms) is not negate

    return takes


def _item(name: str, what: Any, flags: int) -> Callable[[str], bool]:
    match name:
        case "LITERAL":
            return lambda c: ord(c) == what
        case "RANGE":
            return lambda c: what[0] <= ord(c) <= what[1]
        case "CATEGORY":
            category = str(what).removeprefix("CATEGORY_")
            test, good = _CATEGORIES[category.removeprefix("NOT_")], not category.startswith("NOT_")
            return lambda c: (test(c) and (c.isascii() or not flags & re.ASCII)) is good
        case _:
            raise NotImplementedError(name)


def _is_word(text: str, at: int) -> bool:
    """Whether there is a letter, digit or underscore of ASCII at a place, as expressions of bytes see it."""
    return 0 <= at < len(text) and text[at].isascii() and (text[at].isalnum() or text[at] == "_")


_PLACES: Final[dict[str, Callable[[str, int], bool]]] = {
    "AT_BOUNDARY": lambda text, at: _is_word(text, at - 1) is not _is_word(text, at),
    "AT_BEGINNING": lambda _, at: at == 0,
    "AT_BEGINNING_STRING": lambda _, at: at == 0,
    "AT_END": lambda text, at: at == len(text) or (at == len(text) - 1 and text[at] == "\n"),
    "AT_END_STRING": lambda text, at: at == len(text),
}


def run(code: Program, text: str, start: int, *, full: bool = False, advance: bool = False) -> int | None:
    """Where a match that begins at `start` ends, if there is one. Each instruction is a step."""
    stack, size, done = [(0, start)], len(text), 0
    try:
        while stack:
            at, place = stack.pop()
            while True:
                done += 1
                instruction = code[at]
                at += 1
                match instruction[0]:
                    case "one":
                        if place >= size or not instruction[1](text[place]):
                            break
                        place += 1
                    case "split":
                        stack.append((instruction[2], place))
                        at = instruction[1]
                    case "jump":
                        at = instruction[1]
                    case "atomic":
                        end = run(instruction[1], text, place)
                        if end is None:
                            break
                        place = end
                    case "look" | "at":
                        if not _holds(instruction, text, place):
                            break
                    case "end":
                        if (full and place != size) or (advance and place == start):
                            break
                        return place
                    case _:
                        break
        return None
    finally:
        add(done)


def _holds(instruction: tuple[Any, ...], text: str, place: int) -> bool:
    """Whether a condition that takes no character is met at a place."""
    if instruction[0] == "at":
        return _PLACES[instruction[1]](text, place)
    _, code, back, wanted = instruction
    return (place >= back and run(code, text, place - back) is not None) is wanted
