"""What works on a system without a folder for temporary files, and what the rest says."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from helpers.requirements import req
from mcprev.cli import main
from mcprev.cli.workers import NO_FOLDER, shared_metrics
from mcprev.core.temporary_folders import NoTemporaryFolder
from mcprev.middleware import Metrics, metrics
from mcprev.serving.worker import ABSENT, ConnectionCounts


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a read-only root: no folder that the library tries can be written to."""

    def refuses(*_: object, **__: object) -> Any:
        raise FileNotFoundError(
            2, "No usable temporary directory found in ['/tmp', '/var/tmp', '/usr/tmp', '/']"
        )

    monkeypatch.setattr(tempfile, "gettempdir", refuses)
    monkeypatch.setattr(tempfile, "_sanitize_params", refuses)
    with pytest.raises(FileNotFoundError):
        tempfile.TemporaryDirectory()
    with pytest.raises(FileNotFoundError):
        tempfile.mkstemp()


@req("HTTP-3", everywhere=True)
@pytest.mark.usefixtures("nowhere")
def test_workers_count_their_connections_without_a_file() -> None:
    counts = ConnectionCounts.made(3)
    assert counts.fewest() == ABSENT
    counts.set(2, 5)
    assert counts.fewest() == 5
    counts.close()


@req("HTTP-3", everywhere=True)
@pytest.mark.usefixtures("nowhere")
def test_workers_serve_without_metrics_and_say_what_metrics_require(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(metrics.SHARED, raising=False)
    with shared_metrics() as (variables, ended):
        assert variables == {NO_FOLDER: "1"} == {metrics.NO_FOLDER: "1"}
        ended(1)
    monkeypatch.setenv(NO_FOLDER, "1")
    with pytest.raises(NoTemporaryFolder, match=r"metrics of several processes .* set TMPDIR"):
        Metrics()


@req("HTTP-3", everywhere=True)
@pytest.mark.usefixtures("nowhere")
def test_a_folder_of_the_operator_is_taken_for_metrics(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(metrics.SHARED, str(tmp_path))
    with shared_metrics() as (variables, _):
        assert variables == {metrics.SHARED: str(tmp_path)}


@req("HTTP-3", everywhere=True)
@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("words", [["dev", "server.py"], ["serve", "server.py", "--reload"]])
def test_a_command_that_requires_one_says_so_in_a_line(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("server.py").write_text("import mcprev\napp = mcprev.App('a', '1')\n", encoding="utf-8")
    done = CliRunner().invoke(main, words, prog_name="mcprev")
    (line,) = done.stderr.splitlines()
    assert (done.exit_code, line.partition(":")[0]) == (1, "Error")
    assert "watching source files requires a folder" in line
    assert "set TMPDIR to one" in line
