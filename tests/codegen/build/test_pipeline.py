"""Generation of the packages: deterministic, and all files or none are written."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from typing_extensions import override

from fuzz.fuzzing import sampled_of
from helpers.mini import REVISION, SOURCE, snapshot, write_folder, write_source
from helpers.support import (
    DATED,
    DRAFT,
    FIRST,
    FOLDER,
    GENERATED,
    REVISIONS,
    SCHEMA,
    needs_upstream,
    upstream_path,
)
from mcprev_codegen.build import packages as pipeline
from mcprev_codegen.checkout.pinning import import_schema
from mcprev_codegen.emit import rendering
from mcprev_codegen.emit.package import PACKAGE_FILES
from mcprev_codegen.errors import CodegenError, InputError, SchemaError
from mcprev_codegen.facts import load as sources, load_versions
from mcprev_codegen.facts.revision import Revision
from mcprev_codegen.inputs import SchemaFolder, joined_name
from mcprev_codegen.inputs.pins import contract_path, load_pins, save_contract, with_contract
from mcprev_types.extensions.index import EXTENSIONS

SHARED = {
    "__init__.py",
    "_base.py",
    "_errors.py",
    "_lazy.py",
    "_names.py",
    "_open.py",
    "_spec.py",
    "index.py",
    "latest.py",
    "py.typed",
}


TRIED: Final = sampled_of(REVISIONS, DATED[-1:])
"""The revisions that are generated anew; `make check` generates each, and so does `make fuzz` here."""


def package_of(revision: str) -> str:
    return revision if revision == DRAFT else "v" + revision.replace("-", "_")


VERSIONS: Final = [joined_name(name, version) for name, e in EXTENSIONS.items() for version in e.versions]
INDEXES: Final = ("index.py", *(f"extensions/{e.package}/__init__.py" for e in EXTENSIONS.values()))


def version_folder(label: str) -> str:
    """The folder of a version of an extension, such as `tasks@draft`."""
    name, _, version = label.partition("@")
    return f"extensions/{EXTENSIONS[name].package}/{package_of(version)}"


@pytest.fixture(scope="module")
def present() -> dict[str, bytes]:
    """The files of the repo's packages."""
    return snapshot(GENERATED)


@pytest.mark.slow
def test_the_repos_packages_are_what_is_generated_byte_for_byte(
    present: dict[str, bytes], tmp_path: Path
) -> None:
    based = [label for label, one in load_versions(FOLDER).items() if one.negotiated_as in TRIED]
    pipeline.generate(FOLDER, tmp_path / "mcprev_types", [*TRIED, *based])
    fresh = snapshot(tmp_path / "mcprev_types")
    others = {package_of(name) for name in REVISIONS if name not in TRIED}
    others |= {version_folder(label) for label in VERSIONS if label not in based}
    files = {name for name in present if not any(name.startswith(f"{other}/") for other in others)}
    assert files == fresh.keys()
    # They list all packages of their folders.
    index = {name for name in present if name.endswith(INDEXES)} if others else set[str]()
    assert [name for name in fresh.keys() - index if present[name] != fresh[name]] == []


def test_the_files_of_all_packages(present: dict[str, bytes]) -> None:
    packages = [package_of(name) for name in REVISIONS]
    versions = [*map(version_folder, VERSIONS)]
    models = {name for name in present if name.split("/")[-2:-1] == ["models"]}
    beside = {f"{folder.rpartition('/')[0]}/__init__.py" for folder in versions}
    beside |= {"extensions/__init__.py", "extensions/index.py"}
    assert present.keys() - models == SHARED | beside | {
        f"{package}/{name}" for package in [*packages, *versions] for name in PACKAGE_FILES
    }
    for package in packages:
        assert {f"{package}/models/__init__.py", f"{package}/models/tools_list.py"} <= models
    assert {f"{folder}/models/__init__.py" for folder in versions} <= models


def test_generated_text_is_plain(present: dict[str, bytes]) -> None:
    for name, data in present.items():
        text = data.decode("utf-8")
        assert "\r" not in text, name
        assert "\t" not in text, name
        assert text == "" or (text.endswith("\n") and not text.endswith("\n\n")), name
        assert not any(line != line.rstrip() for line in text.split("\n")), name


