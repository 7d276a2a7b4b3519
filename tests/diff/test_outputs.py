"""Outputs of `mcprev diff`: annotations, JUnit XML, unwritable files, and ignored changes with their reasons."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree as ET

import pytest

from diff.diffing import report, revision_of, run
from diff.mini import BASE
from diff.test_inputs import refused
from helpers.support import FIFTH, FOURTH, ROOT, THIRD
from mcprev_codegen.diff import Report, Selection, Verdict, compare, ignore, read_ignores, select
from mcprev_codegen.diff.render.github import report_github
from mcprev_codegen.diff.render.junit import report_junit
from mcprev_codegen.errors import InputError


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Two files in the working folder; the new one demands a member, and adds a value."""
    monkeypatch.chdir(tmp_path)
    new = BASE.replace("label?: string", "label: string").replace('"green"', '"green" | "50%"')
    for name, text in (("old.ts", BASE), ("new.ts", new)):
        Path(name).write_text(text, encoding="utf-8")
    return "old.ts", "new.ts"


def _line(text: str) -> int:
    return next(n for n, line in enumerate(Path("new.ts").read_text("utf-8").splitlines(), 1) if text in line)


def test_the_text_says_in_words_where_a_change_stands(sides: tuple[str, str]) -> None:
    told = " ".join(run(*sides).stdout.split())
    line = _line("label: string")
    assert f"line {line} of the old schema and {line} of the new schema]" in told
    assert f"line {_line('50%')} of the new schema]" in told


# -- annotations ---------------------------------------------------------------------------------------------------

COMMAND = re.compile(r"::(error|warning|notice) ([^:]*)::(.*)")


def _commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    found = [COMMAND.fullmatch(line) for line in text.splitlines() if line.startswith("::")]
    assert all(found)
    return [(m[1], dict(p.split("=") for p in m[2].split(",")), m[3]) for m in found if m]


def test_what_breaks_is_an_error_and_what_is_dangerous_a_warning(sides: tuple[str, str]) -> None:
    error, warning = _commands(run(*sides, "--format", "github").stdout)
    assert (error[0], error[1]["file"], int(error[1]["line"])) == ("error", "new.ts", _line("label: string"))
    assert (warning[0], warning[1]["file"], int(warning[1]["line"])) == ("warning", "new.ts", _line("50%"))
    assert 'value "50%25" added%0Anew → old: dangerous.' in warning[2]
    assert warning[1]["title"] == "dangerous%3A literal-added"


def test_an_old_file_is_annotated_where_the_new_side_is_none(sides: tuple[str, str]) -> None:
    assert {p["file"] for _, p, _ in _commands(run(sides[0], FOURTH, "--format", "github").stdout)} == {
        "old.ts"
    }
    assert all("file" not in p for _, p, _ in _commands(run(THIRD, FOURTH, "--format", "github").stdout))


def test_what_is_gone_is_told_at_the_file() -> None:
    told = compare(revision_of(BASE), revision_of(BASE.replace("  name: string;\n  label", "  label")))
    (command,) = [c for c in _commands(report_github(told)) if "Thing.name" in c[2]]
    assert command[1]["file"].endswith("schema.ts")
    assert "line" not in command[1]


@pytest.mark.parametrize("pair", [(THIRD, FOURTH), (FOURTH, FIFTH)])
def test_every_harm_is_in_an_annotation(pair: tuple[str, str]) -> None:
    told = select(report(*pair), Selection())
    text = " ".join(message for _, _, message in _commands(report_github(told)))
    harmful = [c for c in told.changes if c.worst is not Verdict.OK]
    assert all((c.method or c.path.partition(".")[0]) in text for c in harmful)
    assert len(_commands(report_github(told))) <= len(harmful)


# -- JUnit ---------------------------------------------------------------------------------------------------------


def _suite(told: Report, threshold: Verdict = Verdict.BREAKING) -> ET.Element:
    root = ET.fromstring(report_junit(told, threshold))  # noqa: S314 - our own
    (suite,) = root
    for tag, total in (("failure", "failures"), ("skipped", "skipped")):
        assert len(suite.findall(f"testcase/{tag}")) == int(suite.attrib[total])
    assert len(suite.findall("testcase")) == int(suite.attrib["tests"])
    return suite


