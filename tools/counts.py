"""What is counted in each settled revision, and holds from then on: `counts.toml` and `faithful_differences.toml`.

`python tools/counts.py` is a part of `make generate`. It adds a table for each complete dated revision that has none
and deletes the tables of revisions that are not pinned any more. It never changes a table that is there: the tests
compare each with what is counted now.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, cast

from helpers.losses import LISTED, computed
from helpers.pinned import DATED, ROOT, load
from mcprev_codegen import ir
from mcprev_codegen.resolve.schema import Schema
from mcprev_codegen.support import Kind
from mcprev_types import index

COUNTS: Final = ROOT / "tools" / "counts.toml"
SETTLED: Final = tuple(name for name in DATED if index.REVISIONS[name].status == "final")
"""The dated revisions about which everything is decided."""
FLAGS: Final = ("paginated", "task_augmented", "cacheable", "input_responses", "name_param", "deprecated")
"""What else is known of a method."""


def interfaces(schema: Schema) -> list[ir.Interface]:
    """The interfaces that a schema declares."""
    return [d for d in schema.module.decls if isinstance(d, ir.Interface)]


def paths_of(schema: Schema, name: str) -> dict[str, bool]:
    """Dotted paths of an interface's members, through inline objects, and whether each is required."""
    found: dict[str, bool] = {}
    for f in schema.flat(name).fields:
        found[f"{name}.{f.name}"] = not f.field.optional
        found.update(_paths(schema, f.field.type, f"{name}.{f.name}"))
    return found


def _paths(schema: Schema, type_: ir.TypeExpr, prefix: str) -> Iterator[tuple[str, bool]]:
    match type_:
        case ir.Array(item):
            yield from _paths(schema, item, prefix)
        case ir.Union(members) | ir.Intersection(members):
            for member in members:
                yield from _paths(schema, member, prefix)
        case ir.Obj():
            for f in schema.flatten(type_).fields:
                yield f"{prefix}.{f.name}", not f.field.optional
                yield from _paths(schema, f.field.type, f"{prefix}.{f.name}")
        case _:
            pass


def counted(name: str) -> dict[str, int]:
    """What is counted in a revision."""
    revision = load(name)
    schema = revision.declared
    declared = interfaces(schema)
    own = [f for d in declared for f in schema.flat(d.name).fields if f.declared_in == d.name]
    kinds = Counter(method.kind for method in revision.methods.values())
    sources = Counter(method.result_source for method in revision.methods.values())
    return {
        "definitions": len(schema.types),
        "interfaces": len(declared),
        "interfaces_that_extend": sum(bool(d.bases) for d in declared),
        "interfaces_with_several_bases": sum(len(d.bases) > 1 for d in declared),
        "interfaces_that_extend_omit": sum(isinstance(b, ir.Derived) for d in declared for b in d.bases),
        "narrowed_members": sum(f.overrides is not None for f in own),
        "member_paths": sum(len(paths_of(schema, d.name)) for d in declared),
        "inline_objects": len(revision.schema.types) - len(schema.types),
        "aliases": len(schema.types) - len(declared),
        "constants": len(schema.consts),
        "requests": kinds[Kind.REQUEST],
        "notifications": kinds[Kind.NOTIFICATION],
        "results_by_response": sources["response"],
        "results_by_name": sources["naming"],
        "empty_results": sources["empty"],
        **{
            f"{flag}_methods": sum(bool(getattr(m, flag)) for m in revision.methods.values())
            for flag in FLAGS
        },
        "losses": len(computed(name)),
    }


def recorded() -> dict[str, dict[str, int]]:
    """What was counted in each revision when it was new."""
    return cast("dict[str, dict[str, int]]", tomllib.loads(COUNTS.read_text(encoding="utf-8")))


def renewed(text: str, names: tuple[str, ...], table: Callable[[str], Mapping[str, int | str]]) -> str:
    """A file with exactly the tables of some revisions: those that it has as they are, the others new."""
    head, *blocks = re.split(r'(?m)^(?=\[")', text)
    present = {next(iter(tomllib.loads(block))): block.rstrip("\n") + "\n" for block in blocks}

    def new(name: str) -> str:
        lines = (f"{key} = {json.dumps(value)}\n" for key, value in table(name).items())
        return f'["{name}"]\n{"".join(lines)}'

    return head + "\n".join(present[name] if name in present else new(name) for name in names)


def main() -> None:
    """Write what is missing."""
    tables: dict[Path, Callable[[str], Mapping[str, int | str]]] = {COUNTS: counted, LISTED: computed}
    for path, table in tables.items():
        before = path.read_text(encoding="utf-8")
        if (after := renewed(before, SETTLED, table)) != before:
            path.write_text(after, encoding="utf-8")
            sys.stdout.write(f"  {path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
