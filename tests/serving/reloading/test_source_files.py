"""Which files a child process reports, and which changes the parent finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mcprev_types
from helpers.requirements import req
from mcprev.serving.source_files import SourceFiles, is_own_source

SERVER = "import mcprev\nimport helper\nserver = mcprev.App('x', '1', instructions=helper.TEXT)\n"


def start(folder: Path, sources: SourceFiles) -> subprocess.CompletedProcess[bytes]:
    """`mcprev serve server.py` without a client."""
    return subprocess.run(
        [sys.executable, "-m", "mcprev", "serve", "server.py"],
        cwd=folder,
        env={**os.environ, **sources.environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )


def rewrite(file: Path, text: str) -> None:
    file.write_text(text)
    before = file.stat()
    os.utime(
        file, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000)
    )  # however coarse the clock of files is


def names(folder: Path, found: list[str]) -> list[str]:
    """The paths below a folder; a checkout of this project has sources of its own that are not installed."""
    return sorted(Path(each).name for each in found if Path(each).is_relative_to(folder))


@pytest.mark.slow
def test_the_imported_files_are_reported_and_their_changes_found_once(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "helper.py").write_text("TEXT = 'one'\n")
    with SourceFiles([str(tmp_path / "server.py")]) as sources:
        assert start(tmp_path, sources).returncode == 0
        assert sources.changed() == []
        assert names(tmp_path, sources.names) == ["helper.py", "server.py"]
        rewrite(tmp_path / "helper.py", "TEXT = 'two'\n")
        assert names(tmp_path, sources.changed()) == ["helper.py"]
        assert sources.changed() == []
        (tmp_path / "helper.py").unlink()
        assert names(tmp_path, sources.changed()) == ["helper.py"]


TOOL = "from mcprev.app.folders import tool\n@tool\ndef {name}() -> None: ...\n"


@pytest.mark.parametrize("first", [True, False], ids=["of several", "the first"])
def test_a_file_that_comes_into_a_folder_that_is_read_whole_is_found(tmp_path: Path, first: bool) -> None:
    (tmp_path / "server.py").write_text("import mcprev\napp = mcprev.App.from_folder('tools', 'x', '1')\n")
    inside = tmp_path / "tools" / "more"
    inside.mkdir(parents=True)
    if first:
        (inside / "one.py").write_text(TOOL.format(name="one"))
    with SourceFiles([str(tmp_path / "server.py")]) as sources:
        assert (start(tmp_path, sources).returncode == 0) is first
        assert sources.changed() == []
        for name in ("_shared.py", ".two.py", "two.txt", "two.py~"):
            (inside / name).write_text("")
        assert sources.changed() == []
        (inside / "two.py").write_text(TOOL.format(name="two"))
        assert names(tmp_path, sources.changed()) == ["tools"]
        assert sources.changed() == []
        assert start(tmp_path, sources).returncode == 0
        assert sources.changed() == []
        rewrite(inside / "two.py", TOOL.format(name="three"))
        assert names(tmp_path, sources.changed()) == ["two.py"]


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["TEXT = 1 / 0\n", "TEXT = (\n", "import nowhere_to_be_found\n"])
def test_the_file_with_a_mistake_is_watched_although_its_import_failed(tmp_path: Path, broken: str) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "helper.py").write_text(broken)
    with SourceFiles([str(tmp_path / "server.py")]) as sources:
        ended = start(tmp_path, sources)
        assert (ended.returncode, b"helper.py" in ended.stderr) == (1, True)
        assert sources.changed() == []
        rewrite(tmp_path / "helper.py", "TEXT = 'mended'\n")
        assert names(tmp_path, sources.changed()) == ["helper.py"]


@pytest.mark.slow
@req("LIFE-1", everywhere=True)
def test_a_file_that_changes_while_the_server_is_imported_has_changed(tmp_path: Path) -> None:
    """The server has what was there before; nobody else would notice until the next change."""
    rewriting = "import os, pathlib\nfile = pathlib.Path(__file__).with_name('helper.py')\n"
    rewriting += "import helper\nfile.write_text(\"TEXT = 'newer'\\n\")\n"
    (tmp_path / "server.py").write_text(f"import saved\n{SERVER}")
    (tmp_path / "saved.py").write_text(rewriting)
    (tmp_path / "helper.py").write_text("TEXT = 'one'\n")
    with SourceFiles([str(tmp_path / "server.py")]) as sources:
        assert start(tmp_path, sources).returncode == 0
        sources.changed()  # reads the report
        assert names(tmp_path, sources.changed()) == ["helper.py"]


def test_without_a_report_only_the_first_files_are_watched(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    with SourceFiles([str(tmp_path / "server.py"), str(tmp_path / "later.py")]) as sources:
        Path(next(iter(sources.environment.values()))).write_text("{\x00")
        assert (sources.changed(), names(tmp_path, sources.names)) == ([], ["later.py", "server.py"])
        (tmp_path / "later.py").write_text("")
        assert names(tmp_path, sources.changed()) == ["later.py"]


def test_generated_packages_are_no_source_of_the_author() -> None:
    """Otherwise a server that does not exist would be waited for, because some file of it might be mended."""
    assert not is_own_source(str(mcprev_types.__file__))
    assert is_own_source(__file__)
