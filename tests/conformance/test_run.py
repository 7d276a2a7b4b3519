"""How the runs of the conformance suite are judged: nothing that was not shown counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance import run
from conformance.run import Case, Verdict

SERVER = Case("server", "tools-list", "2025-11-25")
CLIENT = Case("client", "tools_call", "2025-11-25")
GOOD = {"id": "tools-list", "status": "SUCCESS", "description": "lists"}
SCHEMA = {"id": run.SCHEMA_ONLY, "status": "SUCCESS", "description": "valid"}


@pytest.mark.parametrize("case", [SERVER, CLIENT])
def test_a_scenario_passes_when_something_of_its_own_succeeded(case: Case) -> None:
    assert run.judge(case, 0, [GOOD, SCHEMA]) == Verdict(case, None, 1)


@pytest.mark.parametrize(
    ("checks", "why"),
    [
        ([], "nothing was judged"),
        ([SCHEMA], "nothing was judged"),
        ([{**GOOD, "status": "SKIPPED"}, {**GOOD, "status": "INFO"}], "nothing was judged"),
        ([GOOD, {**GOOD, "status": "FAILURE", "errorMessage": "no"}], "tools-list: no"),
        ([GOOD, {**GOOD, "status": "WARNING"}], "tools-list: lists"),
        ([GOOD, {**SCHEMA, "status": "FAILURE"}], "wire-schema-valid: valid"),
    ],
)
def test_silence_and_warnings_do_not_pass(checks: list[dict[str, str]], why: str) -> None:
    assert run.judge(SERVER, 0, checks).why == why


def test_a_client_has_to_end_well_unless_it_need_not() -> None:
    assert run.judge(CLIENT, 1, [GOOD]).why == "the client ended with 1"
    assert run.judge(SERVER, 1, [GOOD]).why is None
    for name in run.MAY_FAIL:
        assert run.judge(Case("client", name, "2026-07-28"), 1, [GOOD]).why is None


def test_a_client_beside_others_has_to_say_that_it_ended_well(tmp_path: Path) -> None:
    for name, said, code in (("auth/a-2", run.ENDED, 0), ("b-2", "", 1)):
        place = tmp_path / name
        place.mkdir(parents=True)
        (place / "stdout.txt").write_text(said)
        assert run._code(tmp_path, f"{name[:-2]}-2*") == code  # pyright: ignore[reportPrivateUsage]
    assert run._code(tmp_path, "gone-2*") == 1  # pyright: ignore[reportPrivateUsage]


def test_what_is_as_expected_is_no_problem() -> None:
    verdicts = [Verdict(SERVER, None, 1), Verdict(CLIENT, "broken", 0)]
    assert run.compare(verdicts, {"client": {"tools_call": "why"}}) == []
    assert run.compare(verdicts, {"client": {"tools_call@2025-11-25": "why"}}) == []


@pytest.mark.parametrize(
    ("why", "known", "problem"),
    [
        ("broken", {}, "server tools-list@2025-11-25: broken"),
        (
            None,
            {"server": {"tools-list": "why"}},
            "server tools-list@2025-11-25 passes, but 'tools-list' is listed",
        ),
        (
            "broken",
            {"server": {"tools-list": "why", "tools-lists": "why"}},
            "lists server 'tools-lists', which was not",
        ),
        ("broken", {"server": {"tools-list@2025-06-18": "why"}}, "server tools-list@2025-11-25: broken"),
        ("broken", {"client": {"tools-list": "why"}}, "server tools-list@2025-11-25: broken"),
    ],
)
def test_what_is_not_as_expected_is_a_problem(
    why: str | None, known: dict[str, dict[str, str]], problem: str
) -> None:
    found = run.compare([Verdict(SERVER, why, 1)], known)
    assert any(problem in line for line in found)


def test_every_entry_of_what_is_expected_has_its_reason() -> None:
    for entries in run.expected().values():
        assert all(len(reason) > 10 for reason in entries.values())


def test_the_table_shows_each_wire() -> None:
    shown = run.table([Verdict(SERVER, None, 1), Verdict(Case("server", "ping", "2025-06-18"), "x", 0)], {})
    assert "tools-list" in shown
    assert "FAILED" in shown
    assert "0/1         1/1" in shown
