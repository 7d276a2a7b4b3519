"""What benchmarks measured becomes JSON, drawings and a page: bars begin at zero and are as long as the medians say."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from helpers.support import ROOT

SPACE = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what a made-up benchmark has saved."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")  # type: ignore[no-untyped-call,unused-ignore]
    monkeypatch.setenv("MCPREV_FIGURES", str(tmp_path / "found"))
    monkeypatch.setattr(sys, "argv", ["over_stdio.py"])
    report: Any = importlib.import_module("report")
    times = {"a floor": [1.0, 1.0, 2.0], "mcprev": [2.0, 3.0, 4.0], "another <one>": [8.0, 6.0, 7.0]}
    report.save([report.Peer(name, [], figures={"start, ms": runs}) for name, runs in times.items()])
    return tmp_path / "found"


def test_what_was_measured_is_written_with_machine_date_and_versions(figures: Path) -> None:
    found = json.loads((figures / "over_stdio.json").read_text(encoding="utf-8"))
    assert found["peers"]["mcprev"] == {"start, ms": [2.0, 3.0, 4.0]}
    assert all(found[name] for name in ("machine", "date", "versions"))


def test_of_a_benchmark_with_many_figures_the_chosen_ones_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")  # type: ignore[no-untyped-call,unused-ignore]
    plots: Any = importlib.import_module("plots")
    figures = {"stdio, text 1 MB: CPU ms": [1.0], "stdio, text 1 MB: wall ms": [1.0]}
    head: dict[str, Any] = {"benchmark": "large", "date": "", "machine": "", "versions": {}, "load": 0}
    drawn = plots.drawn({**head, "peers": {"floor": figures}})
    assert "text 1 MB: CPU ms" in drawn
    assert "wall ms" not in drawn


def test_a_drawing_has_bars_from_zero_and_a_caption(figures: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "plots.py"), str(figures), str(tmp_path / "figures")],
        capture_output=True,
        text=True,
        check=True,
    )
    (path,) = done.stdout.split()
    drawn = ET.fromstring(Path(path).read_text(encoding="utf-8"))  # noqa: S314 - made above
    bars = drawn.findall(f"{SPACE}rect")[1:]
    assert {bar.get("x") for bar in bars} == {"230"}
    assert [float(bar.get("width") or 0) for bar in bars] == [50.0, 150.0, 350.0]
    assert len({bar.get("fill") for bar in bars}) == 3
    lines = [line.get("d") for line in drawn.findall(f"{SPACE}path")]
    assert lines[1] == "M330.0 60H430.0"
    texts = "\n".join(text.text or "" for text in drawn.findall(f"{SPACE}text"))
    assert "another <one>" in texts
    assert json.loads((figures / "over_stdio.json").read_text(encoding="utf-8"))["machine"] in texts
    page = (tmp_path / "figures").with_suffix(".md").read_text(encoding="utf-8")
    assert "(figures/over_stdio.svg)" in page
    assert "## The stdio server by bytes" in page


def test_drawings_page_and_table_are_what_the_files_beside_them_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is quoted that the run did not measure: `make figures` writes all of it."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")  # type: ignore[no-untyped-call,unused-ignore]
    plots: Any = importlib.import_module("plots")
    docs = ROOT / "docs"
    made = plots.draw(docs / "figures", tmp_path / "figures")
    assert {path.name for path in made} == {path.name for path in (docs / "figures").glob("*.svg")}
    for path in made:
        assert path.read_text(encoding="utf-8") == (docs / "figures" / path.name).read_text(encoding="utf-8")
    assert plots.page(made) == (docs / "figures.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert plots.with_table(readme, docs / "figures") == readme
