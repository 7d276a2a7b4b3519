"""`--docs` reports changed descriptions, and says so if it cannot compare them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from diff.diffing import PAIRS, expanded, report, revision_of, run
from diff.mini import BASE
from helpers.support import (
    DATED,
    FOLDER,
    FOURTH,
    THIRD,
    needs_upstream,
    upstream_definitions,
    upstream_path,
    upstream_text,
)
from mcprev_codegen.diff import Report, Selection, compare, compare_revisions, select
from mcprev_codegen.diff.render.html import report_html
from mcprev_codegen.diff.render.markdown import report_markdown
from mcprev_codegen.diff.render.text import TextStyle, report_text


def _upstream(old: str, new: str) -> Report:
    sides = [revision_of(upstream_text(name), name) for name in (old, new)]
    return compare_revisions(FOLDER, sides[0], sides[1])


def _described(node: Mapping[str, Any]) -> str:
    return " ".join(str(node.get("description", "")).split())


def _differing(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
    """The places of two JSON schemas whose descriptions differ; a union that shrank to one type has that type's."""
    shrunk = "anyOf" in before and "anyOf" not in after
    found = {path} if _described(before) != _described(after) and not shrunk else set[str]()
    mine, theirs = before.get("properties", {}), after.get("properties", {})
    for name in mine.keys() & theirs.keys():
        found |= _differing(f"{path}.{name}", mine[name], theirs[name])
    return found


def _told(told: Report) -> set[str]:
    return {path for c in told.changes if c.id == "doc-changed" for path in expanded(c)}


@needs_upstream
@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_every_description_that_differs_in_upstreams_schema_json_is_told(old: str, new: str) -> None:
    before, after = upstream_definitions(old), upstream_definitions(new)
    differing = {
        p for name in before.keys() & after.keys() for p in _differing(name, before[name], after[name])
    }
    assert differing - _told(_upstream(old, new)) == set()
    assert (len(differing) == 38) == ((old, new) == (THIRD, FOURTH))


@needs_upstream
def test_the_command_tells_the_38_changes_between_upstreams_files() -> None:
    sides = [str(upstream_path(name)) for name in (THIRD, FOURTH)]
    done = run(*sides, "--docs", "--only", "doc-changed", "--format", "json")
    told = json.loads(done.stdout)
    before, after = upstream_definitions(THIRD), upstream_definitions(FOURTH)
    both = {name for name in before if name in after}
    paths = {
        p
        for c in told["changes"]
        for p in (c["path"], *(f"{h}.{c['path'].partition('.')[2]}" for h in c["affects"]))
    }
    known = {p for p in paths if p.partition(".")[0] in both and _has(before, p) and _has(after, p)}
    assert len(known) == 38
    assert told["summary"]["notes"] == []


def _has(definitions: Mapping[str, Any], path: str) -> bool:
    name, *members = path.split(".")
    node = definitions[name]
    for member in members:
        if member not in node.get("properties", {}):
            return False
        node = node["properties"][member]
    return True


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_between_pins_no_description_is_told_and_the_report_says_why(old: str, new: str) -> None:
    told = select(report(old, new), Selection(docs=True))
    assert _told(told) == set()
    (note,) = told.notes
    assert note.startswith(
        f"Descriptions are not compared: pinned revisions have no comments ({old} and {new})"
    )
    assert select(report(old, new), Selection()).notes == ()


@needs_upstream
@pytest.mark.parametrize("name", DATED)
def test_a_pin_beside_upstreams_own_file_tells_no_description_either(name: str) -> None:
    done = run(name, str(upstream_path(name)), "--docs")
    assert f"pinned revisions have no comments ({name})" in " ".join(done.stdout.split())
    assert "described differently" not in done.stdout


@pytest.mark.parametrize("form", ["table", "markdown", "html", "json", "github", "junit"])
def test_every_format_says_that_descriptions_are_not_compared(form: str) -> None:
    text = " ".join(run(THIRD, FOURTH, "--docs", "--format", form).stdout.replace("&#39;", "'").split())
    assert "Descriptions are not compared: pinned revisions have no comments" in text


def test_a_file_without_comments_is_named() -> None:
    bare = "\n".join(line for line in BASE.splitlines() if "*" not in line)
    told = compare(revision_of(BASE), revision_of(bare))
    assert told.undescribed.startswith("Descriptions are not compared: there are no comments in ")


TEXT = BASE.replace("Some thing.", "Some thing.\n * @deprecated use another\n * @example x")


def test_what_a_tag_says_counts_and_an_example_does_not() -> None:
    other = TEXT.replace("use another", "use nothing"), TEXT.replace("@example x", "@example y")
    reworded, shown = (compare(revision_of(TEXT), revision_of(text)) for text in other)
    assert [(c.id, c.path) for c in reworded.changes] == [("doc-changed", "Thing")]
    assert shown.changes == ()


def test_a_member_that_is_declared_again_is_described_where_it_is() -> None:
    base = "export interface Over extends Base {\n  /** Of its own. */\n  note?: string;\n}\n"
    old, new = (revision_of(BASE + base.replace("Of", word)) for word in ("Of", "For"))
    assert [(c.id, c.path) for c in compare(old, new).changes] == [("doc-changed", "Over.note")]


def test_a_constant_is_described_among_the_constants() -> None:
    old, new = (
        revision_of(BASE.replace("export const LOST", f"/** {word} */\nexport const LOST"))
        for word in ("Gone.", "Missing.")
    )
    (change,) = compare(old, new).changes
    assert (change.id, change.path, change.kind) == ("doc-changed", "LOST", "constant")


def test_both_texts_are_shown() -> None:
    told = compare(revision_of(BASE), revision_of(BASE.replace("Some thing.", "Some <b>other</b> thing.")))
    assert "− Some thing.\n" in report_text(told, TextStyle())
    assert "+ Some <b>other</b> thing.\n" in report_text(told, TextStyle())
    assert "Some \\<b\\>other\\</b\\> thing." in report_markdown(told)
    assert "<b>" not in report_html(told)
    assert "Some &lt;b&gt;other&lt;/b&gt; thing." in re.sub("</?ins>", "", report_html(told))
