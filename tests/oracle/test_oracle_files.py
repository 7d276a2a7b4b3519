"""Models, JSON Schemas and TypeScript itself agree on values of the types in files of npm packages, which `make inputs` installs.

The compiler draws the values, and says whether it takes those that were changed. It does not know the limits of JSDoc
tags, and lets `{}` be any value; no file here has the former, and no value here changes an object into something else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from helpers.support import FOLDER, ROOT
from mcprev_codegen.emit import rendering, shared
from oracle.drawn import LITERALS
from oracle.said import Package
from oracle.test_oracle_tsc import COMPILER, HERE

INSTALLED: Final = ROOT / ".inputs" / "node_modules"
FILES: Final = (
    "@agentclientprotocol/sdk/dist/v1/schema/types.gen.d.ts",
    "@octokit/webhooks-types/schema.d.ts",
    "@slack/types/dist/events/shared-channel.d.ts",
    "@types/geojson/index.d.ts",
    "@types/har-format/index.d.ts",
    "@types/hast/index.d.ts",
    "@types/json-schema/index.d.ts",
    "@types/mdast/index.d.ts",
    "@types/sarif/index.d.ts",
    "@types/unist/index.d.ts",
    "@types/web-app-manifest/index.d.ts",
    "telegram-typings/index.d.ts",
    "vega-typings/types/spec/scheme.d.ts",
)
TYPES: Final = 15
"""How many types of a file are drawn."""
VALUES: Final = 4
"""How many values of each type are drawn, each with one changed one."""
SEED: Final = int(os.environ.get("MCPREV_FUZZ_SEED", "1"))


def asked(script: str, *arguments: str, given: object = None) -> str:
    command = ["node", str(HERE / script), str(COMPILER), *arguments]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=True)
    return done.stdout


def changed(value: Any, draw: Random, kept: frozenset[str]) -> Any:
    """A value with one part of it gone, added or replaced; an object remains one, with the members that are `kept`."""
    if isinstance(value, dict):
        members: dict[str, Any] = {**value}
        name, how = draw.choice([*members, "other"]), draw.random()
        if name not in members:
            members[name] = draw.choice(LITERALS)
        elif how < 0.3 and name not in kept:
            del members[name]
        else:
            members[name] = changed(members[name], draw, kept)
        return members
    if isinstance(value, list) and value and draw.random() < 0.8:
        items: list[Any] = [*value]
        place = draw.randrange(len(items))
        items[place] = changed(items[place], draw, kept)
        return items
    others: list[Any] = [*LITERALS, 1.0, {}]
    return draw.choice(others)


@pytest.mark.skipif(
    not (INSTALLED.is_dir() and COMPILER.exists()), reason="the packages are missing: `make inputs`"
)
@pytest.mark.parametrize("name", FILES, ids=[re.sub(r"/(?=[^@]).*/", "-", name) for name in FILES])
def test_all_three_agree_on_values_of_a_published_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    for module in (rendering, shared):  # what is compared is what the models do
        monkeypatch.setattr(module, "format_python", str)
    path = INSTALLED / name
    package = Package(FOLDER, path, tmp_path, re.sub(r"\W+", "_", name).strip("_") + "_drawn")
    drawn: dict[str, Any] = json.loads(asked("draw.js", str(path), str(SEED), str(TYPES), str(VALUES)))
    draw, kept = Random(SEED), frozenset(drawn["loose"])  # noqa: S311 - to be the same again
    values = [(type_, value) for type_, value in drawn["cases"] if package.has(type_)]
    cases = [*values, *((type_, changed(value, draw, kept)) for type_, value in values)]
    assert values
    verdicts = asked("tsc.js", given={"file": str(path), "cases": cases}).strip()
    assert verdicts[: len(values)].strip("1") == "", "what the compiler draws it takes"
    found: list[str] = []
    for (type_, value), verdict in zip(cases, verdicts, strict=True):
        said = package.says(type_, value)
        if verdict != "?" and {*said} != {verdict}:
            found.append(
                f"{type_} {json.dumps(value)}: tsc {verdict}, model {said[0]}, schema.json {said[1]}"
            )
    assert found == []
