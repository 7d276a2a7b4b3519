"""`mcprev show REV`: show the methods and types of one revision, from the description in its package, or its schema.ts."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import click

from mcprev.cli import completing
from mcprev.cli.generated import Described, described_package
from mcprev.cli.table import echo, echo_json, echo_lines, echo_table

_ARROWS: Final = {
    ("client_to_server",): "client → server",
    ("server_to_client",): "server → client",
    ("client_to_server", "server_to_client"): "both ways",
}


@click.command("show")
@click.argument("revision", metavar="REV", shell_complete=completing.revisions_and_extensions)
@click.option(
    "--type",
    "type_name",
    metavar="NAME",
    shell_complete=completing.types,
    help="Show one type with its fields.",
)
@click.option(
    "--method",
    "method_name",
    metavar="NAME",
    shell_complete=completing.methods,
    help="Show one method, such as tools/call.",
)
@click.option(
    "--schema",
    "as_schema",
    is_flag=True,
    help="Print the schema.ts that mcprev has of the revision: every declaration, without upstream's comments.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON (a stable format, versioned by its 'format')."
)
def show_command(
    *, revision: str, type_name: str | None, method_name: str | None, as_schema: bool, as_json: bool
) -> None:
    """Show a revision, or one of its types or methods.

    REV is a revision, `latest`, an extension of MCP such as `skills`, or a version of one such as `tasks@draft`.

    Exit codes: 0 done, 2 usage, 3 a schema.ts that cannot be read (--schema).
    """
    if type_name and method_name:
        raise click.UsageError("pass --type or --method, not both")
    if as_schema and (type_name or method_name or as_json):
        raise click.UsageError("--schema prints the whole schema.ts as it is: pass no other option with it")
    named = _named(revision)
    if as_schema:
        _print_schema(named.label)
        return
    document = named.document()
    found = document
    show: Callable[[dict[str, Any], str], None] = _show_revision
    if type_name:
        found, show = _find(document, named.label, "types", "name", type_name), _show_type
    elif method_name:
        found, show = _find(document, named.label, "methods", "method", method_name), _show_method
    if as_json:
        echo_json(found)
    else:
        show(found, named.label if type_name or method_name else named.subject)


def _named(revision: str) -> Described:
    try:
        return described_package(revision)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="REV") from None


def _print_schema(label: str) -> None:
    """Print the pinned schema.ts, byte for byte; it is in the wheel, and reading it needs no extra."""
    # The runtime never imports the generator: its packages are loaded by name.
    codegen: Any = import_module("mcprev_codegen.commands")
    inputs: Any = import_module("mcprev_codegen.inputs")
    with codegen.errors_told():
        folder = inputs.schema_folder()
        extension, version = inputs.split_name(label)
        if extension is not None:
            folder = inputs.extension_folder(folder, extension)
        text: str = inputs.read_contract(folder, inputs.require_pin(folder, version))
    echo_lines(text.removesuffix("\n"))


def _find(document: dict[str, Any], label: str, member: str, key: str, wanted: str) -> dict[str, Any]:
    entries: list[dict[str, Any]] = document[member]
    for entry in entries:
        if entry[key] == wanted:
            return entry
    from mcprev.error_text import did_you_mean

    hint = did_you_mean(wanted, [entry[key] for entry in entries])
    what = "method" if key == "method" else "type"
    raise click.BadParameter(f"{label} has no {what} '{wanted}'{hint}", param_hint=f"--{what}")


def _show_type(entry: dict[str, Any], revision: str) -> None:
    echo(f"{entry['name']} ({entry['kind']}, {revision}), sent by: {entry['sent_by']}", bold=True)
    if entry["fields"]:
        rows = [(f["name"], "optional" if f["optional"] else "required", f["type"]) for f in entry["fields"]]
        echo_table(("FIELD", "PRESENCE", "TYPE"), rows)


def _show_method(entry: dict[str, Any], revision: str) -> None:
    echo(f"{entry['method']} ({entry['kind']}, {revision})", bold=True)
    results = [entry["result"], *entry["alternate_results"]] if entry["result"] else []
    params = entry["params"] or "none"
    rows = [
        ("direction", _ARROWS[tuple(entry["directions"])]),
        ("transport", entry["transport"]),
        ("message", entry["type"]),
        ("params", params + (" (optional)" if entry["params_optional"] and entry["params"] else "")),
        ("result", " | ".join(results) or "none"),
        ("capability", entry["capability"] or "none"),
    ]
    echo_table(("PROPERTY", "VALUE"), rows)


def _show_revision(document: dict[str, Any], subject: str) -> None:
    names = ", ".join(f"{name} = {value!r}" for name, value in document["constants"].items())
    based = "based on " if "extension" in document else ""
    title = f"{subject[0].upper()}{subject[1:]}"
    echo(f"{title} ({based}protocol version {document['protocol_version']})", bold=True)
    echo(f"Constants: {names}")
    echo()
    methods = [
        (
            m["method"],
            m["kind"],
            _ARROWS[tuple(m["directions"])],
            m["capability"] or "",
            " | ".join([m["result"], *m["alternate_results"]]) if m["result"] else "",
        )
        for m in document["methods"]
    ]
    echo_table(("METHOD", "KIND", "DIRECTION", "CAPABILITY", "RESULT"), methods)
    echo()
    types = [(t["name"], t["kind"], t["sent_by"], str(len(t["fields"]))) for t in document["types"]]
    echo_table(("TYPE", "KIND", "SENT BY", "FIELDS"), types)
