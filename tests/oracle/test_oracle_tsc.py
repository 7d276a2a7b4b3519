"""Models, JSON Schemas and TypeScript itself agree on the values of drawn schemas, right ones and changed ones.

What the compiler says of the schemas that `make test` draws is recorded in `verdicts.json`, so that no Node is needed;
`PYTHONPATH=tests python -m oracle.test_oracle_tsc` records it anew. `make fuzz` draws others, and asks the compiler where npm is.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from fuzz.fuzzing import sampled
from helpers import mini
from helpers.support import ROOT
from mcprev_codegen.emit import rendering, shared
from mcprev_codegen.inputs import SchemaFolder
from oracle.drawn import Schema, schema
from oracle.said import Package

HERE: Final = Path(__file__).parent
VERDICTS: Final = HERE / "verdicts.json"
COMPILER: Final = ROOT / ".tsc" / "node_modules" / "typescript"
DRAWN: Final = tuple(schema(seed, seed) for seed in range(60))


def asked(schemas: tuple[Schema, ...]) -> list[str]:
    """What the compiler says of each case of some schemas: `1` where it takes the value."""
    cases = [list(case) for one in schemas for case in one.cases]
    text = "\n".join(one.text for one in schemas)
    done = subprocess.run(
        ["node", str(HERE / "tsc.js"), str(COMPILER)],
        input=json.dumps({"schema": text, "cases": cases}), capture_output=True, text=True, check=True,
    )  # fmt: skip
    verdicts = iter(done.stdout.strip())
    return ["".join(next(verdicts) for _ in one.cases) for one in schemas]


def digest(schemas: tuple[Schema, ...]) -> str:
    return hashlib.sha256(json.dumps([[one.text, one.cases] for one in schemas]).encode()).hexdigest()


def differences(schemas: tuple[Schema, ...], verdicts: list[str], folder: Path, package: str) -> list[str]:
    """Where the models or the JSON Schema do not say what the compiler says, or a value does not survive."""
    path = folder / "schema.ts"
    path.write_text("\n".join(one.text for one in schemas), encoding="utf-8")
    inputs = SchemaFolder(mini.write_folder(folder))
    made = Package(inputs, path, folder, package)
    found: list[str] = []
    for one, expected in zip(schemas, verdicts, strict=True):
        for (name, value), verdict in zip(one.cases, expected, strict=True):
            taken, judged = made.says(name, value)
            if {taken, judged} != {verdict}:
                found.append(
                    f"{name} {value!r}: tsc {verdict}, model {taken}, schema.json {judged}\n{one.text}"
                )
    return found


@pytest.fixture(autouse=True)
def without_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generate here, and do not format: what is compared is what the models do."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    for module in (rendering, shared):
        monkeypatch.setattr(module, "format_python", str)


@pytest.mark.slow
def test_all_three_agree_on_drawn_values(tmp_path: Path) -> None:
    recorded = json.loads(VERDICTS.read_text(encoding="utf-8"))
    assert recorded["digest"] == digest(
        DRAWN
    ), "other schemas are drawn: record what the compiler says of them"
    assert {"0", "1"} <= {*"".join(recorded["verdicts"])}
    assert differences(DRAWN, recorded["verdicts"], tmp_path, "drawn_types") == []


@pytest.mark.skipif(
    sampled(1) == 1 or shutil.which("node") is None or not COMPILER.exists(),
    reason="make fuzz asks the compiler",
)
def test_all_three_agree_on_values_that_are_drawn_anew(tmp_path: Path) -> None:
    first = 1000 + int(os.environ.get("MCPREV_FUZZ_SEED", "0")) * 100
    schemas = tuple(schema(first + number, number) for number in range(sampled(10)))
    assert differences(schemas, asked(schemas), tmp_path, "anew_types") == []


if __name__ == "__main__":
    made = {"digest": digest(DRAWN), "verdicts": asked(DRAWN)}
    VERDICTS.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