@pytest.mark.slow
def test_generating_gives_identical_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    """The packages of the repo were made with others."""
    out = tmp_path / "types"
    command = [
        sys.executable,
        "-c",
        "from mcprev.cli import main; main()",
        "generate",
        FIRST,
        "--out",
        str(out),
    ]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    subprocess.run(command, check=True, env=environment, capture_output=True, cwd=tmp_path)
    package = "v" + FIRST.replace("-", "_")
    made, mine = (
        {name: data for name, data in snapshot(folder).items() if name.startswith(package)}
        for folder in (out, GENERATED)
    )
    assert made == mine


def names(paths: Iterable[Path], target: Path) -> list[str]:
    """Paths below the target, as a result gives them, in the form of a snapshot's."""
    return sorted(path.relative_to(target).as_posix() for path in paths)


# -- a small folder --------------------------------------------------------------------------------------


def test_a_first_run_writes_everything_and_a_second_nothing(tmp_path: Path) -> None:
    schema, target = write_folder(tmp_path), tmp_path / "out"
    first = pipeline.generate(SchemaFolder(schema), target)
    assert set(first.changed) == set(first.files)
    assert names(first.files, target) == sorted(snapshot(target))
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*")}
    assert pipeline.generate(SchemaFolder(schema), target).changed == ()
    assert {path: path.stat().st_mtime_ns for path in target.rglob("*")} == before


def test_a_dry_run_says_what_would_change_and_writes_nothing(tmp_path: Path) -> None:
    schema, target = write_folder(tmp_path), tmp_path / "out"
    assert pipeline.generate(SchemaFolder(schema), target, write=False).changed
    assert not target.exists()
    pipeline.generate(SchemaFolder(schema), target)
    (target / "v2099_01_01" / "models" / "things.py").write_text("edited by hand\n", encoding="utf-8")
    (target / "stray.py").write_text("", encoding="utf-8")
    (target / "index.py").unlink()
    before = snapshot(target)
    found = pipeline.generate(SchemaFolder(schema), target, write=False)
    assert names(found.changed, target) == ["index.py", "v2099_01_01/models/things.py"]
    assert names(found.foreign, target) == ["stray.py"]
    assert snapshot(target) == before


def test_a_run_over_everything_puts_back_edits_and_leaves_strays_alone(tmp_path: Path) -> None:
    schema, target = write_folder(tmp_path), tmp_path / "out"
    pipeline.generate(SchemaFolder(schema), target)
    good = snapshot(target)
    (target / "v2099_01_01" / "models" / "things.py").write_text("edited by hand\n", encoding="utf-8")
    (target / "old").mkdir()
    (target / "old" / "methods.py").write_text("theirs", encoding="utf-8")
    result = pipeline.generate(SchemaFolder(schema), target)
    assert names(result.foreign, target) == ["old/methods.py"]
    assert snapshot(target) == {**good, "old/methods.py": b"theirs"}


@pytest.mark.slow
@pytest.mark.usefixtures("in_one_process")
def test_a_run_over_everything_deletes_the_package_of_a_revision_that_is_not_pinned_any_more(
    tmp_path: Path,
) -> None:
    schema, target = write_folder(tmp_path), tmp_path / "out"
    older = write_source(tmp_path, SOURCE.replace("2099-01-01", "2098-01-01"))
    pipeline.generate(SchemaFolder(schema), target)
    good = snapshot(target)
    import_schema(SchemaFolder(schema), str(older), "2098-01-01", commit="f" * 40)
    pipeline.generate(SchemaFolder(schema), target)
    package = target / "v2098_01_01"
    made = [f"v2098_01_01/{name}" for name in snapshot(package)]
    for folder, module in ((package, "methods"), (package / "models", "things")):
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__" / f"{module}.cpython-399.pyc").touch()
    pins = (schema / "revisions.toml").read_text(encoding="utf-8")
    kept = "".join(
        part for part in re.split(r"(?=^\[)", pins, flags=re.MULTILINE) if "2098-01-01" not in part
    )
    (schema / "revisions.toml").write_text(kept, encoding="utf-8")
    result = pipeline.generate(SchemaFolder(schema), target)
    assert names(result.deleted, target) == sorted(made)
    assert not package.exists()
    assert snapshot(target) == good


