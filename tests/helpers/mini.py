"""A schema folder of a few lines, so that tests can break it and generate from it in a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mcprev_codegen.checkout.pinning import import_schema
from mcprev_codegen.inputs import SchemaFolder

REVISION: Final = "2099-01-01"
COMMIT: Final = "0123456789abcdef0123456789abcdef01234567"
SOURCE: Final = """\
/* Things */

/**
 * Upstream's words about the version.
 */
export const LATEST_PROTOCOL_VERSION = "2099-01-01";
export const NOT_THERE = -32001;

/**
 * Upstream's words, with "quotes", a back\\slash and a {@link Thing | link}.
 *
 * @category Things
 */
export interface Thing {
  /** Says "what". */
  kind: "thing";
  /** Ends in a "quote" */
  name: string;
  size?: number; // behind the member
}

export type ClientRequest = GetThingRequest;
export interface GetThingRequest { method: "things/get"; params: { name: string } }
export interface GetThingResult { thing: Thing }
export type ServerResult = GetThingResult | EmptyResult;
export interface EmptyResult { [key: string]: unknown }
"""


def write_source(folder: Path, source: str = SOURCE) -> Path:
    """A schema.ts somewhere, as upstream may have it."""
    path = folder / "upstream" / "schema.ts"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8", newline="\n")
    return path


def write_folder(folder: Path, source: str = SOURCE) -> Path:
    """A schema folder with one pinned revision, an overlay without entries and no descriptions."""
    schema = folder / "schema"
    schema.mkdir(parents=True)
    (schema / "overlay.toml").write_text("", encoding="utf-8")
    (schema / "descriptions.toml").write_text("", encoding="utf-8")
    import_schema(SchemaFolder(schema), str(write_source(folder, source)), REVISION, commit=COMMIT)
    return schema


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its path."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
