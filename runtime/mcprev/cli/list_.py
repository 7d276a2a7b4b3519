"""`mcprev list`: show the generated revisions, their contents and their sources."""

from __future__ import annotations

import dataclasses
from importlib import import_module

import click

from mcprev.cli.table import echo, echo_json, echo_table


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(*, as_json: bool) -> None:
    """List the revisions.

    The columns are the status, the era (handshake: with `initialize`; stateless: without), the numbers of requests,
    notifications and types, and the upstream commit and SHA-256 of the schema. In a checkout with the generator, the
    open decisions follow. A pending revision is not offered to peers.
    """
    from mcprev_types.index import LATEST, REVISIONS

    if as_json:
        rows = [dataclasses.asdict(info) | {"latest": name == LATEST} for name, info in REVISIONS.items()]
        echo_json({"format": 1, "revisions": rows, "to_decide": _to_decide()})
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
