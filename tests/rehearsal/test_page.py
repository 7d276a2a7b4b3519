"""docs/new-revision.md shows one revision from import to green: what it writes by hand is what the list asks for, and all of it.

`make rehearse PARTS=page` generates it too and runs the tests.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from mcprev_codegen.checkout import decisions
from mcprev_codegen.checkout.pinning import import_schema
from mcprev_codegen.checkout.runtime import Runtime
from mcprev_codegen.checkout.step_modules import skeleton
from mcprev_codegen.facts import load_pinned
from mcprev_codegen.inputs import SchemaFolder
from rehearsal import page
from rehearsal.recipe import COMMIT, DRAFT
from rehearsal.scratch import ROOT


def asked(folder: Path) -> list[str]:
    """The files that the list of decisions names, and the errors in it."""
    lines = decisions.decision_lines(SchemaFolder(folder / "schema"))
    return [re.sub(r"^\S+  .*?((?:runtime|schema|examples)/[\w/.]+):.*", r"\1", line) for line in lines]


@pytest.mark.slow
def test_the_page_decides_what_is_left_to_decide_and_nothing_else(tmp_path: Path) -> None:
    for name in ("schema", "runtime", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / page.PAGE).read_text(encoding="utf-8")
    names = [page.edits(block)[0] for language, block in page.blocks(text) if language == "diff"][1:]
    there = {n: (ROOT / n).read_text(encoding="utf-8") for n in [*names, page.before(text)[0]]}
    upstream, overlay, *late = page.written(text, there)
    source = tmp_path / "upstream.ts"
    source.write_text(upstream[1], encoding="utf-8")
    for revision in (page.REVISION, DRAFT):
        import_schema(
            SchemaFolder(tmp_path / "schema"), str(source), revision, commit=COMMIT, repin=revision == DRAFT
        )
    assert "'notifications/message#capability' no longer matches" in asked(tmp_path)[0]

    (tmp_path / overlay[0]).write_text(overlay[1], encoding="utf-8")
    loaded = load_pinned(SchemaFolder(tmp_path / "schema"))
    step = Runtime(tmp_path / "runtime" / "mcprev").step(page.REVISION)
    step.write_text(skeleton(loaded[page.before(text)[1]], loaded[page.REVISION]), encoding="utf-8")
    assert {*asked(tmp_path)} == {name for name, _ in late}
    assert str(step.relative_to(tmp_path)) in {name for name, _ in late}

    for name, written in late:
        (tmp_path / name).write_text(written, encoding="utf-8")
    assert asked(tmp_path) == []