@pytest.mark.parametrize("threshold", list(Verdict))
def test_each_change_is_a_test_that_fails_from_the_threshold_on(threshold: Verdict) -> None:
    told = select(report(FOURTH, FIFTH), Selection())
    suite = _suite(told, threshold)
    assert int(suite.attrib["tests"]) == len(told.changes)
    assert int(suite.attrib["failures"]) == len(told.at_least(threshold))
    names = [case.attrib["name"] for case in suite.findall("testcase")]
    assert len(set(names)) == len(names)


def test_nothing_changed_is_one_test_that_passed() -> None:
    (case,) = _suite(report(FIFTH, FIFTH)).findall("testcase")
    assert list(case) == []


def test_the_threshold_of_the_command_is_that_of_the_suite(sides: tuple[str, str]) -> None:
    for threshold, failures in (("breaking", 1), ("dangerous", 2)):
        done = run(*sides, "--format", "junit", "--fail-on", threshold)
        assert done.exit_code == 1
        assert ET.fromstring(done.stdout).attrib["failures"] == str(failures)  # noqa: S314 - our own


def test_what_xml_cannot_carry_is_escaped() -> None:
    told = report(FOURTH, FIFTH)
    odd = replace(told.changes[0], headline="a\x00b\x1b\ufffe <&>")
    (case,) = _suite(told.with_changes([odd])).findall("testcase")
    assert case.attrib["name"].startswith(r"elicitation/create: a\x00b\x1b\ufffe <&>")


# -- ignored changes -----------------------------------------------------------------------------------------------


def _ignored(text: str, *arguments: str) -> dict[str, Any]:
    Path("known.toml").write_text(text, encoding="utf-8")
    done = run(*arguments, "--ignore-file", "known.toml", "--format", "json")
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(done.stdout)
    return told


REQUIRED = '[[ignore]]\nrule = "field-became-required"\npath = "Thing.*"\nreason = "Always sent."\n'


def test_an_entry_leaves_out_what_it_fits_and_tells_why(sides: tuple[str, str]) -> None:
    told = _ignored(REQUIRED, *sides)
    assert [c["id"] for c in told["changes"]] == ["literal-added"]
    ((change, reason),) = [(i["change"]["path"], i["reason"]) for i in told["ignored"]]
    assert (change, reason) == ("Thing.label", "Always sent.")
    assert told["summary"]["verdicts"]["breaking"] == 0
    assert told["summary"]["notes"] == []
    assert run(*sides, "--ignore-file", "known.toml", "--fail-on", "breaking").exit_code == 0
    assert run(*sides, "--fail-on", "breaking").exit_code == 1


def test_a_fingerprint_is_enough(sides: tuple[str, str]) -> None:
    first = json.loads(run(*sides, "--format", "json").stdout)["changes"][0]
    told = _ignored(f'[[ignore]]\nfingerprint = "{first["fingerprint"]}"\nreason = "Known."\n', *sides)
    assert [i["change"]["fingerprint"] for i in told["ignored"]] == [first["fingerprint"]]


def test_an_entry_that_fits_nothing_is_reported_in_every_format(sides: tuple[str, str]) -> None:
    _ignored(REQUIRED + '[[ignore]]\npath = "Gone.*"\nreason = "Once."\n', *sides)
    for form in ("table", "markdown", "html", "json", "github", "junit"):
        text = run(*sides, "--ignore-file", "known.toml", "--format", form).stdout
        assert "known.toml: no change matches (path Gone." in text.replace("\\", "")


def test_an_entry_for_a_change_that_is_not_shown_is_used(sides: tuple[str, str]) -> None:
    told = _ignored(REQUIRED, *sides, "--direction", "client", "--only", "type-added")
    assert (told["summary"]["notes"], told["ignored"]) == ([], [])


