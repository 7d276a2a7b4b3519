"""Every requirement has its tests, at every revision it holds at, and every test of the runtime says what it checks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

from helpers.named import GONE, ROW_B, ROW_C, ROW_D, SINCE_E, row_of
from helpers.requirements import (
    CHECK_HTTP,
    LATER,
    NAMES,
    NOT_OURS,
    REQUIREMENTS,
    B,
    C,
    D,
    E,
    checks,
    parametrize,
    refuse_skipped,
    req,
)
from helpers.support import DATED, ROOT
from mcprev.revisions import DEFAULT, Revision

FOLDERS: Final = (
    "wire", "protocol", "conversion", "engine", "driver", "api", "stdio", "http", "auth", "tasks", "runtime", "faults",
    "extensions",
)  # fmt: skip
"""What is tested there is what the requirements are about; the rest is the generator and its packages."""
EXEMPT: Final[Mapping[str, str]] = {
    "api/test_gone_messages.py": "revisions that no longer have what the runtime sends by itself",
    "api/test_newcomers_mistakes.py": "what messages say to newcomers",
    "auth/test_server_verifiers.py": "options of our verifiers",
    "conversion/test_step_examples.py": "what `make generate` checks of step modules",
    "extensions/test_extension.py": "how extensions of others are served and called",
    "extensions/test_generated_page.py": "a page of ours",
    "extensions/test_official_types.py": "that the types of extensions are those of their official files",
    "extensions/test_page.py": "a page of ours",
    "extensions/test_skills_client.py": "what a user writes, and what a server may not send",
    "extensions/test_skills_files.py": "front matter and paths that are read",
    "extensions/test_skills_installed.py": "files that are written",
    "extensions/test_skills_server.py": "what a user writes",
    "extensions/test_ui.py": "an extension that has no requirements here",
    "faults/test_chaos.py": "the checks of the chaos run",
    "http/test_http_app.py": "what is served instead of MCP",
    "http/test_routes.py": "what is served beside the endpoint",
    "http/test_routes_served.py": "what is served beside the endpoint",
    "http/test_spreading_front.py": "a proxy of tests",
    "http/test_workers_again.py::test_entries_*": "how apps serve what is registered",
    "http/test_workers_again.py::test_everything_that_is_left_out_is_there": "the list of tests that are not run again",
    "runtime/test_bad_input.py": "what the commands print",
    "runtime/test_call.py": "what the commands print",
    "runtime/test_call_repeat.py": "what the commands print",
    "runtime/test_cli.py": "what the commands print",
    "runtime/test_server_output.py": "what the commands print",
    "runtime/test_call_outputs.py": "what the commands print",
    "runtime/test_call_old_servers.py": "what the commands print",
    "runtime/test_plain_failures.py": "what the commands print",
    "runtime/test_completion.py": "what a shell completes",
    "runtime/test_errors.py::test_the_module_draws_the_tree_of_its_classes": "what is documented",
    "runtime/test_command_pages.py": "what the commands print",
    "runtime/test_generate_cli.py": "a command of ours",
    "runtime/test_inspect.py": "what the commands print",
    "runtime/test_install.py": "files of other programs",
    "runtime/test_named_servers.py": "files of other programs",
    "runtime/test_skill_command.py": "what the commands print",
    "runtime/test_validate.py": "what the commands print",
    "http/test_client_cost.py": "what a call costs",
    "http/test_cost.py": "what a call costs",
    "http/test_store_operations.py": "what a request costs the store",
    "stdio/test_client_cost.py": "what a call costs and how it is written",
    "stdio/test_cost.py": "what a call costs and what is imported",
}
"""Modules and functions, or patterns of these, whose tests check no requirement, with what they check."""


@cache
def _collected_apart() -> list[dict[str, Any]]:
    """What a run of those folders would check, as the plugin in conftest.py writes it down."""
    folders = [f"tests/{name}" for name in FOLDERS if (ROOT / "tests" / name).is_dir()]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    with TemporaryDirectory() as scratch:
        target = Path(scratch) / "checks.json"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider",
             f"--requirements-to={target}", *folders],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        found: list[dict[str, Any]] = json.loads(target.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def collected(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """What a run of those folders checks: this run's own tests where they are all there is, else a run's apart."""
    config = request.config
    whole = config.args == config.getini("testpaths") and not (
        config.option.keyword or config.option.markexpr
    )
    if (
        not whole
        or config.getoption("--part")
        or config.option.deselect
        or config.option.ignore
        or config.option.ignore_glob
    ):
        return _collected_apart()
    return [checks(item) for item in request.session.items if item.path.relative_to(ROOT).parts[1] in FOLDERS]


def uncovered(collected: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The revisions at which a requirement has no test, for each that has too few."""
    seen: dict[str, set[str]] = {}
    for test in collected:
        for id_, revisions in test["checks"].items():
            seen.setdefault(id_, set()).update(revisions)
    missing: dict[str, list[str]] = {}
    for id_, row in REQUIREMENTS.items():
        left = [name for name in row.revisions if name not in seen.get(id_, ())]
        if left and id_ not in LATER and id_ not in NOT_OURS and (CHECK_HTTP or not row.http):
            missing[id_] = left
    return missing


