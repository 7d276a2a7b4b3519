"""`mcprev list`: show the generated revisions, their contents and their sources."""

from __future__ import annotations

import dataclasses
from importlib import import_module

import click

from mcprev.cli.generated import AT
from mcprev.cli.table import echo, echo_json, echo_table


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(*, as_json: bool) -> None:
    """List the revisions, and the versions of the extensions of MCP.

    The columns are the status, the era (handshake: with `initialize`; stateless: without), the numbers of requests,
    notifications and types, and the upstream commit and SHA-256 of the schema. In a checkout with the generator, the
    open decisions follow. A pending revision is not offered to peers. An extension has its name in the capabilities of both
    sides, and each version the revision that it is based on.
    """
    from mcprev_types.extensions.index import EXTENSIONS
    from mcprev_types.index import LATEST, REVISIONS

    versions = [(name, info, one) for name, info in EXTENSIONS.items() for one in info.versions.values()]
    if as_json:
        rows = [dataclasses.asdict(info) | {"latest": name == LATEST} for name, info in REVISIONS.items()]
        extensions = [
            {"extension": name, "id": info.id}
            | dataclasses.asdict(one)
            | {"latest": one.version == info.latest}
            for name, info, one in versions
        ]
        echo_json({"format": 1, "revisions": rows, "extensions": extensions, "to_decide": _to_decide()})
        return
    echo_table(
        ("REVISION", "STATUS", "ERA", "REQ", "NOTIF", "TYPES", "COMMIT", "SHA256"),
        [
            (
                name,
                "latest" if name == LATEST else info.status,
                info.era,
                str(info.requests),
                str(info.notifications),
                str(info.types),
                info.commit[:12],
                info.sha256[:12],
            )
            for name, info in REVISIONS.items()
        ],
    )
    echo()
    echo_table(
        ("EXTENSION", "STATUS", "BASE", "REQ", "NOTIF", "TYPES", "NAME"),
        [
            (
                f"{name}{AT}{one.version}",
                "latest" if one.version == info.latest else one.status,
                one.base,
                str(one.requests),
                str(one.notifications),
                str(one.types),
                info.id or "-",
            )
            for name, info, one in versions
        ],
    )
    found = _to_decide()
    for line in ["to decide:", *found] if found else []:
        echo(line)


def _to_decide() -> list[str]:
    """Return the open decisions of this checkout; empty without a checkout or the generator."""
    try:
        lines: list[str] = import_module("mcprev_codegen.checkout").checkout_lines()
    except ModuleNotFoundError:
        return []
    return lines
