"""`mcprev explore`: a static site of all revisions. The generator makes the pages; this side hands it the rules of the ladder."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from mcprev.cli import completing
from mcprev.cli.table import echo
from mcprev.errors import Json

_SHOWN: Final = 10


@click.command("explore")
@click.argument("more", nargs=-1, metavar="[SCHEMA]...", shell_complete=completing.revisions)
@click.option(
    "--schema",
    "schemas",
    multiple=True,
    metavar="SCHEMA",
    help="Show this schema.ts or pinned revision, oldest first, instead of all pinned revisions. May be repeated.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="The folder to write: an empty folder, or one that this command has written before.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file is out of date.")
def explore_command(*, more: tuple[str, ...], schemas: tuple[str, ...], out: Path, check: bool) -> None:
    """Write a static site about all revisions.

    DIR/index.html opens in a browser, without a web server.

    It has a page for each type, method and pair of revisions, the rules by which mcprev converts between two, and a
    search. SCHEMA is a pinned revision, or a schema.ts: a path, an https URL, or REF:PATH of a git checkout.

    Exit codes: 0 done, 1 out of date (--check), 2 usage, 3 an invalid schema, or a folder that cannot be written.
    """
    started = time.perf_counter()
    # The runtime never imports the generator: its packages are loaded by name.
    explore: Any = import_module("mcprev_explore")
    codegen: Any = import_module("mcprev_codegen.commands")
    inputs: Any = import_module("mcprev_codegen.inputs")
    with codegen.errors_told():
        built = explore.build_site(
            inputs.schema_folder(), (*schemas, *more), out, site_ladder(explore), write=not check
        )
    for warning in built.warnings:
        echo(f"warning: {warning}", err=True)
    for path in built.foreign:
        echo(f"kept, because it is not part of the site: {path}", err=True)
    seconds, changed = time.perf_counter() - started, (*built.written, *built.deleted)
    size = f"{built.files} files, {built.size / 1e6:.1f} MB"
    if not changed:
        echo(f"{size}, up to date ({seconds:.1f} s)")
    elif check:
        for path in changed[:_SHOWN]:
            echo(f"out of date: {out / path}", err=True)
        echo(f"{len(changed)} of {built.files} files are out of date; run the same command without --check")
        sys.exit(1)
    else:
        echo(f"{size} ({seconds:.1f} s): open {out / 'index.html'}")


def site_ladder(explore: Any) -> object:  # noqa: ANN401 - a module that is loaded by name
    """Return what the site says of conversions."""
    from mcprev.analysis.catalog import catalog
    from mcprev.analysis.counterparts import counterpart, http_headers
    from mcprev.analysis.explaining import explain
    from mcprev.conversion import PayloadKind
    from mcprev.revisions import ALL

    def explained(payload: Json, method: str, kind: str, source: str, target: str) -> tuple[object, str, str]:
        found = explain(payload, method, kind, from_=source, to=target, mint=lambda: "made-by-the-rule")
        return found, found.error.rule if found.error else "", str(found.error or "")

    methods = dict.fromkeys(name for row in ALL for name in row.methods)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    return explore.Ladder(
        order=tuple(row.name for row in ALL),
        rules=catalog(),
        explain=explained,
        kinds={
            PayloadKind.CLIENT_CAPABILITIES: "ClientCapabilities",
            PayloadKind.SERVER_CAPABILITIES: "ServerCapabilities",
            PayloadKind.IMPLEMENTATION: "Implementation",
        },
        counterparts={
            row.name: {
                name: counterpart(name, row).sentence for name in methods if counterpart(name, row).text
            }
            for row in ALL
        },
        transports={row.name: http_headers(ping, row)[1] for row in ALL},
    )
