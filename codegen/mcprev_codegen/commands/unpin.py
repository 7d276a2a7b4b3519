"""`mcprev unpin`: deletes the contract and the pin of a revision."""

from __future__ import annotations

import click

from mcprev_codegen.commands import errors_told
from mcprev_codegen.terminal import echo


@click.command("unpin")
@click.argument("revision", metavar="REV")
def unpin_command(*, revision: str) -> None:
    """Delete the schema and the pin of a revision.

    The next `mcprev generate` deletes its package.

    Files and entries written by hand for REV are kept and listed. Exit codes: 0 done, 2 usage, 3 REV is not pinned.
    """
    from mcprev_codegen.checkout import decision_lines
    from mcprev_codegen.inputs import remove_pin, schema_folder

    with errors_told():
        folder = schema_folder(to_write=True)
        remove_pin(folder, revision)
    echo(f"unpinned {revision}; next: mcprev generate")
    found = decision_lines(folder)
    for line in ["to decide:", *found] if found else []:
        echo(line)
