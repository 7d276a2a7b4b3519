"""`mcprev diff` as a command: formats, filters, thresholds, errors and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from diff.diffing import PAIRS, report, run
from diff.mini import BASE
from helpers.support import FIFTH, FIRST, FOURTH, ROOT, SECOND, THIRD, check_metaschema, complaints, validator
from mcprev_codegen.diff import Verdict, table
from mcprev_codegen.diff.render.json import report_json

SCHEMA_OF_REPORTS: Final[Any] = json.loads(
    (ROOT / "codegen/mcprev_codegen/diff/render/report.schema.json").read_text(encoding="utf-8")
)
"""The JSON Schema of reports; `$defs` has those of histories and rule tables as well."""


def changes(*arguments: str) -> list[dict[str, Any]]:
    result = run(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    told: list[dict[str, Any]] = json.loads(result.stdout)["changes"]
    return told


# -- the table -----------------------------------------------------------------------------------------------------


def test_the_first_line_is_the_summary() -> None:
    first = run(FOURTH, FIFTH).stdout.splitlines()[0]
    assert first.startswith(f"{FOURTH} → {FIFTH}: 32 breaking, 29 dangerous, ")
    assert first.endswith("ok; requests +2 −9, notifications +1 −4, types +42 −32")


def test_methods_stand_before_types_before_constants_the_worst_first() -> None:
    lines = run(FOURTH, FIFTH).stdout.splitlines()
    heads = [lines.index(name) for name in ("Methods", "Types", "Constants")]
    assert heads == sorted(heads)
    for start, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        rows = [line.split()[:2] for line in lines[start + 2 : end] if line[2:3].isalpha()]
        ranks = [max(Verdict(v).rank for v in row) for row in rows]
        assert ranks == sorted(ranks, reverse=True)


def test_in_a_schema_without_messages_either_side_sends_each_type(tmp_path: Path) -> None:
    old, new = tmp_path / "old.ts", tmp_path / "new.ts"
    old.write_text('export interface Order { item: string; size: "s" | "m" }', encoding="utf-8")
    new.write_text(
        'export interface Order { item: string; size: "s" | "m" | "l"; count: number }', encoding="utf-8"
    )
    verdicts = {
        each["id"]: (each["old_to_new"]["verdict"], each["new_to_old"]["verdict"], each["senders"])
        for each in changes(str(old), str(new))
    }
    both = ["client", "server"]
    assert verdicts["field-added-required"] == ("breaking", "ok", both)
    assert verdicts["literal-added"] == ("ok", "dangerous", both)
    assert run(str(old), str(new), "--fail-on", "breaking").exit_code == 1


def test_piped_output_is_plain_and_no_wider_than_a_hundred_columns() -> None:
    for pair in PAIRS:
        text = run(*pair, "--level", "source").stdout
        assert "\x1b" not in text
        assert max(map(len, text.splitlines()[1:])) <= 100


def test_mixing_without_negotiation_is_judged_for_both_pairings() -> None:
    assert "old client with new server: 30 breaking, 16 dangerous" in " ".join(
        run(FOURTH, FIFTH).stdout.split()
    )


def test_the_verdict_stands_for_peers_that_do_not_negotiate_in_every_format() -> None:
    for form in ("table", "markdown", "html"):
        assert "negotiat" in run(FOURTH, FIFTH, "--format", form).stdout


# -- json ----------------------------------------------------------------------------------------------------------


def test_the_json_schema_is_a_schema() -> None:
    check_metaschema(SCHEMA_OF_REPORTS)


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_json_output_fits_its_schema(old: str, new: str) -> None:
    result = run(old, new, "--level", "source", "--docs", "--format", "json")
    assert complaints(_schema("report"), json.loads(result.stdout)) == []
    assert complaints(_schema("report"), json.loads(report_json(report(new, old)))) == []


def test_the_json_of_histories_and_rules_fits_its_schema() -> None:
    for name in ("tools/call", "JSONRPCError"):
        told = json.loads(run("--history", name, "--format", "json").stdout)
        assert complaints(_schema("history"), told) == []
    assert complaints(_schema("rules"), json.loads(run("--rules", "--format", "json").stdout)) == []


def _schema(name: str) -> Any:
    return validator(SCHEMA_OF_REPORTS["$defs"], name)


def test_json_carries_everything_the_format_promises() -> None:
    (change,) = changes(THIRD, FOURTH, "--only", "field-became-optional", "--type", "JSONRPCErrorResponse")
    assert change["path"] == "JSONRPCErrorResponse.id"
    assert (change["kind"], change["action"], change["level"]) == ("field", "loosened", "wire")
    assert change["senders"] == ["client", "server"]
    assert change["old_to_new"]["verdict"] == "ok"
    assert change["new_to_old"]["verdict"] == "breaking"
    assert (change["old"]["text"], change["new"]["text"]) == ("id: RequestId", "id?: RequestId")
    assert change["old"]["path"] == "JSONRPCError.id"
    assert change["old"]["line"] > 0 < change["new"]["line"]
    assert len(change["fingerprint"]) == 12


# -- filters -------------------------------------------------------------------------------------------------------


def test_levels_contain_one_another() -> None:
    wire, nominal, source = (
        {c["fingerprint"] for c in changes(FOURTH, FIFTH, "--level", level)}
        for level in ("wire", "nominal", "source")
    )
    assert wire < nominal < source


def test_documentation_is_told_only_on_demand() -> None:
    assert all(c["level"] != "doc" for c in changes(SECOND, THIRD, "--level", "source"))
    assert any(c["level"] == "doc" for c in changes(SECOND, THIRD, "--docs"))


@pytest.mark.parametrize("side", ["client", "server"])
def test_direction_selects_what_that_side_sends(side: str) -> None:
    told = changes(FOURTH, FIFTH, "--direction", side)
    assert told
    assert all(side in c["senders"] for c in told)


def test_type_selects_its_members_and_what_it_inherits() -> None:
    told = changes(FOURTH, FIFTH, "--type", "ListToolsResult")
    assert {c["path"] for c in told} >= {"ListToolsResult.ttlMs", "Result.resultType"}
    assert all(c["path"].startswith("ListToolsResult") or "ListToolsResult" in c["affects"] for c in told)


def test_method_selects_what_it_carries() -> None:
    told = changes(FOURTH, FIFTH, "--method", "completion/complete")
    assert "CompleteResult.completion.values" in {c["path"] for c in told}
    assert all("completion/complete" in c["methods"] for c in told)


def test_only_and_ignore_take_rules_and_fingerprints() -> None:
    only = changes(FOURTH, FIFTH, "--only", "params-required", "--only", "transport-changed")
    assert {c["id"] for c in only} == {"params-required", "transport-changed"}
    first = only[0]["fingerprint"]
    assert len(changes(FOURTH, FIFTH, "--only", first)) == 1
    rest = changes(
        FOURTH, FIFTH, "--only", "params-required", "--only", "transport-changed", "--ignore", first
    )
    assert len(rest) == len(only) - 1
    assert all(c["id"] != "type-added" for c in changes(FOURTH, FIFTH, "--ignore", "type-added"))


def test_a_selection_says_how_much_it_hides() -> None:
    shown = json.loads(run(FOURTH, FIFTH, "--only", "params-required", "--format", "json").stdout)
    everything = len(report(FOURTH, FIFTH).changes)
    assert shown["summary"]["hidden"] == everything - len(shown["changes"])


# -- exit codes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "threshold", "code"),
    [
        (FIRST, SECOND, "breaking", 0),
        (FIRST, SECOND, "dangerous", 1),
        (FIRST, SECOND, "any", 1),
        (FOURTH, FIFTH, "breaking", 1),
        (FIFTH, FIFTH, "any", 0),
    ],
)
def test_fail_on_exits_with_one_when_the_threshold_is_met(
    old: str, new: str, threshold: str, code: int
) -> None:
    assert run(old, new, "--fail-on", threshold).exit_code == code


def test_fail_on_counts_only_what_is_shown() -> None:
    assert run(FOURTH, FIFTH, "--only", "deprecated", "--fail-on", "breaking").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        (FOURTH,),
        (FOURTH, FIFTH, FIRST),
        (FOURTH, "2999-01-01"),
        ("lastest", FIFTH),
        (FOURTH, FIFTH, "--only", "field-vanished"),
        (FOURTH, FIFTH, "--type", "Nobody"),
        (FOURTH, FIFTH, "--method", "no/such"),
        ("--history", "Nobody"),
        ("--history", "Tool", FOURTH, FIFTH),
        ("--history", "Tool", "--format", "html"),
        ("--rules", "--format", "html"),
    ],
)
def test_wrong_arguments_give_one_clear_line_and_two(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("Error: ")


def test_versions_of_an_extension_are_compared() -> None:
    result = run("tasks@2026-07-28", "tasks@draft")
    assert result.exit_code == 0
    assert result.stdout.startswith("tasks@2026-07-28 → tasks@draft: 0 breaking, 0 dangerous, 1 ok; types +1")
    assert "no pin for revision '1999'" in run("tasks@1999", "tasks@draft").stderr


def test_a_wrong_revision_name_says_which_are_known() -> None:
    assert f"'2999-01-01' is neither a revision (known: {FIRST}, " in run(FOURTH, "2999-01-01").stderr


def _line(text: str) -> int:
    return next(n for n, line in enumerate(BASE.splitlines(), 1) if text in line)


BROKEN = {
    "syntax": ("export interface A { b: string;\n", 1),
    "twice": (BASE + "\nexport type Twice = 1;\nexport type Twice = 2;\n", len(BASE.splitlines()) + 3),
    "undeclared": (BASE.replace("extra: { [key: string]: unknown }", "extra: Nobody"), _line("extra:")),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_and_unknown_typescript_give_one_line_with_its_place_and_three(
    what: str, tmp_path: Path
) -> None:
    text, line = BROKEN[what]
    path = tmp_path / "schema.ts"
    path.write_text(text, encoding="utf-8")
    result = run(FOURTH, str(path))
    assert result.exit_code == 3
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith(f"{path}:{line}:")


@pytest.mark.parametrize("name", ["missing.ts", "./missing", "nowhere/schema.ts"])
def test_a_missing_file_gives_one_line_and_three(name: str) -> None:
    result = run(FOURTH, name)
    assert result.exit_code == 3
    assert result.stderr == f"{Path(name)}: no such file\n"


def test_a_file_that_is_no_text_gives_one_line_and_three(tmp_path: Path) -> None:
    path = tmp_path / "schema.ts"
    path.write_bytes(b"\xff\xfe\x00")
    result = run(FOURTH, str(path))
    assert result.exit_code == 3
    assert len(result.stderr.splitlines()) == 1


def test_a_side_may_be_a_file_or_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "schema.ts"
    path.write_text(BASE, encoding="utf-8")
    changed = tmp_path / "new.ts"
    changed.write_text(BASE.replace("label?: string", "label: string"), encoding="utf-8")
    told = changes(str(tmp_path), str(changed))
    assert [(c["id"], c["path"], c["old_to_new"]["verdict"]) for c in told] == [
        ("field-became-required", "Thing.label", "breaking")
    ]


def test_what_a_file_says_that_is_passed_over_is_a_warning_beside_the_report(tmp_path: Path) -> None:
    path = tmp_path / "schema.ts"
    path.write_text(BASE.replace("@minimum 0", "@minimum 0\n   * @colour red"), encoding="utf-8")
    result = run(FOURTH, str(path), "--format", "json")
    assert (result.exit_code, json.loads(result.stdout)["new"]["name"]) == (0, str(path))
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"warning: {path}:{_line('size?') - 1}:")
    assert "@colour" in line


# -- other outputs -------------------------------------------------------------------------------------------------


def test_markdown_folds_away_what_is_harmless() -> None:
    text = run(FOURTH, FIFTH, "--format", "markdown").stdout
    assert text.startswith(f"## `{FOURTH}` → `{FIFTH}`\n\n**32 breaking, 29 dangerous, ")
    assert text.count("<details>") == text.count("</details>") == 2
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    assert {line.replace("\\|", "").count("|") for line in rows} == {6}


def test_output_goes_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    result = run(FOURTH, FIFTH, "--format", "markdown", "-o", str(path))
    assert result.stdout == ""
    assert path.read_text(encoding="utf-8").startswith("## ")


def test_history_follows_a_rename_and_tells_the_end() -> None:
    lines = run("--history", "ResourceReference").stdout.splitlines()
    assert lines[0] == "type ResourceReference"
    states = [line for line in lines if not line.startswith(" ")][1:]
    assert states[:3] == [
        f"{FIRST}: present",
        f"{SECOND}: unchanged",
        f"{THIRD}: changed (as ResourceTemplateReference)",
    ]
    gone = run("--history", "PingRequest").stdout.splitlines()
    assert f"{FIFTH}: removed" in gone


def test_history_of_a_method_tells_its_own_messages_changes() -> None:
    told = json.loads(run("--history", "roots/list", "--format", "json").stdout)
    states = {r["revision"]: r for r in told["revisions"]}
    assert states[FIRST]["state"] == "present"
    assert "transport-changed" in {c["id"] for c in states[FIFTH]["changes"]}
    markdown = run("--history", "server/discover", "--format", "markdown").stdout
    assert f"| {FOURTH} | absent |" in markdown
    assert f"| {FIFTH} | added |" in markdown


def test_rules_lists_every_rule_with_levels_and_verdicts() -> None:
    text = run("--rules").stdout
    assert all(f"{rule}  " in text for rule in table().rules)
    assert set(run("--rules", "--format", "markdown").stdout.split("`")) >= set(table().rules)


def test_the_module_loads_neither_parser_nor_templates_for_its_help() -> None:
    code = (
        "import sys; import mcprev_codegen.commands.diff; "
        "print([m for m in ('tree_sitter', 'jinja2', 'mcprev_codegen.diff') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "codegen"
    )
    assert done.stdout.strip() == "[]"