@pytest.mark.slow
def test_every_requirement_has_its_tests(collected: list[dict[str, Any]]) -> None:
    lines = [
        f"{id_} ({REQUIREMENTS[id_].says}): none at {', '.join(at)}"
        for id_, at in uncovered(collected).items()
    ]
    assert not lines, f"{len(lines)} requirements without tests:\n" + "\n".join(lines)


@pytest.mark.slow
def test_every_test_says_what_it_checks(collected: list[dict[str, Any]]) -> None:
    unmarked = {test["test"] for test in collected if not test["marked"]}
    tests = {entry: {name for name in unmarked if fnmatch(name, entry)} for entry in EXEMPT}
    for entry, found in tests.items():
        found.update(name for name in unmarked if name.split("::")[0] == entry)
    assert sorted(unmarked.difference(*tests.values())) == []
    used = {entry for entry, found in tests.items() if found}
    assert set(EXEMPT) == used, "exemptions that nobody needs"


@pytest.mark.slow
def test_every_mark_says_at_which_revisions_it_counts(collected: list[dict[str, Any]]) -> None:
    unsaid = {(test["test"], id_) for test in collected for id_ in test["unsaid"]}
    assert sorted(unsaid) == [], "say `everywhere=True` or `at=`"


@pytest.mark.slow
def test_what_is_left_out_is_left_out_for_a_reason(collected: list[dict[str, Any]]) -> None:
    tested = {id_ for test in collected for id_, revisions in test["checks"].items() if revisions}
    for table in (LATER, NOT_OURS):
        assert set(table) <= set(REQUIREMENTS)
        assert all(len(reason) > 20 for reason in table.values())
        assert not set(table) & tested, "tested after all"
    assert not set(LATER) & set(NOT_OURS)


# -- the table and the plugin -----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_table() -> None:
    assert NAMES == DATED == tuple(row.name for row in DEFAULT)
    for row in REQUIREMENTS.values():
        assert row.span, f"{row.id} holds nowhere"
        assert row.revisions or GONE.issuperset(row.span), f"{row.id} holds nowhere that is spoken"
        assert row.who in {"client", "server", "both", "seam"}
        assert row.level in {"M", "MN", "S", "SN", "may", "-"}
        assert len(row.says) > 2
    assert REQUIREMENTS["BATCH-6"].revisions == tuple(name for name in NAMES if name != B)


@pytest.mark.slow
def test_a_mark_names_what_there_is() -> None:
    for ids in ((), ("NO-1",), ("BASE-1", "BASE-99")):
        with pytest.raises(ValueError, match="no such requirement"):
            req(*ids)
    with pytest.raises(ValueError, match="no such revision"):
        req("BASE-1", at="draft")


@dataclass
class Item:
    """As much of a collected test as the plugin looks at."""

    marks: Sequence[pytest.MarkDecorator]
    callspec: Any = None
    nodeid: str = "tests/wire/test_x.py::test_x[1]"

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [mark.mark for mark in self.marks if mark.name == name]

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next(iter(self.iter_markers(name)), None)