def test_a_run_over_one_revision_leaves_the_others_alone(tmp_path: Path) -> None:
    schema, target = write_folder(tmp_path), tmp_path / "out"
    pipeline.generate(SchemaFolder(schema), target)
    (target / "other").mkdir()
    (target / "other" / "methods.py").write_text("mine\n", encoding="utf-8")
    (target / "v2099_01_01" / "models" / "things.py").write_text("edited by hand\n", encoding="utf-8")
    assert names(pipeline.generate(SchemaFolder(schema), target, [REVISION]).changed, target) == [
        "v2099_01_01/models/things.py"
    ]
    assert (target / "other" / "methods.py").read_text(encoding="utf-8") == "mine\n"
    assert "class Thing(" in (target / "v2099_01_01" / "models" / "things.py").read_text(encoding="utf-8")


def test_nothing_else_is_left_beside_the_target(tmp_path: Path) -> None:
    schema, target = write_folder(tmp_path), tmp_path / "place" / "out"
    pipeline.generate(SchemaFolder(schema), target)
    pipeline.generate(SchemaFolder(schema), target, [REVISION])
    assert [path.name for path in target.parent.iterdir()] == ["out"]


def test_progress_is_reported_once_for_each_revision(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    seen: list[tuple[str, int, int]] = []

    def report(name: str, done: int, total: int) -> None:
        seen.append((name, done, total))

    pipeline.generate(SchemaFolder(schema), tmp_path / "out", report=report)
    assert seen == [(REVISION, 1, 1)]


# -- failures leave the target as it was -----------------------------------------------------------------


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def unsupported(schema: Path) -> None:
    """A construct nobody knows, in a contract whose pin says it is right."""
    path = contract_path(SchemaFolder(schema), REVISION)
    text = path.read_text(encoding="utf-8") + "\nexport class E { }\n"
    path.write_text(text, encoding="utf-8")
    save_contract(SchemaFolder(schema), with_contract(load_pins(SchemaFolder(schema))[REVISION], text), text)


def bad_overlay(schema: Path) -> None:
    entry = (
        '[[entry]]\npointer = "Thing.name"\nexpected = "name: number;"\nnew = "name: string;"\nwhy = "w"\n'
    )
    (schema / "overlay.toml").write_text(entry, encoding="utf-8")


def edited(name: str, old: str, new: str) -> Callable[[Path], None]:
    return lambda schema: edit(schema / name, old, new)


def gone(name: str) -> Callable[[Path], None]:
    return lambda schema: (schema / name).unlink()


CONTRACT: Final = f"{REVISION}/schema.ts"
BREAKAGES: Final[dict[str, tuple[Callable[[Path], None], type[CodegenError], str]]] = {
    "an unsupported construct": (unsupported, SchemaError, "a class is not supported"),
    "a contract edited by hand": (edited(CONTRACT, "size?:", "size:"), InputError, "not edited by hand"),
    "a contract that is gone": (gone(CONTRACT), InputError, "missing"),
    "an outdated overlay entry": (bad_overlay, SchemaError, "no longer matches"),
    "an overlay that is gone": (gone("overlay.toml"), InputError, "overlay.toml"),
    "descriptions that are gone": (gone("descriptions.toml"), InputError, "descriptions"),
    "a pin without a digest": (edited("revisions.toml", "sha256 =", "sha255 ="), SchemaError, "has no sha256"),
    "a pin without a commit": (edited("revisions.toml", "commit =", "comit ="), SchemaError, "has no commit"),
    "pins that are no TOML": (edited("revisions.toml", "[", "]"), InputError, "revisions.toml"),
    "no pins": (gone("revisions.toml"), InputError, "no revision is pinned"),
}  # fmt: skip


@pytest.mark.parametrize("how", BREAKAGES)
def test_a_failure_leaves_the_target_untouched(tmp_path: Path, how: str) -> None:
    schema, target = write_folder(tmp_path), tmp_path / "out"
    pipeline.generate(SchemaFolder(schema), target)
    before = snapshot(target)
    damage, kind, words = BREAKAGES[how]
    damage(schema)
    for only in ([], [REVISION]):
        with pytest.raises(CodegenError) as caught:
            pipeline.generate(SchemaFolder(schema), target, only)
        if not only:
            assert isinstance(caught.value, kind)
            assert words in str(caught.value)
    assert snapshot(target) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "schema", "upstream"]