def test_what_is_ignored_is_told_to_people_with_its_reason(sides: tuple[str, str]) -> None:
    Path("known.toml").write_text(REQUIRED, encoding="utf-8")
    for form in ("markdown", "html", "junit"):
        assert "Always sent." in run(*sides, "--ignore-file", "known.toml", "--format", form).stdout
    assert "1 ignored by the ignore file" in run(*sides, "--ignore-file", "known.toml").stdout


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[[ignore]]\nrule = "field-removed"\n', ":1:1: 'ignore.reason' is missing"),
        ('[[ignore]]\nreason = "x"\n', ":1:1: one of rule, path, fingerprint is missing"),
        ('[[ignore]]\nrule = "field-vanished"\nreason = "x"\n', ":2:1: unknown rule 'field-vanished'"),
        ('[[ignore]]\nrules = "field-removed"\nreason = "x"\n', ":2:1: 'ignore.rules' is an unknown key"),
        ('[[ignore]]\npath = 7\nreason = "x"\n', ":2:1: 'ignore.path' must be a string"),
        ('[[ignore]]\npath = "x"\nreason = " "\n', ":3:1: 'ignore.reason' must be a string"),
        (REQUIRED + "[[ignore]]\n", ":5:1: 'ignore.reason' is missing"),
        ("ignore = 1\n", ":1:1: 'ignore' must be a list"),
        ('[[ignored]]\nreason = "x"\n', ":1:1: 'ignored' is an unknown key"),
        ("[[ignore\n", "cannot be read"),
    ],
)
def test_an_ignore_file_that_is_not_in_order_is_said_in_one_line(
    sides: tuple[str, str], text: str, why: str
) -> None:
    Path("known.toml").write_text(text, encoding="utf-8")
    line = refused(*sides, "--ignore-file", "known.toml")
    assert line.startswith("known.toml:")
    assert why in line


def test_a_missing_ignore_file_is_no_empty_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_ignores(tmp_path / "none.toml")


def test_no_entry_changes_nothing() -> None:
    assert ignore(report(FOURTH, FIFTH), (), "known.toml") == report(FOURTH, FIFTH)


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["table", "html", "junit"])
def test_a_place_that_cannot_be_written_is_an_error_of_its_own(
    sides: tuple[str, str], tmp_path: Path, form: str
) -> None:
    for place in ("gone/report", "old.ts/report"):
        line = refused(*sides, "--format", form, "--fail-on", "any", "-o", place, code=4)
        assert line.startswith(f"{place}: cannot be written: ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new.ts", "old.ts"]


def test_a_report_is_written_whole_or_not_at_all(
    sides: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("report").write_text("of before", encoding="utf-8")

    opened = Path.open

    def full(self: Path, mode: str = "r", **options: Any) -> IO[Any]:
        if "x" not in mode:
            return opened(self, mode, **options)
        self.write_bytes(b"old.ts")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        assert "No space left" in refused(*sides, "-o", "report", code=4)
    assert Path("report").read_text(encoding="utf-8") == "of before"
    assert sorted(map(str, Path().iterdir())) == ["new.ts", "old.ts", "report"]
    assert run(*sides, "-o", "report").exit_code == 0
    assert Path("report").read_text(encoding="utf-8").startswith("old.ts → new.ts")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("arguments", [["-o", "/dev/full"], []])
def test_a_full_device_is_an_error_of_its_own(sides: tuple[str, str], arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from mcprev.cli import main; main()", "diff", *sides, "--fail-on", "any", *arguments],
            stdout=full if not arguments else subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, len(done.stderr.splitlines())) == (4, 1)
    assert "No space left on device" in done.stderr


BLOCKING = """
import importlib.util, sys

BLOCKED = ("black", "datamodel_code_generator")

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocker())
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in BLOCKED else real(name, package)
from mcprev.cli import main
main(sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [[FOURTH, "latest", "--format", form] for form in ("table", "html")] + [["--history", "Tool"]],
)
def test_a_diff_between_pins_needs_neither_the_formatter_nor_the_writer_of_models(
    arguments: list[str],
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKING, "diff", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Tool" in done.stdout


def test_an_unknown_jsdoc_tag_stops_no_diff(sides: tuple[str, str]) -> None:
    text = Path("new.ts").read_text(encoding="utf-8")
    Path("new.ts").write_text(
        text.replace("@format byte", "@format byte\n   * @zzUnheardOf 7"), encoding="utf-8"
    )
    done = run(*sides)
    assert done.exit_code == 0
    assert "Thing.label: became required" in " ".join(done.stdout.split())