@dataclass
class Call:
    params: Mapping[str, object]
    id: str


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mark", "call", "wanted"),
    [
        (req("BASE-2"), Call({"row": DEFAULT[1]}, "x"), [DEFAULT[1].name]),
        (req("BASE-2"), Call({"revision": D, "to": E}, f"{D}-{E}"), [D]),
        (req("BASE-2"), Call({"revision": "draft"}, "draft"), []),
        (req("BASE-2"), Call({"to": E}, f"text-{E}"), list(SINCE_E)),
        (req("BASE-2"), None, []),
        (req("BASE-2", everywhere=True), None, list(NAMES)),
        (req("BASE-2", at=(D, E)), None, [D, *SINCE_E]),
        (req("BATCH-1", at=E), None, []),
        (req("MOD-1"), None, list(SINCE_E)),
        (req("MOD-1"), Call({"text": "x"}, "x"), list(SINCE_E)),
        (req("MOD-1"), Call({"row": DEFAULT[0]}, "x"), []),
    ],
)
def test_where_a_test_counts(mark: pytest.MarkDecorator, call: Call | None, wanted: list[str]) -> None:
    item: Any = Item([mark], call)
    found = checks(item)
    assert (found["test"], found["marked"]) == ("wire/test_x.py::test_x", True)
    assert found["checks"] == {mark.args[0]: wanted}
    conditional: Any = Item([mark, pytest.mark.skipif(False, reason="x")], call)
    assert checks(conditional)["checks"] == {mark.args[0]: []}


@pytest.mark.slow
def test_a_mark_may_say_too_little() -> None:
    for mark, call, unsaid in (
        (req("BASE-2", "MOD-1"), None, ["BASE-2"]),
        (req("BASE-2", at=E), None, []),
        (req("BASE-2"), Call({"text": "x"}, "x"), ["BASE-2"]),
        (req("MOD-1"), Call({"row": DEFAULT[0]}, "x"), []),
    ):
        item: Any = Item([mark], call)
        assert checks(item)["unsaid"] == unsaid


@pytest.mark.slow
def test_a_test_that_never_runs_must_not_be_marked() -> None:
    skipped: Any = Item([req("BASE-2"), pytest.mark.skip("x")])
    with pytest.raises(pytest.UsageError, match="always skipped"):
        refuse_skipped(skipped)
    bare: Any = Item([pytest.mark.skip("x")])
    refuse_skipped(bare)
    conditional: Any = Item(
        [req("BASE-2"), pytest.mark.skip("no parameters"), pytest.mark.skipif(True, reason="x")]
    )
    refuse_skipped(conditional)


class Metafunc:
    """As much of a test function as the plugin looks at, keeping what it is parametrised with."""

    def __init__(self, function: Callable[..., None], *marks: pytest.MarkDecorator) -> None:
        self.function = function
        self.fixturenames = list(function.__annotations__)
        self.definition = Item(marks)
        self.made: list[tuple[str, list[object], list[str]]] = []

    def parametrize(self, argument: str, values: list[object], ids: list[str]) -> None:
        self.made.append((argument, values, ids))


def with_row(row: Revision) -> None: ...


def with_revision(revision: Revision) -> None: ...


def with_name(revision: str) -> None: ...


def with_nothing(x: int) -> None: ...


@pytest.mark.slow
def test_marked_tests_run_at_each_revision_of_their_requirements() -> None:
    by_hand = pytest.mark.parametrize(["a", "row"], [])  # noqa: PT006
    for function, marks, wanted in (
        (with_row, [req("LIFE-10")], [("row", [ROW_C, ROW_D], [C, D])]),
        (
            with_revision,
            [req("MOD-1", "BATCH-1")],
            [("revision", [ROW_B, *map(row_of, SINCE_E)], [B, *SINCE_E])],
        ),
        (with_name, [req("MOD-1")], [("revision", list(SINCE_E), list(SINCE_E))]),
        (with_name, [], []),
        (with_nothing, [req("MOD-1")], []),
        (with_row, [req("MOD-1"), by_hand], []),
        (with_row, [req("MOD-1"), pytest.mark.parametrize(argnames=("row", "b"), argvalues=[])], []),
    ):
        metafunc: Any = Metafunc(function, *marks)
        parametrize(metafunc)
        assert metafunc.made == wanted
