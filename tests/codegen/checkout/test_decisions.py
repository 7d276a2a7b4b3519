"""Open decisions about a new revision: listed until they are made; `latest` does not change before.

A small checkout (a schema folder, a table of revisions, step modules) gets a second revision. The tests follow the
recipe: import, generate, row, step, generate; and the reverse.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from helpers.mini import COMMIT, REVISION, SOURCE, snapshot, write_folder, write_source
from helpers.support import FOLDER, ROOT
from mcprev.conversion.rules import Rules
from mcprev_codegen import ir
from mcprev_codegen.build import packages as pipeline
from mcprev_codegen.build.packages import Result
from mcprev_codegen.checkout import decisions, step_modules as steps
from mcprev_codegen.checkout.pinning import import_schema
from mcprev_codegen.checkout.runtime import Runtime
from mcprev_codegen.errors import InputError
from mcprev_codegen.facts import load as sources
from mcprev_codegen.inputs import SchemaFolder

pytestmark = pytest.mark.usefixtures("in_one_process")

NEWER: Final = "2099-02-02"
ROW: Final = f'_A = Revision(name="{REVISION}", version="{REVISION}")\n'
CHANGED: Final = (
    SOURCE.replace(REVISION, NEWER)
    .replace("name: string;\n  size?: number;", "name: string;\n  /** @maximum 5 */\n  size?: number;\n  age: number;")
    .replace("export interface GetThingResult", "export interface GetThingResult")
)  # fmt: skip


def checkout(folder: Path) -> Path:
    """A checkout with one revision that is complete, and its packages; gives the schema folder."""
    schema = write_folder(folder)
    (schema / "descriptions.toml").write_text(described(SOURCE), encoding="utf-8")
    runtime = folder / "runtime" / "mcprev"
    (runtime / "conversion").mkdir(parents=True)
    (runtime / "revisions.py").write_text(ROW, encoding="utf-8")
    run(folder)
    return schema


def described(source: str) -> str:
    types = re.findall(r"export (?:interface|type) (\w+)", source)
    consts = re.findall(r"export const (\w+)", source)
    lines = ["[constants]", *(f'{name} = "A constant."' for name in consts)]
    return "\n".join([*lines, *(f'[types.{name}]\ndoc = "A type."' for name in types)])


def run(folder: Path) -> Result:
    """`mcprev generate` in the checkout."""
    return pipeline.generate(
        SchemaFolder(folder / "schema"),
        folder / "generated" / "mcprev_types",
        docs=folder / "docs" / "revisions",
    )


def add(folder: Path, source: str = CHANGED, revision: str = NEWER) -> None:
    import_schema(SchemaFolder(folder / "schema"), str(write_source(folder, source)), revision, commit=COMMIT)


def index(folder: Path) -> dict[str, Any]:
    """The statuses and the latest that the generated index has."""
    text = (folder / "generated" / "mcprev_types" / "index.py").read_text(encoding="utf-8")
    statuses = re.findall(r'revision="([^"]+)".*?status="([^"]+)"', text, re.DOTALL)
    latest = re.search(r'LATEST: Final = "([^"]+)"', text)
    assert latest
    return {**dict(statuses), "latest": latest[1]}


def about(lines: Iterable[object]) -> list[str]:
    """The file and the question of each line, without revision and line number."""
    return [re.sub(r"^\S*?([^/:]+)(:\d+)?: ", r"\1: ", str(line).split("  ", 1)[1]) for line in lines]


def load_step(path: Path) -> Mapping[str, Rules]:
    names: dict[str, Any] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)  # noqa: S102 - our own skeleton
    return names


# -- the recipe ------------------------------------------------------------------------------------------


def test_a_checkout_in_which_all_is_decided_has_no_lines(tmp_path: Path) -> None:
    assert decisions.decision_lines(SchemaFolder(checkout(tmp_path))) == []


@pytest.mark.slow
def test_the_repo_has_nothing_to_decide() -> None:
    assert decisions.decision_lines(FOLDER) == []


def test_a_new_revision_is_pending_until_its_row_and_its_step_are_there(tmp_path: Path) -> None:
    schema = checkout(tmp_path)
    before = snapshot(tmp_path / "generated")
    add(tmp_path)
    assert about(decisions.decision_lines(SchemaFolder(schema))) == [
        f"revisions.py: add the row of the revision, replace(<row of {REVISION}>, name='{NEWER}', ...), and list it in _ROWS",
        "step_2099_02_02.py: the step module is missing: `mcprev generate` writes its skeleton",
    ]
    result = run(tmp_path)
    assert index(tmp_path) == {REVISION: "final", NEWER: "pending", "latest": REVISION}
    after = snapshot(tmp_path / "generated")
    old = {
        name: data for name, data in before.items() if "/v2099_01_01/" in name or name.endswith("latest.py")
    }
    assert len(old) > 8
    assert {name: after[name] for name in old} == old, "the others do not know of it yet"

    step = tmp_path / "runtime" / "mcprev" / "conversion" / "step_2099_02_02.py"
    assert step in result.written
    assert load_step(step)["DOWN"] == Rules(
        undecided={},
    )
    assert load_step(step)["UP"].undecided == {
        "Thing.age": f"{NEWER} requires it: a peer there would receive an object without it",
        "Thing.size": f"{NEWER} allows less (maximum 5): a peer there would receive values beyond that",
    }
    open_ = about(result.decisions)
    assert [line.split(" ")[:2] for line in open_[1:]] == [
        ["step_2099_02_02.py:", "Thing.age:"],
        ["step_2099_02_02.py:", "Thing.size:"],
    ]
    lines = step.read_text(encoding="utf-8").split("\n")
    for decision in result.decisions[1:]:
        assert decision.line is not None
        assert decision.question.split(":")[0] in lines[decision.line - 1]

    row = f'_B = replace(_A, name="{NEWER}", version="{NEWER}")\n'
    (tmp_path / "runtime" / "mcprev" / "revisions.py").write_text(ROW + row, encoding="utf-8")
    run(tmp_path)
    assert index(tmp_path)["latest"] == REVISION
    step.write_text("DOWN = Rules()\nUP = Rules(accepted={'Thing.age': 'why'})\n", encoding="utf-8")
    result = run(tmp_path)
    assert index(tmp_path) == {REVISION: "final", NEWER: "final", "latest": NEWER}
    assert result.decisions == ()
    assert decisions.decision_lines(SchemaFolder(schema)) == []
    assert f'NEXT: Final[str | None] = "{NEWER}"' in (
        tmp_path / "generated" / "mcprev_types" / "v2099_01_01" / "deltas.py"
    ).read_text(encoding="utf-8")


def test_a_draft_gets_a_skeleton_for_members_that_somebody_has_to_decide_and_holds_nothing_up(
    tmp_path: Path,
) -> None:
    schema = checkout(tmp_path)
    step = tmp_path / "runtime" / "mcprev" / "conversion" / "step_draft.py"
    add(tmp_path, SOURCE, "draft")
    run(tmp_path)
    assert not step.exists()
    assert decisions.decision_lines(SchemaFolder(schema)) == []
    import_schema(
        SchemaFolder(schema), str(write_source(tmp_path, CHANGED)), "draft", commit=COMMIT, repin=True
    )
    assert about(decisions.decision_lines(SchemaFolder(schema))) == [
        "step_draft.py: the step module is missing: `mcprev generate` writes its skeleton"
    ]
    run(tmp_path)
    assert load_step(step)["UP"].undecided.keys() == {"Thing.age", "Thing.size"}
    assert [line.split(" ")[:2] for line in about(decisions.decision_lines(SchemaFolder(schema)))] == [
        ["step_draft.py:", "Thing.age:"],
        ["step_draft.py:", "Thing.size:"],
    ]
    assert index(tmp_path)["latest"] == REVISION


def test_a_draft_waits_for_the_dated_revision_before_it(tmp_path: Path) -> None:
    """It is what the draft will be compared with, and often the same."""
    schema = checkout(tmp_path)
    add(tmp_path)
    add(tmp_path, CHANGED, "draft")
    run(tmp_path)
    assert not (tmp_path / "runtime" / "mcprev" / "conversion" / "step_draft.py").exists()
    assert not [line for line in decisions.decision_lines(SchemaFolder(schema)) if "step_draft" in line]


def test_a_step_module_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    checkout(tmp_path)
    add(tmp_path)
    step = tmp_path / "runtime" / "mcprev" / "conversion" / "step_2099_02_02.py"
    step.write_text("mine = 1\n", encoding="utf-8")
    assert step not in run(tmp_path).files
    assert step.read_text(encoding="utf-8") == "mine = 1\n"


def test_a_revision_that_only_adds_has_a_skeleton_that_works_as_it_is(tmp_path: Path) -> None:
    checkout(tmp_path)
    add(tmp_path, SOURCE.replace(REVISION, NEWER).replace("size?: number;", "size?: number; more?: string;"))
    run(tmp_path)
    step = tmp_path / "runtime" / "mcprev" / "conversion" / "step_2099_02_02.py"
    assert "undecided" not in step.read_text(encoding="utf-8")
    names = load_step(step)
    assert (names["DOWN"], names["UP"]) == (Rules(), Rules())
    assert ast.get_docstring(ast.parse(step.read_text(encoding="utf-8")))


def test_a_skeleton_names_content_that_older_peers_lack_and_what_replaces_it(tmp_path: Path) -> None:
    source = SOURCE + (
        'export interface Text { type: "text" }\nexport interface Image { type: "image" }\n'
        'export interface Video { type: "video" }\n'
    )
    old = source.replace("{ thing: Thing }", "{ thing: Thing; content: (Text | Image)[] }")
    new = old.replace("Text | Image", "Text | Image | Video").replace(REVISION, NEWER)
    schema = write_folder(tmp_path, old)
    import_schema(SchemaFolder(schema), str(write_source(tmp_path, new)), NEWER, commit=COMMIT)
    loaded = sources.load_pinned(SchemaFolder(schema))
    text = steps.skeleton(loaded[REVISION], loaded[NEWER])
    place = tmp_path / "step.py"
    place.write_text(text, encoding="utf-8")
    names = load_step(place)
    assert names["DOWN"].undecided == {
        "GetThingResult.content": f"{REVISION} has no 'video': a peer there receives nothing, unless Video has a "
        "substitute"
    }
    assert names["UP"] == Rules()


def test_a_step_module_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    schema = checkout(tmp_path)
    add(tmp_path)
    step = tmp_path / "runtime" / "mcprev" / "conversion" / "step_2099_02_02.py"
    step.write_text("def (", encoding="utf-8")
    with pytest.raises(InputError, match=r"step_2099_02_02\.py: cannot be read"):
        run(tmp_path)
    assert "cannot be read" in decisions.decision_lines(SchemaFolder(schema))[0]


def test_of_two_new_revisions_the_older_one_gets_its_skeleton_first(tmp_path: Path) -> None:
    checkout(tmp_path)
    add(tmp_path)
    add(tmp_path, CHANGED.replace(NEWER, "2099-03-03"), "2099-03-03")
    run(tmp_path)
    folder = tmp_path / "runtime" / "mcprev" / "conversion"
    assert [path.name for path in folder.iterdir()] == ["step_2099_02_02.py"]
    assert index(tmp_path)["latest"] == REVISION


# -- methods and descriptions ----------------------------------------------------------------------------

CAPABLE: Final = SOURCE + "export interface ServerCapabilities { things?: object }\n"
FINDS: Final = (
    CAPABLE.replace(REVISION, NEWER)
    .replace(
        "ClientRequest = GetThingRequest", "ClientRequest = GetThingRequest | FindRequest | MoreThingsRequest"
    )
    .replace("ServerResult = GetThingResult", "ServerResult = GetThingResult | FindResult | MoreThingsResult")
    + 'export interface FindRequest { method: "find"; params: { words: string } }\n'
    + 'export interface MoreThingsRequest { method: "things/more"; params: { uri: string } }\n'
    + "export interface FindResult { found: Thing }\nexport interface MoreThingsResult { found: Thing }\n"
)
HEADER: Final = '[[entry]]\npointer = "things/get#name_param"\nexpected = ""\nnew = "name"\nwhy = "w"\n'
NO_GATE: Final = (
    '[[entry]]\npointer = "find#capability"\nsince = "2099-02-02"\nexpected = ""\nnew = ""\nwhy = "w"\n'
)
NO_HEADER: Final = (
    HEADER.replace("things/get", "things/more")
    .replace('"name"', '""')
    .replace("exp", f'since = "{NEWER}"\nexp', 1)
)


def test_a_new_method_needs_its_capability_and_its_header_said_where_the_schema_does_not(
    tmp_path: Path,
) -> None:
    schema = checkout(tmp_path)
    (schema / "overlay.toml").write_text(HEADER, encoding="utf-8")
    (schema / "descriptions.toml").write_text(described(FINDS), encoding="utf-8")
    add(tmp_path, FINDS)
    wanted = [
        "overlay.toml: 'find#capability': state the capability that it requires, or \"\" for none",
        "overlay.toml: 'things/more#name_param': state whether the Mcp-Name header repeats its 'uri', or \"\" for none",
    ]
    assert about(decisions.decision_lines(SchemaFolder(schema)))[:2] == wanted
    (schema / "overlay.toml").write_text(HEADER + NO_GATE, encoding="utf-8")
    assert about(decisions.decision_lines(SchemaFolder(schema)))[:1] == wanted[1:]
    (schema / "overlay.toml").write_text(HEADER + NO_GATE + NO_HEADER, encoding="utf-8")
    assert not any("overlay" in line for line in decisions.decision_lines(SchemaFolder(schema)))


def test_a_new_required_member_of_a_result_that_the_runtime_makes_is_given_there(tmp_path: Path) -> None:
    schema = checkout(tmp_path)
    add(
        tmp_path,
        CHANGED.replace("{ thing: Thing }", '{ thing: Thing; total: number; more?: string; kind: "thing" }'),
    )
    handlers = tmp_path / "runtime" / "mcprev" / "app" / "handlers.py"
    handlers.parent.mkdir()
    handlers.write_text("\nreturn models.GetThingResult(thing=found, **cache)\n", encoding="utf-8")
    place = (
        f"handlers.py: GetThingResult.total: {NEWER} requires it, and the runtime makes this result without it: "
        "give it here, or state a default in schema/overlay.toml"
    )
    result = run(tmp_path)
    assert place in about(result.decisions)
    assert [d.line for d in result.decisions if d.path == handlers] == [2]
    handlers.write_text(
        "models.GetThingResult(thing=found, total=1)\nmodels.OtherResult()\n", encoding="utf-8"
    )
    assert place not in about(decisions.decision_lines(SchemaFolder(schema)))


MADE: Final = {
    "models.AResult(a=1, **b)": [("AResult", {"a"})],
    'x = {"a": 1}  # makes AResult': [("AResult", {"a"})],
    'x = {  # makes AResult BResult\n    **y, "a": {"b": 1},\n}': [
        ("AResult", {"a", "b"}),
        ("BResult", {"a", "b"}),
    ],
    '# makes AResult\nx = {z: 1, **({"a": 1} if y else {})}': [("AResult", {"a"})],
    'f(\n    {"a": 1}  # makes AResult\n)\ng({"b": 1})': [("AResult", {"a"})],
    'x = {"a": 1}  # makes trouble': [],
}
"""What makes a result, and the results with their members."""


@pytest.mark.parametrize("text", MADE)
@pytest.mark.parametrize("folder", ["runtime/mcprev/app", "examples"])
def test_results_are_found_as_models_and_as_dicts_that_say_so(text: str, folder: str, tmp_path: Path) -> None:
    place = tmp_path / folder / "made.py"
    place.parent.mkdir(parents=True)
    place.write_text(f"from mcprev_types.latest import models\n{text}\n", encoding="utf-8")
    found = Runtime(tmp_path / "runtime" / "mcprev").made_results()
    assert [(one.type, {*one.given}) for one in found] == MADE[text]


NO_RESULTS: Final = (
    "app/names.py",
    "bridge/several/places.py",
    "bridge/several/translation.py",
    "bridge/tasks.py",
    "cli/answering.py",
    "conversion/step_2025_11_25.py",
    "conversion/step_2026_07_28.py",
    "core/input_requests.py",
    "dev/questions.py",
    "extensions/skills/serving.py",
    "middleware/answers.py",
    "protocol/mrtr.py",
    "protocol/result_rules.py",
    "protocol/tasks.py",
    "server/task_manager.py",
)
"""Files with dicts that have the members of a result and are none of MCP's own: capabilities, changes of a model, what the runtime
measures, results of extensions."""


def test_each_dict_of_the_runtime_that_could_be_a_result_is_marked_as_one() -> None:
    newest = sources.load_revision(FOLDER, sources.dated(FOLDER)[-1]).schema
    results = [
        [f for f in newest.flat(name).fields if f.name not in ("resultType", "_meta", "ttlMs", "cacheScope")]
        for name in newest.types
        if name.endswith("Result") and newest.is_object(ir.Ref(name))
    ]
    shapes = [({f.name for f in one if not f.field.optional}, {f.name for f in one}) for one in results]
    runtime = Runtime(ROOT / "runtime" / "mcprev")
    marked = {(one.path, one.line) for one in runtime.made_results()}
    found: set[str] = set()
    for path in sorted(runtime.folder.rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for node in (one for one in nodes if isinstance(one, ast.Dict)):
            keys = {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}
            keys -= {"resultType", "_meta", "ttlMs", "cacheScope"}
            if (
                any(needed and needed <= keys <= all_ for needed, all_ in shapes)
                and (path, node.lineno) not in marked
            ):
                found.add(path.relative_to(runtime.folder).as_posix())
    assert tuple(sorted(found)) == NO_RESULTS


def test_what_has_no_description_is_listed_but_holds_nothing_up(tmp_path: Path) -> None:
    schema = checkout(tmp_path)
    (schema / "descriptions.toml").write_text(described(SOURCE.replace("Thing {", "T {")), encoding="utf-8")
    result = run(tmp_path)
    assert about(result.decisions) == ["descriptions.toml: 1 without a description: [types.Thing]"]
    assert index(tmp_path)["latest"] == REVISION
    assert not any(decision.blocks for decision in result.decisions)


# -- taking a revision out -------------------------------------------------------------------------------


def test_what_is_left_over_of_a_revision_is_listed(tmp_path: Path) -> None:
    schema = checkout(tmp_path)
    row = '_B = replace(_A, name="2098-01-01")\n'
    (tmp_path / "runtime" / "mcprev" / "revisions.py").write_text(ROW + row, encoding="utf-8")
    left = tmp_path / "runtime" / "mcprev" / "conversion" / "step_2099_01_01.py"
    left.write_text("DOWN = UP = None\n", encoding="utf-8")
    assert about(decisions.decision_lines(SchemaFolder(schema))) == [
        "revisions.py: no longer pinned: remove the row",
        "step_2099_01_01.py: no revision comes before it: delete the module",
    ]
    assert index(tmp_path)["latest"] == REVISION


def test_a_revision_whose_row_is_gone_is_pending_again(tmp_path: Path) -> None:
    checkout(tmp_path)
    (tmp_path / "runtime" / "mcprev" / "revisions.py").write_text("", encoding="utf-8")
    run(tmp_path)
    assert index(tmp_path)[REVISION] == "pending"


def test_without_a_runtime_every_dated_revision_is_final(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    add(tmp_path)
    pipeline.generate(SchemaFolder(schema), tmp_path / "generated" / "mcprev_types")
    assert index(tmp_path) == {REVISION: "final", NEWER: "final", "latest": NEWER}