@pytest.mark.slow
def test_a_failure_while_writing_leaves_the_target_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, target = write_folder(tmp_path), tmp_path / "out"
    pipeline.generate(SchemaFolder(schema), target)
    good = snapshot(target)
    (target / "v2099_01_01" / "models" / "things.py").write_text("edited by hand\n", encoding="utf-8")
    (target / "_base.py").unlink()
    before = snapshot(target)
    write_text = Path.write_text

    def refuse(self: Path, *arguments: Any, **options: Any) -> int:
        if self.name == "things.py":
            raise OSError("the disk is full")
        return write_text(self, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(OSError, match="disk is full"):
        pipeline.generate(SchemaFolder(schema), target)
    assert snapshot(target) == before
    monkeypatch.undo()
    pipeline.generate(SchemaFolder(schema), target)
    assert snapshot(target) == good


@pytest.mark.usefixtures("in_one_process")
def test_one_broken_revision_stops_all(tmp_path: Path) -> None:
    schema, target = write_folder(tmp_path), tmp_path / "out"
    newer = write_source(tmp_path, SOURCE.replace("2099-01-01", "2099-02-02"))
    import_schema(SchemaFolder(schema), str(newer), "2099-02-02", commit="f" * 40)
    unsupported(schema)
    with pytest.raises(SchemaError, match="a class"):
        pipeline.generate(SchemaFolder(schema), target)
    assert not target.exists()


@pytest.mark.parametrize(
    ("only", "words"),
    [(["2000-01-01"], "revision '2000-01-01' is not pinned; pinned are 2099-01-01"), ([""], "is not pinned")],
)
def test_a_revision_that_is_not_pinned_is_an_error(tmp_path: Path, only: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        pipeline.generate(SchemaFolder(write_folder(tmp_path)), tmp_path / "out", only)


# -- from a file that is not pinned ----------------------------------------------------------------------


def custom(schema: Path, path: Path, like: str) -> Revision:
    return sources.load_custom(SchemaFolder(schema), path, None, like, overlay=True)


def run(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_file_brings_its_own_words(tmp_path: Path) -> None:
    schema, path = write_folder(tmp_path), write_source(tmp_path)
    pipeline.generate(SchemaFolder(schema), tmp_path / "types", custom=custom(schema, path, REVISION))
    code = (
        "from types_.v2099_01_01 import models, constants, dispatch, METHODS, deltas, Thing\n"
        "thing = Thing(name='a')\n"
        "print(thing.to_json().decode())\n"
        "print(Thing.__doc__)\n"
        "print(METHODS['things/get'].params, constants.NOT_THERE)\n"
    )
    (tmp_path / "types").rename(tmp_path / "types_")
    out = run(code, tmp_path)
    assert '{"kind":"thing","name":"a"}' in out
    assert 'Upstream\'s words, with "quotes", a back\\slash and a link.' in out
    assert "GetThingRequestParams -32001" in out
    text = (tmp_path / "types_" / "v2099_01_01" / "models" / "things.py").read_text(encoding="utf-8")
    assert 'Says "what".' in text
    assert 'Ends in a "quote"' in text
    assert "behind the member" in text


class WithoutDocs(ast.NodeTransformer):
    """Takes out docstrings, those of attributes included."""

    @override
    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else node


def bare(text: str) -> str:
    return ast.unparse(WithoutDocs().visit(ast.parse(text)))


@pytest.mark.slow
@needs_upstream
@pytest.mark.parametrize("revision", sampled_of(REVISIONS, [REVISIONS[0], REVISIONS[-1]]))
def test_upstreams_own_file_makes_the_same_models_but_for_the_words_and_is_imported(
    tmp_path: Path, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "format_python", str)  # how it is written is not compared
    result = pipeline.generate(
        FOLDER, tmp_path / "types_", custom=custom(SCHEMA, upstream_path(revision), revision)
    )
    assert not result.warnings
    (package,) = {path.parent.name for path in result.files if path.name == "methods.py"}
    code = (
        f"from types_.{package} import models, methods, dispatch, constants, deltas, CallToolResult, TextContent\n"
        "print(CallToolResult(content=[TextContent(text='hi')]).to_json().decode())\n"
        "print(len(models.Tool.__doc__) > 50)\n"
    )
    out = run(code, tmp_path)
    assert '"content":[{"type":"text","text":"hi"}]' in out
    names = [path.name for path in (GENERATED / package / "models").glob("*.py")]
    for name in (*(f"models/{n}" for n in names), "methods.py", "constants.py", "dispatch.py"):
        mine = (GENERATED / package / name).read_text(encoding="utf-8")
        assert bare(result.files[tmp_path / "types_" / package / name]) == bare(mine), name


@pytest.mark.parametrize("data", [None, b"\xff\xfe", b"export class E { }"])
def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "schema.ts"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(CodegenError, match=r"schema\.ts"):
        pipeline.generate_project(SchemaFolder(write_folder(tmp_path)), path, tmp_path / "out", like=REVISION)
    assert not (tmp_path / "out").exists()


ACME: Final = """
export interface AcmeForecastRequest { method: "acme/forecast"; params: { city: string } }
export interface AcmeForecastResult { days: AcmeDay[] }
export interface AcmeDay { readonly low: number; readonly high: number }
"""


def acme(tmp_path: Path, source: str = SOURCE) -> Path:
    """A vendor's file: the source with a request of its own."""
    return write_source(
        tmp_path / "acme",
        source.replace("ClientRequest = ", "ClientRequest = AcmeForecastRequest | ") + ACME,
    )


@pytest.mark.slow
def test_a_package_of_ones_own_stands_alone(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    result = pipeline.generate_project(SchemaFolder(schema), acme(tmp_path), tmp_path / "acme-types", "acme")
    assert {path.relative_to(tmp_path / "acme-types").parts[0] for path in result.files} == {
        "acme_types",
        "pyproject.toml",
    }
    assert not result.warnings
    code = (
        "import sys, acme_types.latest as latest, acme_types.acme as acme\n"
        "print(latest.AcmeDay.__module__, latest.REVISION, acme.METHODS['acme/forecast'].result)\n"
        "print(acme.models.AcmeForecastResult.from_wire({'days': [{'low': 1, 'high': 2}]}).days[0].high)\n"
        "print([name for name in sys.modules if name.startswith('mcprev')])\n"
    )
    out = run(code, tmp_path / "acme-types").split("\n")
    assert out[:3] == [f"acme_types.acme.models.common_types {REVISION} AcmeForecastResult", "2", "[]"]


@pytest.mark.slow
def test_the_project_file_is_written_once_and_installs_with_what_we_install(tmp_path: Path) -> None:
    schema, path = write_folder(tmp_path), acme(tmp_path)
    pipeline.generate_project(SchemaFolder(schema), path, tmp_path / "acme-types")
    project = tmp_path / "acme-types" / "pyproject.toml"
    found = tomllib.loads(project.read_text(encoding="utf-8"))
    ours = tomllib.loads((SCHEMA.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert found["project"]["name"] == "acme-types"
    assert set(found["project"]["dependencies"]) < set(ours["dependencies"])
    assert found["project"]["requires-python"] == ours["requires-python"]
    assert found["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["acme_types"]
    project.write_text('[project]\nname = "mine"\npackages = ["acme_types"]', encoding="utf-8")
    again = pipeline.generate_project(SchemaFolder(schema), path, tmp_path / "acme-types")
    assert (again.changed, again.warnings) == ((), ())


@pytest.mark.slow
def test_a_project_of_somebody_elses_gets_the_package_and_keeps_every_file(tmp_path: Path) -> None:
    schema, path, out = write_folder(tmp_path), acme(tmp_path), tmp_path / "acme-types"
    for name in ("README.md", "pyproject.toml", "src/acme.py", "latest.py", "__init__.py"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(name, encoding="utf-8")
    before = snapshot(out)
    result = pipeline.generate_project(SchemaFolder(schema), path, out)
    assert {
        name: data for name, data in snapshot(out).items() if not name.startswith("acme_types/")
    } == before
    assert all(file.is_relative_to(out / "acme_types") for file in result.written)
    (warning,) = result.warnings
    assert warning.startswith(f"{out / 'pyproject.toml'}: kept; it does not name the package 'acme_types'")


def test_a_package_folder_of_somebody_elses_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    schema, path, out = write_folder(tmp_path), acme(tmp_path), tmp_path / "acme-types"
    (out / "acme_types").mkdir(parents=True)
    (out / "acme_types" / "__init__.py").write_text("mine", encoding="utf-8")
    before = snapshot(out)
    with pytest.raises(InputError, match="pass another folder"):
        pipeline.generate_project(SchemaFolder(schema), path, out)
    assert snapshot(out) == before


@pytest.mark.parametrize(
    ("source", "like", "overlay", "words"),
    [
        (
            "export interface A { a: string }",
            REVISION,
            True,
            "ServerRequest, ServerNotification; pass --no-overlay for a package of its types",
        ),
        (
            "export interface A { a: string }",
            None,
            True,
            "and a name of its revision, which may be any, such as 1: mcprev generate 1 --schema schema.ts --no-overlay",
        ),
        (
            SOURCE.replace("LATEST_PROTOCOL_VERSION", "X"),
            None,
            True,
            "or --no-overlay for none, and then a name of its revision, which may be any",
        ),
        (SOURCE.replace(REVISION, "acme-7"), None, True, "pass the one it extends with --like"),
        (SOURCE, "2000-01-01", True, "--like '2000-01-01' is not a known revision"),
        (
            SOURCE.replace("LATEST_PROTOCOL_VERSION", "X"),
            None,
            False,
            "it declares no LATEST_PROTOCOL_VERSION; pass a name of its revision, which may be any",
        ),
    ],
)
def test_a_file_that_cannot_be_placed_says_what_is_missing(
    source: str, like: str | None, overlay: bool, words: str, tmp_path: Path
) -> None:
    path = write_source(tmp_path / "acme", source)
    with pytest.raises(InputError, match=re.escape(words)):
        pipeline.generate_project(
            SchemaFolder(write_folder(tmp_path)), path, tmp_path / "acme-types", like=like, overlay=overlay
        )
    assert not (tmp_path / "acme-types").exists()


TYPES: Final = """
export declare namespace Shop {
  const LIMIT: 3;
  type Role = "admin" | "guest";
  interface Item { id: `item-${Role}-${number}`; size: typeof LIMIT; tags?: Role[] | undefined; weight?: number }
  type Patch = { [K in keyof Item]?: Item[K] | null };
  function find(id: string): Item;
}
"""


@pytest.mark.slow
def test_a_file_without_messages_becomes_a_package_of_its_types(tmp_path: Path) -> None:
    path, out = write_source(tmp_path / "acme", TYPES), tmp_path / "acme-types"
    (warning,) = pipeline.generate_project(
        SchemaFolder(write_folder(tmp_path)), path, out, "3.0", overlay=False
    ).warnings
    assert warning == f"{path}:7: functions do not describe data: 1 are left out, of which this is the first"
    code = """
import typing
import acme_types.latest as acme
from pydantic import TypeAdapter
from acme_types.v3_0.constants import Shop_LIMIT
item = TypeAdapter(acme.ShopItem)
print(item.validate_python({"id": "item-guest-7", "size": Shop_LIMIT}).size)
for wrong in {"id": "item-other-7", "size": 3}, {"id": "item-guest-x", "size": 3}, {"id": "item-guest-7", "size": 4}:
    try:
        item.validate_python(wrong)
    except ValueError as error:
        print(error.errors()[0]["loc"][0])
print(TypeAdapter(acme.ShopPatch).validate_python({"tags": None}).tags)
from acme_types.v3_0 import dispatch, methods
print(len(methods.METHODS))
print(float in typing.get_args(acme.ShopItem.model_fields["weight"].annotation))  # an integer in revisions of MCP
"""
    assert run(code, out).split() == ["3", "id", "id", "size", "None", "0", "True"]


@pytest.mark.slow
def test_what_a_file_says_otherwise_or_leaves_open_is_a_warning(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    overlaid = (
        "[[entry]]\npointer = 'Thing.size'\nexpected = 'size?: number;'\nnew = 'size?: integer;'\nwhy = 'x'\n"
    )
    (schema / "overlay.toml").write_text(overlaid, encoding="utf-8")
    source = SOURCE.replace("size?: number;", "size?: string;") + (
        'export interface AcmeStrayRequest { method: "acme/stray" }\n'
        'export interface AcmeBareRequest { method: "acme/bare" }\n'
        "/** @acme 7 */\nexport type Word = string;\n"
    )
    path = write_source(tmp_path / "acme", source.replace("Request = ", "Request = AcmeBareRequest | "))
    warnings = pipeline.generate_project(SchemaFolder(schema), path, tmp_path / "acme-types").warnings
    words = (
        "JSDoc tag '@acme'",
        "'Thing.size' no longer matches",
        "'AcmeStrayRequest' is not generated as a method",
        "no AcmeBareResult is",
    )
    assert len(warnings) == len(words)
    assert all(word in warning for word, warning in zip(words, warnings, strict=True)), warnings
    assert not pipeline.generate_project(
        SchemaFolder(schema), path, tmp_path / "other", overlay=False
    ).warnings[2:]
