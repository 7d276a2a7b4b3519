"""The table of peers says how many cases passed, and which known differences the others are due to."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.requirements import req
from interop.tally import SESSIONS, WHERE, Tally
from mcprev.transports.http.client.repeats import SESSION_FORGOTTEN


def report(
    release: str, revision: str, *, cause: str | None = None, outcome: str = "passed"
) -> pytest.TestReport:
    """What pytest reports of one case; one with a known defect is expected to fail."""
    told: list[tuple[str, object]] = [("peer", ("mcp", release, revision))]
    if cause is not None:
        told.append(("defect", cause))
    made = pytest.TestReport(
        "x::y", ("x", 1, "y"), {}, "skipped" if cause else outcome, None, "call", user_properties=told  # type: ignore[arg-type]
    )
    if cause is not None:
        made.wasxfail = cause
    return made


def tallied(*reports: pytest.TestReport) -> Tally:
    tally = Tally()
    for each in reports:
        tally.pytest_runtest_logreport(each)
    return tally


@req("BASE-5", everywhere=True)
def test_cases_are_counted_by_release() -> None:
    text = tallied(
        report("1.10.1", "r2"),
        report("1.9.4", "r1"),
        report("1.10.1", "r1"),
        report("1.9.4", "r1", cause="it dies"),
    ).text()
    rows = [line for line in text.splitlines() if line.startswith("| mcp")]
    assert rows == ["| mcp | 1.9.4 | r1 | 1 | 1 |", "| mcp | 1.10.1 | r1, r2 | 2 | 0 |"]
    assert text.endswith("- mcp 1.9.4: it dies (1 case)\n")


@req("BASE-5", everywhere=True)
@pytest.mark.parametrize("outcome", ["passed", "failed", "skipped"])
def test_only_a_whole_run_is_written(
    outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    page = tmp_path / "peers.md"
    monkeypatch.setenv(WHERE, str(page))
    tallied(report("1.9.4", "r"), report("1.9.4", "r", outcome=outcome)).pytest_sessionfinish(request.session)
    assert page.exists() == (outcome == "passed")


@req("HTTP-23", everywhere=True)
def test_the_page_says_which_answers_count_as_a_forgotten_session() -> None:
    rows = [line.split(" | ")[:2] for line in SESSIONS.splitlines() if line.startswith("| 4")]
    assert rows == [[f"| {status}", f"`{said}`"] for status, said in SESSION_FORGOTTEN]
    assert SESSIONS in (Path(__file__).parents[2] / "docs" / "peers.md").read_text("utf-8")
