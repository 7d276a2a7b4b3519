"""The arguments of a tool or prompt on a command line, and the check of them before they are sent."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from mcprev.cli.exit_codes import ExitCode, Failure, MismatchError
from mcprev.cli.table import clean, echo
from mcprev.error_text import did_you_mean
from mcprev.errors import Json, SchemaError
from mcprev.json_schema.bounds import LIST, OBJECT, ValidationIssue
from mcprev.json_schema.validation import SHOWN, compile_schema
from mcprev.wire.json_values import is_json_object
from mcprev.wire.jsonrpc import MAX_LINE

HINT: Final = "ARGS"
HOW: Final = "write NAME=VALUE, NAME:=JSON, a JSON object, @FILE, or - for standard input"
_TEXT: Final = "string"


def read_arguments(words: Sequence[str], schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return the arguments that words of a command line say; a VALUE is read as the type that the schema has for it.

    Raises `click.ClickException` for a word that says none.
    """
    found: dict[str, Json] = {}
    for word in words:
        for name, value in _members(word, schema).items():
            if name in found:
                raise click.BadParameter(f"the argument '{clean(name)}' is given twice", param_hint=HINT)
            found[name] = value
    return found


def _members(word: str, schema: Mapping[str, Json]) -> dict[str, Json]:
    if word == "-":
        return _object(_standard_input(), "standard input")
    if word.startswith("@"):
        return _object(_file(word[1:]), f"'{clean(word[1:])}'")
    if word.lstrip().startswith("{"):
        return _object(word, "the argument")
    name, equals, value = word.partition("=")
    if not equals or not name.rstrip(":"):
        raise click.BadParameter(f"'{clean(word[:80])}' is not an argument; {HOW}", param_hint=HINT)
    if name.endswith(":"):
        return {name[:-1]: _json(value, f"the value of '{clean(name[:-1])}'")}
    return {name: typed_value(value, _property(schema, name))}


def _property(schema: Mapping[str, Json], name: str) -> Json:
    members: Json = schema.get("properties")
    return members.get(name) if is_json_object(members) else None


def typed_value(text: str, schema: Json) -> Json:
    """Return a text as the value that its schema wants: JSON if that has another type than a string."""
    types = types_of(schema, 0)
    if not types or types == {_TEXT}:
        return text
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text
    return text if _TEXT in types and not _is_one_of(value, types) else value


def types_of(schema: Json, depth: int) -> set[str]:
    """Return the names of the types that a schema allows; empty if it does not say."""
    if not isinstance(schema, OBJECT) or depth > 5:
        return set()
    given: Json = schema.get("type")
    if isinstance(given, str):
        return {given}
    if isinstance(given, LIST):
        return {each for each in given if isinstance(each, str)}
    for keyword in ("anyOf", "oneOf"):
        options: Json = schema.get(keyword)
        if isinstance(options, LIST):
            return {name for option in options for name in types_of(option, depth + 1)}
    choices: Json = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, LIST):
        return {_type_of(choice) for choice in choices}
    # A reference, or nothing that is said of the type: JSON is tried, and any other text is a string.
    return {_TEXT, "object", "array", "number", "boolean", "null"} if "$ref" in schema else set()


def _type_of(value: Json) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, int | float):
        return "number"
    return _TEXT if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _is_one_of(value: Json, types: set[str]) -> bool:
    kind = _type_of(value)
    return kind in types or (kind == "number" and "integer" in types)


# -- texts -------------------------------------------------------------------------------------------------


def _standard_input() -> str:
    return _decoded(sys.stdin.buffer.read(MAX_LINE + 1), "standard input")


def _file(path: str) -> str:
    return _decoded(read_file(path), f"'{clean(path)}'")


def read_file(path: str) -> bytes:
    """Return the bytes of a file that the user names. Raises `Failure`."""
    try:
        with Path(path).open("rb") as stream:
            return stream.read(MAX_LINE + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Failure(
            f"cannot read '{clean(path)}': {why}; name a file with a JSON object", ExitCode.USAGE
        ) from None


def _decoded(data: bytes, where: str) -> str:
    if len(data) > MAX_LINE:
        raise Failure(f"{where} has more than {MAX_LINE} bytes, the maximum of a message", ExitCode.USAGE)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Failure(
            f"{where} is not UTF-8 text: byte {error.start} is {data[error.start]:#04x}; write a JSON object",
            ExitCode.USAGE,
        ) from None


def parse_object(data: bytes, where: str) -> dict[str, Json]:
    """Return the JSON object in the bytes of a file. Raises `click.ClickException`."""
    return _object(_decoded(data, where), where)


def _object(text: str, where: str) -> dict[str, Json]:
    found = _json(text, where)
    if not isinstance(found, OBJECT):
        raise click.BadParameter(f'{where} is not a JSON object, such as {{"name": 1}}', param_hint=HINT)
    members: dict[str, Json] = found
    return members


def _json(text: str, where: str) -> Json:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise click.BadParameter(f"{where} is nested too deeply", param_hint=HINT) from None
    except ValueError as error:
        raise click.BadParameter(f"{where} is not JSON: {clean(str(error))}", param_hint=HINT) from None


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not a JSON value")


def prompt_schema(prompt: Any) -> dict[str, Json]:  # noqa: ANN401 - a model
    """Return the arguments of a prompt as a schema: strings, of which some are required."""
    arguments: list[Any] = prompt.arguments or []
    return {
        "type": "object",
        "properties": {each.name: {"type": "string"} for each in arguments},
        "required": [each.name for each in arguments if each.required],
        "additionalProperties": False,
    }


# -- checks ------------------------------------------------------------------------------------------------


def check_arguments(
    what: str, arguments: Mapping[str, Json], schema: Mapping[str, Json], next_step: str
) -> None:
    """Raise `MismatchError` with the JSON path of each mistake for arguments that the schema does not allow."""
    try:
        issues = compile_schema(schema, trusted=False)(arguments)
    except SchemaError as error:
        echo(f"Warning: the arguments are not checked before they are sent: {error}", err=True)
        return
    if issues:
        lines = [f"the arguments do not fit {clean(what)}; nothing was sent"]
        lines += [_told(issue, schema) for issue in issues[:SHOWN]]
        if len(issues) > SHOWN:
            lines.append(f"and {len(issues) - SHOWN} more")
        raise MismatchError("\n".join(lines), ExitCode.USAGE, next_step)


def _told(issue: ValidationIssue, schema: Mapping[str, Json]) -> str:
    path, text = issue
    where = "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    hint = ""
    members: Json = schema.get("properties")
    if len(path) == 1 and is_json_object(members) and path[0] not in members:
        hint = did_you_mean(str(path[0]), members)
    return clean(f"{where[:200]} {text[:300]}{hint}")
