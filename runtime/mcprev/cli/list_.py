"""`mcprev list`: the generated revisions, with what they hold and what they were made from."""

from __future__ import annotations

import dataclasses
import json

import click

from mcprev.cli.table import echo_table


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, as_json: bool) -> None:
    """List the revisions: status, era, counts of requests, notifications and types, and pin."""
    from mcprev_types.index import LATEST, REVISIONS

    if as_json:
        rows = [dataclasses.asdict(info) | {"latest": name == LATEST} for name, info in REVISIONS.items()]
        click.echo(json.dumps({"format": 1, "revisions": rows}, indent=2))
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
