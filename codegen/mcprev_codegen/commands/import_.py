"""`mcprev import`: pins a schema.ts from upstream and writes its contract."""

from __future__ import annotations

import click

from mcprev_codegen.commands import errors_told
from mcprev_codegen.terminal import echo


@click.command("import")
@click.argument("source", metavar="PATH_OR_URL")
@click.option("--revision", required=True, metavar="REV", help="The date of the revision, or 'draft'.")
@click.option(
    "--commit",
    metavar="SHA",
    help="The upstream commit, if PATH_OR_URL does not determine it; the version of a package, if --location is a `pkg:` URL.",
)
@click.option("--location", metavar="URL", help="The upstream URL of the file, if it is not the usual one.")
@click.option("--repin", is_flag=True, help="Replace the pin of REV if it is for another file.")
@click.option(
    "--extension", metavar="NAME", help="The extension in schema/extensions.toml that REV is a version of."
)
@click.option("--base", metavar="REV", help="The revision that a version of an extension is based on.")
@click.option("--spec", metavar="URL", help="The specification of a version of an extension.")
@click.option(
    "--written",
    is_flag=True,
    help="PATH_OR_URL was written from the text at --location, which has no schema.ts.",
)
def import_command(
    *,
    source: str,
    revision: str,
    commit: str | None,
    location: str | None,
    repin: bool,
    extension: str | None,
    base: str | None,
    spec: str | None,
    written: bool,
) -> None:
    """Import and pin a schema.ts as a revision.

    PATH_OR_URL is the file, REV its revision. Its declarations are written to schema/REV/schema.ts in canonical form,
    without prose; its source is recorded in schema/revisions.toml. Open decisions are listed at the end, and by
    `mcprev list` until they are made.

    With --extension, REV is a version of an extension: its declarations go to schema/extensions/NAME/REV/schema.ts, its
    source to the revisions.toml beside it, and what PATH_OR_URL imports is taken from the pinned revision --base. Exit codes: 0 done, 2 usage, 3 an invalid file.
    """
    from mcprev_codegen.checkout import decision_lines, import_schema
    from mcprev_codegen.inputs import extension_folder, joined_name, schema_folder

    if extension is None and (base or spec or written):
        raise click.UsageError("--base, --spec and --written require --extension")
    with errors_told():
        folder = schema_folder(to_write=True)
        own = extension_folder(folder, extension) if extension else folder
        pin = import_schema(
            own,
            source,
            revision,
            commit=commit,
            location=location,
            repin=repin,
            base=base,
            spec=spec,
            written=written,
        )
    name = joined_name(extension, revision) if extension else revision
    echo(f"pinned {name}: commit {pin.commit[:12]}, sha256 {pin.sha256[:12]}; next: mcprev generate")
    found = decision_lines(folder)
    for line in ["to decide:", *found] if found else []:
        echo(line)
