"""Answers to the questions of a server: typed at a terminal, or out of a file (ELIC-1, ELIC-7, SAMP-1, ROOT-1)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import click

from mcprev.cli.arguments import parse_object, read_file
from mcprev.cli.table import clean, echo, echo_lines, show_progress
from mcprev.cli.terminal_input import TerminalInput
from mcprev.error_text import did_you_mean
from mcprev.errors import Json, RpcError, SchemaError
from mcprev.json_schema.bounds import LIST, OBJECT
from mcprev.json_schema.validation import compile_schema, describe
from mcprev.protocol.mrtr import without_empty_fields
from mcprev.wire.json_values import is_json_list, is_json_object
from mcprev_types.latest import models

REJECTED: Final = -1
"""The code of the error for a message that the user does not want to write."""
_MEMBERS: Final = ("elicitation", "sampling", "roots")
_ACTIONS: Final = ("accept", "decline", "cancel")
_TRIES: Final = 5
_CHOICES: Final = re.compile(r"\[(\w)\](\w+)")
"""A word of a question, with the letter that stands for it."""
_DECLARED: Final[dict[str, Json]] = {"elicitation": {"form": {}, "url": {}}}


def read_answers(file: str) -> dict[str, Json]:
    """Return the answers in a file. Raises `click.ClickException`.

    `elicitation` is the content of a form, or `accept`, `decline` or `cancel`; `sampling` a text or a whole result;
    `roots` a list of paths or URIs. The first two may be lists, whose items answer one question after the other.
    """
    found = parse_object(read_file(file), f"'{clean(file)}'")
    for name in found:
        if name not in _MEMBERS:
            hint = did_you_mean(name, _MEMBERS) or f"; it has {', '.join(_MEMBERS)}"
            raise click.BadParameter(
                f"'{clean(file)}' has a member '{clean(name)}'{hint}", param_hint="--answer"
            )
    roots: Json = found.get("roots", [])
    if not isinstance(roots, LIST) or not all(isinstance(root, str) for root in roots):
        raise click.BadParameter("`roots` is a list of paths or file: URIs", param_hint="--answer")
    return found


@dataclass(slots=True)
class Answers:
    """Answers the questions of a server, one after the other."""

    saved: Mapping[str, Json] | None
    """Answers out of a file; None: the user is asked."""
    roots: Sequence[str] = ()
    """Paths and URIs that the server may know."""
    _terminal: TerminalInput | None = None
    _used: dict[str, int] = field(default_factory=dict[str, int])
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def options(self) -> dict[str, Any]:
        """Return the options of `mcprev.connect` for what can be answered; the client declares just that."""
        found: dict[str, Any] = {}
        by_hand = self.saved is None and TerminalInput.is_there()
        roots = [*self.roots, *(self.saved or {}).get("roots", ())]
        if roots or by_hand or "roots" in (self.saved or {}):
            found["roots"] = roots
        if by_hand:
            self._terminal = TerminalInput()
        if by_hand or "elicitation" in (self.saved or {}):
            found["elicitation"] = self._elicit
            found["capabilities"] = models.ClientCapabilities.from_wire(_DECLARED)
        if by_hand or "sampling" in (self.saved or {}):
            found["sampling"] = self._sample
        return found

    @property
    def by_hand(self) -> bool:
        """Whether the user is asked, who takes his time."""
        return self._terminal is not None

    def _next(self, name: str) -> Json:
        """Return the next answer of the file. Raises `RpcError` after the last one."""
        given: Json = (self.saved or {}).get(name)
        if not isinstance(given, LIST):
            return given
        answers: list[Json] = given
        used = self._used.get(name, 0)
        self._used[name] = used + 1
        if used >= len(answers):
            echo(
                f"Warning: the server sends more requests than the {len(answers)} answers in `{name}`",
                err=True,
            )
            raise RpcError(f"the file has no answer number {used + 1} for this request", code=REJECTED)
        return answers[used]

    # -- elicitation ---------------------------------------------------------------------------------------

    async def _elicit(self, params: models.ElicitRequestParams) -> models.ElicitResult:
        async with self._turn:
            is_form = isinstance(params, models.ElicitRequestFormParams)
            wire = cast("models.ElicitRequestFormParams", params).to_wire()
            schema: Mapping[str, Json] = wire.get("requestedSchema") or {} if is_form else {}
            if self._terminal is None:
                return _answer_of_file(self._next("elicitation"), schema, is_form=is_form)
            show_progress("")
            echo("the server asks:", err=True, bold=True)
            _quote(params.message)
            if is_form:
                return await self._fill_in(self._terminal, schema)
            return await self._visit(self._terminal, str(wire.get("url")))

    async def _fill_in(self, terminal: TerminalInput, schema: Mapping[str, Json]) -> models.ElicitResult:
        """Ask for each field of a form, hold each answer against its schema, and the whole at the end."""
        chosen = await _choice(terminal, "[a]nswer field by field, [d]ecline or [c]ancel? [a] ", "adc")
        if chosen != "a":
            return _result("decline" if chosen == "d" else "cancel")
        required: set[str] = set(schema.get("required") or [])
        content: dict[str, Json] = {}
        members: Mapping[str, Json] = schema.get("properties") or {}
        for name, given in members.items():
            answered, value = await _field(terminal, name, given, required=name in required)
            if not answered:
                return _result("cancel")
            if value is not _ABSENT:
                content[name] = value
        issues = compile_schema(schema, trusted=False)(content)
        if issues:
            echo(f"cancelled: the answers do not match the form: {describe(issues, '$')}", err=True)
            return _result("cancel")
        return _result("accept", content)

    @staticmethod
    async def _visit(terminal: TerminalInput, url: str) -> models.ElicitResult:
        """Show a URL, and open it only if the user wants that."""
        from mcprev.auth.client.loopback import open_browser
        from mcprev.errors import AuthError

        echo(f"  {url}", err=True)
        chosen = await _choice(terminal, "open this page in a browser? [y]es, [n]o, [c]ancel: [n] ", "nyc")
        if chosen == "y":
            try:
                open_browser(url)
            except AuthError as error:
                echo(f"not opened: {error}", err=True)
                return _result("cancel")
            return _result("accept")
        return _result("decline" if chosen == "n" else "cancel")

    # -- sampling ------------------------------------------------------------------------------------------

    async def _sample(self, params: models.CreateMessageRequestParams) -> models.CreateMessageResult:
        async with self._turn:
            if self._terminal is None:
                return _message_of_file(self._next("sampling"))
            show_progress("")
            echo("the server sends a sampling request; write the message of the model:", err=True, bold=True)
            if params.system_prompt:
                echo("system:", err=True)
                _quote(params.system_prompt)
            for message in params.messages:
                echo(f"{message.role}:", err=True)
                _quote(_text_of(message.content))
            echo(
                f"write at most {params.max_tokens} tokens; an empty line ends the message, an empty message declines the request",
                err=True,
            )
            lines: list[str] = []
            while line := await self._terminal.line("> "):
                lines.append(line)
            if not lines:
                raise RpcError("the user rejected the sampling request", code=REJECTED)
            return _message_of_file("\n".join(lines))


_ABSENT: Final = object()


def _result(action: str, content: Mapping[str, Json] | None = None) -> models.ElicitResult:
    found: dict[str, Json] = {"action": action}  # makes ElicitResult
    whole = found if content is None else without_empty_fields({**found, "content": dict(content)})
    return models.ElicitResult.from_wire(whole)


def _answer_of_file(answer: Json, schema: Mapping[str, Json], *, is_form: bool) -> models.ElicitResult:
    if answer is None or answer in _ACTIONS:
        return _result(answer or "decline", {} if answer == "accept" and is_form else None)
    if not is_json_object(answer) or not is_form:
        echo(
            f"Warning: cancelled: an answer in `elicitation` must be an object, or one of {', '.join(_ACTIONS)}",
            err=True,
        )
        return _result("cancel")
    issues = compile_schema(schema, trusted=False)(answer)
    if issues:
        echo(
            f"Warning: cancelled: an answer in the file does not match the form: {describe(issues, '$')}",
            err=True,
        )
        return _result("cancel")
    return _result("accept", answer)


def _message_of_file(answer: Json) -> models.CreateMessageResult:
    if isinstance(answer, str):
        content = {"type": "text", "text": answer}
        answer = {  # makes CreateMessageResult
            "role": "assistant",
            "content": content,
            "model": "human",
            "stopReason": "endTurn",
        }
    if not is_json_object(answer):
        raise RpcError("the user rejected the sampling request", code=REJECTED)
    return models.CreateMessageResult.from_wire(answer)


def _text_of(content: object) -> str:
    blocks = content if is_json_list(content) else [content]
    return "\n".join(
        block.text if isinstance(block, models.TextContent) else f"[{getattr(block, 'type', 'content')}]"
        for block in blocks
    )


def _quote(text: str) -> None:
    echo_lines("\n".join(f"  {clean(line)}" for line in text[:10_000].split("\n")), err=True)


# -- fields ------------------------------------------------------------------------------------------------


async def _choice(terminal: TerminalInput, question: str, letters: str) -> str:
    """Return one of the letters: the user types it or its word. The first for an empty line, `c` at the end of the input."""
    words: dict[str, str] = {
        word: letter for letter, rest in _CHOICES.findall(question) for word in (letter, letter + rest)
    }
    for _ in range(_TRIES):
        line = await terminal.line(question)
        if line is None:
            break
        if (letter := words.get(line.strip().lower() or letters[0])) is not None:
            return letter
        echo(f"  type {', '.join(letters[:-1])} or {letters[-1]}, or its word", err=True)
    return "c"


async def _field(terminal: TerminalInput, name: str, schema: Json, *, required: bool) -> tuple[bool, Json]:
    """Return whether the user answered, and the value of a field; an optional field may stay absent."""
    field_: Mapping[str, Json] = schema if isinstance(schema, OBJECT) else {}
    options = _options(field_)
    title = field_.get("title") or name
    echo(
        f"{title}{'' if required else ' (optional)'}: {field_.get('description') or ''}".rstrip(": "),
        err=True,
    )
    for number, (value, label) in enumerate(options, 1):
        shown = "" if label == value else f" ({value})"
        echo(f"  {number}. {label}{shown}", err=True)
    default = field_.get("default", _ABSENT)
    end = "" if default is _ABSENT else f" [{json.dumps(default, ensure_ascii=False)}]"
    kind = "numbers, with commas" if field_.get("type") == "array" else field_.get("type") or "value"
    for _ in range(_TRIES):
        line = await terminal.line(f"  {'number' if options and kind == 'string' else kind}{end}> ")
        if line is None:
            return False, None
        if not line:
            if default is not _ABSENT or not required:
                return True, default
            echo("  an answer is required; Ctrl+D cancels", err=True)
            continue
        value = _value(line, field_, [each for each, _ in options])
        try:
            issues = compile_schema(dict(field_), trusted=False)(value)
        except SchemaError as error:
            issues = [((), str(error))]
        if not issues:
            return True, value
        echo(f"  {describe(issues, name)}", err=True)
    return False, None


def _options(schema: Mapping[str, Json]) -> list[tuple[str, str]]:
    """Return the choices of a field with their labels."""
    inner: Json = schema.get("items") if schema.get("type") == "array" else schema
    if not is_json_object(inner):
        return []
    titled: Json = inner.get("oneOf") or inner.get("anyOf")
    if isinstance(titled, LIST):
        pairs: list[Mapping[str, Json]] = [each for each in titled if isinstance(each, OBJECT)]
        return [(str(each.get("const")), str(each.get("title") or each.get("const"))) for each in pairs]
    values = [*map(str, inner.get("enum") or [])]
    names = [*map(str, inner.get("enumNames") or values)]
    return [*zip(values, names, strict=False)]


def _value(line: str, schema: Mapping[str, Json], options: Sequence[str]) -> Json:
    """Return a line as a value of the type of the field."""
    if schema.get("type") == "array":
        return [_picked(part.strip(), options) for part in line.split(",") if part.strip()]
    if options:
        return _picked(line.strip(), options)
    text = line.strip().lower()
    if schema.get("type") == "boolean" and text in {"y", "yes", "true", "n", "no", "false"}:
        return text[0] in "yt"
    if schema.get("type") in {"number", "integer"}:
        try:
            return json.loads(text)
        except ValueError:
            return line
    return line


def _picked(text: str, options: Sequence[str]) -> str:
    """Return the option of a number, or the text, which may be the option itself."""
    if text not in options and text.isdecimal() and 1 <= int(text[:9]) <= len(options):
        return options[int(text[:9]) - 1]
    return text
