"""`mcprev inspect URL` or `-- COMMAND`: show a server, its lists and how its revision was found (NEG-12, PAGE-1).

Uses the public client API. The output has the types of the latest revision, whichever is spoken. Text of the server is
escaped, so that it cannot move the cursor or break a row.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

import click

from mcprev.cli.command_target import TargetCommand, read_target, target_of_server
from mcprev.cli.connecting import MAX_WARNINGS, ServerOutput, told_failures, told_output, told_warnings, warn
from mcprev.cli.known_names import remember
from mcprev.cli.options import (
    env_option,
    header_option,
    login_option,
    record_option,
    revision_names,
    revisions_option,
    stderr_option,
    target_argument,
    timeout_option,
)
from mcprev.cli.pages import hidden_pages, page_extensions, page_rows, pages_option
from mcprev.cli.skills import listed_skills, print_skills, wrong_files
from mcprev.cli.stopping import run
from mcprev.cli.table import clean, echo, echo_json, echo_lines, echo_table
from mcprev.cli.valid_entries import invalid_entries
from mcprev.core.valid_entries import told_entries
from mcprev.error_text import last_line
from mcprev.extensions.skills.rules import NAME as SKILLS
from mcprev.wire.json_values import is_json_object

if TYPE_CHECKING:
    from mcprev.client.client import Client
    from mcprev.client.targets import Target
    from mcprev.errors import Json

MAX_EVIDENCE: Final = 160
"""The maximum number of characters of a step of the negotiation that are shown."""
MAX_NOTES: Final = 1000
"""The maximum number of HTTP responses that are judged, the last ones."""
_SECTIONS: Final = (
    ("tools", "tools", "TOOL", "name"),
    ("resources", "resources", "RESOURCE", "uri"),
    ("resource_templates", "resources", "RESOURCE TEMPLATE", "uriTemplate"),
    ("prompts", "prompts", "PROMPT", "name"),
)
"""For each list: the client method, the capability, the heading, and the member of the first column."""


@click.command("inspect", cls=TargetCommand)
@revisions_option
@timeout_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON (versioned by its 'format').")
@click.option(
    "--schemas",
    is_flag=True,
    help="Also print the schemas of tools and the arguments of prompts. --json has them.",
)
@click.option(
    "--verify", is_flag=True, help="Read all files of all skills, and check their digests and sizes."
)
@pages_option
@header_option
@env_option
@login_option
@stderr_option
@record_option
@target_argument
def inspect_command(
    *,
    names: tuple[str, ...],
    timeout: float,
    as_json: bool,
    schemas: bool,
    verify: bool,
    pages: bool,
    headers: tuple[str, ...],
    env: tuple[str, ...],
    login: bool | None,
    record: str | None,
    argv: tuple[str, ...],
) -> None:
    """Show the capabilities, tools, resources and prompts of a server.

    TARGET is an http or https URL; a file or module with a mcprev.Server or mcprev.App, as for `mcprev serve`; NAME or
    NAME@HOST from the configuration of a host; or, after --, a command to start, which speaks MCP over its stdin and
    stdout. A command inherits few environment variables; -e adds more.
    """
    chosen = revision_names(names)
    server = read_target(argv, headers=headers, env=env)
    notes: deque[dict[str, Json]] = deque(maxlen=MAX_NOTES)
    with told_output() as output:
        with told_failures(server, timeout), told_warnings():
            target = target_of_server(server, login=login, stderr=output.read)
            document = run(
                inspect_server(target, chosen, timeout, notes, record, output, pages=pages, verify=verify)
            )
            for name in document["capabilities"]:
                if isinstance(document.get(name), list):
                    remember(server, name, document[name])
            for text in (*_schema_warnings(document), *_http_warnings(notes, document["revision"])):
                warn(text)
        if as_json:
            echo_json(document)
        else:
            _print(document)
            if pages:
                _print_pages(document)
            if schemas:
                _print_schemas(document)
        hidden = "" if pages else hidden_pages(document["capabilities"], document["revision"])
        if hidden:
            echo(f"Note: {hidden}", err=True)
        errors: dict[str, str] = document["errors"]
        if errors:
            text = "; ".join(f"{name.replace('_', ' ')}: {clean(_line(why))}" for name, why in errors.items())
            raise click.ClickException(f"the server failed to list what its capabilities declare: {text}")
        if wrong_files(document.get("skills") or ()):
            raise click.ClickException("files of skills are not those of their entries")


# -- requests ----------------------------------------------------------------------------------------------


async def inspect_server(
    target: Target,
    names: list[str] | None,
    seconds: float,
    notes: deque[dict[str, Json]],
    record: str | None,
    output: ServerOutput,
    *,
    pages: bool = False,
    verify: bool = False,
) -> dict[str, Any]:
    """Return what `--json` prints of a server; `notes` get the facts of HTTP responses. Raises what the connection raises.

    `pages` says whether the client declares that it shows pages, `verify` whether all files of skills are read.
    """
    import mcprev
    from mcprev.client.connect_options import PROBE
    from mcprev.client.recording.responses import ResponseNotes

    opening = mcprev.connect(
        target,
        revisions=names,
        timeout=seconds,
        total_timeout=seconds,
        probe_timeout=min(PROBE, seconds),
        open_timeout=seconds,
        record=record,
        extensions=page_extensions(pages=pages),
        tap=ResponseNotes(notes.append),
    )
    async with opening as client:
        output.connected(client.plan)
        document, errors = _describe(client), dict[str, str]()
        for name, capability, _, _ in _SECTIONS:
            declared = capability in document["capabilities"]
            document[name] = await _list(client, name, seconds, errors) if declared else None
        if client.extension_settings(SKILLS) is not None:
            document["skills"] = await listed_skills(client, seconds, errors, verify=verify)
        return {**document, "errors": errors}


def _describe(client: Client) -> dict[str, Any]:
    """Return the facts that need no further request."""
    from mcprev.protocol.negotiation.steps import Ready

    step, info = client.plan.step, client.server_info
    assert isinstance(step, Ready)
    return {
        "format": 1,
        "revision": client.revision,
        "reached_by": step.method.value,
        "evidence": list(client.plan.evidence),
        "server": None if info is None else info.to_wire(),
        "instructions": client.instructions,
        "capabilities": client.capabilities.to_wire(),
    }


async def _list(client: Client, name: str, seconds: float, errors: dict[str, str]) -> list[dict[str, Any]]:
    """Return all entries of one list. Errors end only this list, unless the connection is lost."""
    from mcprev.errors import ConnectionLost, McpError, MethodNotFound, RequestTimeout

    # The timeout covers all pages, so that a server cannot send pages forever.
    pages: AsyncIterator[Any] = getattr(client, name)(total_timeout=seconds)
    found: list[dict[str, Any]] = []
    try:
        async for item in pages:
            found.append(item.to_wire())  # noqa: PERF401 - what came before an error is kept
    except ConnectionLost:
        raise
    except RequestTimeout as error:
        errors[name] = f"not complete within {seconds:g} s" if error.kind == "total" else str(error)
    except MethodNotFound as error:
        # Templates have no capability of their own: many servers with resources lack the method.
        if name != "resource_templates":
            errors[name] = str(error)
    except McpError as error:
        errors[name] = str(error) or type(error).__name__
    wrong = told_entries(invalid_entries(client, name))
    if wrong:
        errors[name] = "; ".join([*([errors[name]] if name in errors else []), *wrong])
    return found


# -- output ------------------------------------------------------------------------------------------------


def _print(document: dict[str, Any]) -> None:
    server: dict[str, Any] = document["server"] or {}
    revisions = [("revision", document["revision"]), ("reached by", document["reached_by"])]
    revisions += [("evidence", _evidence(step)) for step in document["evidence"]]
    revisions += [
        (f"server {key}", _line(server[key])) for key in ("name", "title", "version") if key in server
    ]
    if document["instructions"] is not None:
        revisions.append(("instructions", _line(document["instructions"])))
    revisions += [("capability", _capability(*pair)) for pair in document["capabilities"].items()]
    echo_table(("PROPERTY", "VALUE"), revisions)
    for name, _, heading, key in _SECTIONS:
        items: list[dict[str, Any]] | None = document[name]
        if items is None:
            continue
        echo()
        second = "DESCRIPTION" if key == "name" else "NAME"
        revisions = [(_line(item[key]), _line(_about(item, key))) for item in items]
        echo_table((heading, second), revisions or [("(none)", "")])
    if "skills" in document:
        echo()
        print_skills(document["skills"])


def _print_pages(document: dict[str, Any]) -> None:
    rows = page_rows(document["tools"] or (), document["resources"] or ())
    echo()
    echo_table(("PAGE", "TOOLS"), [(_line(uri), _line(names)) for uri, names in rows] or [("(none)", "")])


def _print_schemas(document: dict[str, Any]) -> None:
    """Print the schemas of each tool and the arguments of each prompt."""
    for tool in document["tools"] or ():
        for member in ("inputSchema", "outputSchema"):
            if member in tool:
                echo()
                echo(f"{_line(tool['name'])} {member}", bold=True)
                echo_lines(json.dumps(tool[member], indent=2))
    for prompt in document["prompts"] or ():
        echo()
        rows = [
            (
                _line(each["name"]),
                "required" if each.get("required") else "optional",
                _line(each.get("description") or ""),
            )
            for each in prompt.get("arguments") or ()
        ]
        echo_table(
            (f"ARGUMENT OF {_line(prompt['name'])}", "PRESENCE", "DESCRIPTION"), rows or [("(none)", "", "")]
        )


def _schema_warnings(document: dict[str, Any]) -> list[str]:
    """Return what is wrong with the schemas of tools: those that nobody could check arguments or results against."""
    from mcprev.errors import SchemaError
    from mcprev.json_schema.validation import compile_schema

    found: list[str] = []
    for tool in document["tools"] or ():
        for member in ("inputSchema", "outputSchema"):
            try:
                compile_schema(tool.get(member, {}), trusted=False)
            except SchemaError as error:
                found.append(clean(f"the {member} of the tool '{tool['name']}' cannot be used: {error}"))
    return found


def _http_warnings(notes: deque[dict[str, Json]], revision: str) -> list[str]:
    """Return what is wrong with HTTP responses outside of their bodies, once for each method."""
    from mcprev.analysis.exchanges import judge_response
    from mcprev.revisions import revision_named

    row = revision_named(revision)
    found = [(one, note.get("verb", "")) for note in notes for one in judge_response(note, row)]
    texts = [f"the HTTP response to {one.method or verb}: {one.path}: {one.message}" for one, verb in found]
    return [clean(text) for text in dict.fromkeys(texts)][:MAX_WARNINGS]


def _about(item: dict[str, Any], key: str) -> str:
    """Return the last column: the description, after the name if another member is in the first column."""
    about = item.get("description") or item.get("title") or ""
    if key == "name":
        return str(about)
    return f"{item['name']}: {about}" if about else str(item["name"])


def _evidence(step: str) -> str:
    """Return a step of the negotiation in one line, without what a process that ended wrote to stderr before its last line."""
    first, _, written = step.partition("\n")
    line = last_line(written)
    shown = _line(f"{first}: {line}" if line else first)
    return shown if len(shown) <= MAX_EVIDENCE else f"{shown[:MAX_EVIDENCE]}..."


def _capability(name: str, value: object) -> str:
    """Return a capability with its enabled options."""
    members = value if is_json_object(value) else {}
    inside = [key for key, switch in members.items() if switch is not False]
    return _line(f"{name} ({', '.join(inside)})" if inside else name)


def _line(value: object) -> str:
    return " ".join(str(value).split())
