"""`mcprev generate` and `mcprev import` as commands: files written, output, exit codes.

Exit codes: 0 done, 1 out of date (--check), 2 usage, 3 an invalid input. An error is shown without a traceback, and
nothing is written.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from helpers.mini import COMMIT, REVISION, SOURCE, snapshot, write_folder, write_source
from helpers.shell import git, invoke
from helpers.support import DATED, FIFTH, FOLDER, SCHEMA, http_server, needs_upstream, parse, upstream_path
from mcprev_codegen import ir
from mcprev_codegen.checkout.pinning import import_schema
from mcprev_codegen.errors import InputError
from mcprev_codegen.inputs import SchemaFolder, schema_folder
from mcprev_codegen.inputs.pins import load_pins
from mcprev_codegen.typescript import reader as typescript

# -- generate --------------------------------------------------------------------------------------------


def test_generate_writes_and_is_then_up_to_date(tmp_path: Path) -> None:
    schema, out = write_folder(tmp_path), tmp_path / "types"
    first = invoke(schema, "generate", "--out", str(out))
    assert first.exit_code == 0
    assert "files written" in first.output
    second = invoke(schema, "generate", "--out", str(out))
    assert second.exit_code == 0
    assert "up to date" in second.output
    check = invoke(schema, "generate", "--out", str(out), "--check")
    assert check.exit_code == 0


def test_check_exits_with_1_and_writes_nothing(tmp_path: Path) -> None:
    schema, out = write_folder(tmp_path), tmp_path / "types"
    missing = invoke(schema, "generate", "--out", str(out), "--check")
    assert missing.exit_code == 1
    assert not out.exists()
    invoke(schema, "generate", "--out", str(out))
    (out / "v2099_01_01" / "models" / "things.py").write_text("edited\n", encoding="utf-8")
    before = snapshot(out)
    stale = invoke(schema, "generate", "--out", str(out), "--check")
    assert stale.exit_code == 1
    assert "v2099_01_01/models/things.py" in stale.output
    assert "run the same command without --check, and commit what it writes" in stale.output
    assert snapshot(out) == before


def test_an_installed_generator_says_how_to_write_into_a_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MCPREV_SCHEMA", raising=False)
    monkeypatch.setattr("mcprev_codegen.inputs.folder.__file__", str(tmp_path / "a/b/c/d/e.py"))
    with pytest.raises(
        InputError, match=r"in a clone, run `\.venv/bin/mcprev`, .* or set MCPREV_SCHEMA=schema;"
    ):
        schema_folder(to_write=True)


@pytest.mark.parametrize(
    ("name", "code"),
    [("1.0", 0), ("v1", 0), ("1", 0), (f"{REVISION}x", 0), ("../x", 3), ("latest", 3), ("a--b", 3), ("\u00e9", 3), ("x" * 61, 3), ("class", 3)],
)  # fmt: skip
def test_an_odd_name_of_a_revision_makes_a_package_or_is_refused_in_a_line(
    name: str, code: int, tmp_path: Path
) -> None:
    """Black used to fail on what such names became, with a traceback."""
    (tmp_path / "own.ts").write_text(SOURCE, encoding="utf-8")
    out = tmp_path / "own-types"
    result = invoke(
        write_folder(tmp_path),
        "generate",
        name,
        "--schema",
        str(tmp_path / "own.ts"),
        "--out",
        str(out),
        "--no-overlay",
    )
    assert isinstance(result.exception, SystemExit | None), result.output
    assert "Traceback" not in result.output
    assert (result.exit_code, out.exists()) == (code, code == 0), result.output
    for path in out.rglob("*.py"):
        compile(path.read_text(encoding="utf-8"), str(path), "exec")


def test_without_out_the_packages_go_beside_the_schema_folder(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    assert invoke(schema, "generate").exit_code == 0
    assert (tmp_path / "generated" / "mcprev_types" / "index.py").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["generate", "--schema", "x.ts", REVISION], "--schema requires --out"),
        (["generate", "--schema", "x.ts", "--out", "out", "a", "b"], "at most one REV"),
        (
            ["generate", "--schema", "x.ts", "--out", "out", "--like", REVISION, "--no-overlay"],
            "cannot be combined",
        ),
        (["generate", "--like", REVISION], "require --schema FILE"),
        (["generate", "--colour"], "No such option"),
        (["import"], "Missing argument"),
        (["import", "x.ts"], "--revision"),
        (["frobnicate"], "No such command"),
        (["list", "x"], "unexpected extra argument"),
    ],
)
def test_wrong_usage_exits_with_2(tmp_path: Path, arguments: list[str], words: str) -> None:
    result = invoke(write_folder(tmp_path), *arguments)
    assert result.exit_code == 2
    assert words in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["generate", "2000-01-01"], "revision '2000-01-01' is not pinned"),
        (
            ["generate", "--schema", "gone.ts", "--out", "out", REVISION],
            "gone.ts: there is no such file, no index in such a folder, and no package of that name",
        ),
        (["generate", "--schema", "gone.ts", "--out", "in"], "'in' is not a valid package name"),
        (
            ["import", "gone.ts", "--revision", REVISION],
            "gone.ts: cannot be read: No such file or directory\n",
        ),
        (["import", "gone.ts", "--revision", "Not A Name"], "is not a valid revision"),
    ],
)
def test_an_input_that_is_not_in_order_exits_with_3(tmp_path: Path, arguments: list[str], words: str) -> None:
    schema = write_folder(tmp_path)
    before = snapshot(tmp_path)
    result = invoke(schema, *arguments)
    assert result.exit_code == 3
    assert words in result.stderr
    assert "Traceback" not in result.output
    assert snapshot(tmp_path) == before


def test_a_place_in_a_file_is_shown_with_line_and_caret(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    path = write_source(tmp_path, SOURCE + r'export type E = "\ud800";' + "\n")
    result = invoke(schema, "generate", "--schema", str(path), "--out", str(tmp_path / "out"), REVISION)
    assert result.exit_code == 3
    line = SOURCE.count("\n") + 1
    assert result.stderr.startswith(f"{path}:{line}:17: a lone surrogate is not text")
    assert result.stderr.split("\n")[1:3] == [r'    export type E = "\ud800";', f"{' ' * 20}^"]
    assert not (tmp_path / "out").exists()


def test_a_folder_without_pins_says_what_to_do(tmp_path: Path) -> None:
    result = invoke(tmp_path, "generate", "--out", str(tmp_path / "out"))
    assert result.exit_code == 3
    assert "mcprev import" in result.stderr


# -- import ----------------------------------------------------------------------------------------------


def test_import_writes_the_canonical_contract_and_its_pin(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    path = write_source(tmp_path, SOURCE.replace("2099-01-01", "2099-02-02"))
    result = invoke(schema, "import", str(path), "--revision", "2099-02-02", "--commit", "e" * 40)
    assert result.exit_code == 0, result.output
    contract = (schema / "2099-02-02" / "schema.ts").read_text(encoding="utf-8")
    assert parse(contract) == ir.contract(parse(path.read_text(encoding="utf-8")))
    assert "Upstream's words" not in contract
    assert "behind the member" not in contract
    pin = load_pins(SchemaFolder(schema))["2099-02-02"]
    assert pin.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert pin.contract == hashlib.sha256(contract.encode()).hexdigest()
    assert (pin.commit, pin.status) == ("e" * 40, "final")
    assert pin.location.endswith(f"/blob/{'e' * 40}/schema/2099-02-02/schema.ts")
    assert list(load_pins(SchemaFolder(schema))) == ["2099-01-01", "2099-02-02"]


def test_importing_again_changes_nothing(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    before = snapshot(schema)
    again = invoke(schema, "import", str(write_source(tmp_path)), "--revision", REVISION)
    assert again.exit_code == 0, "the commit of the present pin holds for an unchanged file"
    assert snapshot(schema) == before


def test_a_changed_file_needs_its_commit_said(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    before = snapshot(schema)
    path = write_source(tmp_path, SOURCE + "export type More = string;\n")
    result = invoke(schema, "import", str(path), "--revision", REVISION, "--repin")
    assert result.exit_code == 3
    assert "--commit" in result.stderr
    assert snapshot(schema) == before


@pytest.mark.parametrize("revision", [REVISION, "draft"])
def test_a_pin_is_changed_to_another_file_only_with_repin(tmp_path: Path, revision: str) -> None:
    schema = write_folder(tmp_path)
    if revision == "draft":
        import_schema(SchemaFolder(schema), str(write_source(tmp_path)), revision, commit=COMMIT)
    before, old = snapshot(schema), load_pins(SchemaFolder(schema))[revision]
    path = write_source(tmp_path, SOURCE + "export type More = string;\n")
    new = hashlib.sha256(path.read_bytes()).hexdigest()
    command = ["import", str(path), "--revision", revision, "--commit", "a" * 40]
    refused = invoke(schema, *command)
    assert refused.exit_code == 3
    for said in ("--repin", "nothing was changed", old.commit, old.sha256, "a" * 40, new):
        assert said in refused.stderr
    assert snapshot(schema) == before
    assert invoke(schema, *command, "--repin").exit_code == 0
    assert (
        load_pins(SchemaFolder(schema))[revision].commit,
        load_pins(SchemaFolder(schema))[revision].sha256,
    ) == ("a" * 40, new)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (SOURCE, "its LATEST_PROTOCOL_VERSION is '2099-01-01', so this is not the file of 2099-02-02"),
        (
            SOURCE.replace("LATEST_PROTOCOL_VERSION", "SOME_VERSION"),
            "does not declare LATEST_PROTOCOL_VERSION",
        ),
    ],
)
def test_the_file_of_a_dated_revision_has_to_name_it(tmp_path: Path, source: str, words: str) -> None:
    schema = write_folder(tmp_path)
    before = snapshot(schema)
    path = str(write_source(tmp_path, source))
    result = invoke(schema, "import", path, "--revision", "2099-02-02", "--commit", COMMIT)
    assert result.exit_code == 3
    assert words in result.stderr
    assert snapshot(schema) == before
    assert invoke(schema, "import", path, "--revision", "draft", "--commit", COMMIT).exit_code == 0


@needs_upstream
def test_the_file_of_another_revision_is_refused(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    for other in DATED:
        result = invoke(
            schema, "import", str(upstream_path(other)), "--revision", "2099-02-02", "--commit", COMMIT
        )
        assert result.exit_code == 3
        assert f"pass --revision {other}" in result.stderr
    assert list(load_pins(SchemaFolder(schema))) == [REVISION]


@pytest.mark.parametrize(
    ("revision", "commit", "words"),
    [
        ("2099-99-99", COMMIT, "'2099-99-99' is not a valid revision"),
        ("2099-02-29", COMMIT, "'2099-02-29' is not a valid revision"),
        ("2099-2-1", COMMIT, "is not a valid revision"),
        ("2099-02-02", "zzz", "--commit 'zzz' is not a commit"),
        ("2099-02-02", "a" * 39, "40 hexadecimal digits"),
        ("2099-02-02", "A" * 40, "40 hexadecimal digits"),
        ("2099-02-02", "a" * 40 + "\n", "40 hexadecimal digits"),
        ("2099-02-02", "", "40 hexadecimal digits"),
    ],
)
def test_a_date_and_a_commit_have_to_be_real(tmp_path: Path, revision: str, commit: str, words: str) -> None:
    schema = write_folder(tmp_path)
    before = snapshot(schema)
    path = write_source(tmp_path, SOURCE.replace(REVISION, revision))
    result = invoke(schema, "import", str(path), "--revision", revision, "--commit", commit)
    assert result.exit_code == 3
    assert words in result.stderr
    assert snapshot(schema) == before


def test_import_ends_with_what_is_to_be_decided(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    (tmp_path / "runtime" / "mcprev").mkdir(parents=True)
    (tmp_path / "runtime" / "mcprev" / "revisions.py").write_text("", encoding="utf-8")
    path = write_source(tmp_path, SOURCE.replace(REVISION, "2099-02-02"))
    result = invoke(schema, "import", str(path), "--revision", "2099-02-02", "--commit", COMMIT)
    assert "to decide:" in result.output
    assert "runtime/mcprev/revisions.py: add the row" in result.output
    assert "descriptions.toml: 8 without a description: [types.Thing]" in result.output
    listed = invoke(schema, "list")
    assert listed.exit_code == 0
    assert listed.output.split("to decide:")[1] == result.output.split("to decide:")[1]
    as_json = json.loads(invoke(schema, "list", "--json").output)
    assert as_json["to_decide"] == result.output.split("to decide:\n")[1].splitlines()


def test_without_a_checkout_there_is_nothing_to_decide(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    assert "to decide" not in invoke(schema, "list").output
    assert json.loads(invoke(schema, "list", "--json").output)["to_decide"] == []


def test_dated_revisions_stand_in_order_and_drafts_last(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    for name in ("draft", "2098-01-01", "2099-06-06"):
        path = write_source(tmp_path, SOURCE.replace(REVISION, name))
        assert invoke(schema, "import", str(path), "--revision", name, "--commit", COMMIT).exit_code == 0
    assert list(load_pins(SchemaFolder(schema))) == ["2098-01-01", "2099-01-01", "2099-06-06", "draft"]
    assert load_pins(SchemaFolder(schema))["draft"].status == "draft"


def test_unpinning_takes_out_what_the_import_wrote(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    before = {path: path.read_bytes() for path in schema.rglob("*") if path.is_file()}
    other = write_source(tmp_path, SOURCE.replace(REVISION, "2098-01-01"))
    assert invoke(schema, "import", str(other), "--revision", "2098-01-01", "--commit", COMMIT).exit_code == 0
    done = invoke(schema, "unpin", "2098-01-01")
    assert done.exit_code == 0, done.output
    assert "unpinned 2098-01-01; next: mcprev generate" in done.output
    assert {path: path.read_bytes() for path in schema.rglob("*") if path.is_file()} == before
    assert not (schema / "2098-01-01").exists()
    again = invoke(schema, "unpin", "2098-01-01")
    assert again.exit_code == 3
    assert "revision '2098-01-01' is not pinned" in again.output


def test_a_location_is_kept_for_the_next_import(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    path, where = write_source(tmp_path), "https://example.org/schema.ts"
    assert invoke(schema, "import", str(path), "--revision", REVISION, "--location", where).exit_code == 0
    assert invoke(schema, "import", str(path), "--revision", REVISION).exit_code == 0
    assert load_pins(SchemaFolder(schema))[REVISION].location == where


@pytest.mark.parametrize("where", ['https://example.org/"quoted"', "C:\\files\\schema.ts", "a\nb"])
def test_what_is_written_can_be_read_again(tmp_path: Path, where: str) -> None:
    schema = write_folder(tmp_path)
    path = write_source(tmp_path)
    invoke(schema, "import", str(path), "--revision", REVISION, "--location", where)
    assert REVISION in load_pins(SchemaFolder(schema))
    assert invoke(schema, "generate", "--out", str(tmp_path / "out")).exit_code == 0


GARBAGE: dict[str, bytes] = {
    "no TypeScript": b"%%% this is not TypeScript",
    "HTML": b"<!doctype html><html><body>404</body></html>",
    "not UTF-8": b"\xff\xfe\x00e\x00x",
    "an unsupported construct": b"export class E { }",
    "a dangling name": b"export type A = Missing;",
    "a bad tag": b"/** @minimum low */\nexport type A = string;",
    "a missing brace": b"export interface A { a: string;",
    "nothing": b"",
    "only comments": b"// nothing here\n",
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_is_refused_and_nothing_is_written(tmp_path: Path, data: bytes) -> None:
    schema = write_folder(tmp_path)
    path = tmp_path / "upstream" / "schema.ts"
    path.write_bytes(data)
    before = snapshot(schema)
    for name in (REVISION, "2099-09-09"):
        result = invoke(schema, "import", str(path), "--revision", name, "--commit", COMMIT)
        assert result.exit_code == 3, result.output
        assert str(path) in result.stderr
        assert "Traceback" not in result.output
        assert snapshot(schema) == before
        assert not (schema / "2099-09-09").exists()


def test_the_commit_is_found_in_a_git_checkout(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    folder = tmp_path / "clone"
    path = write_source(folder, SOURCE.replace(REVISION, "2099-03-03") + "export type More = string;\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    commit = git(folder, "rev-parse", "HEAD")
    (folder / "other").write_text("", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "two")
    assert (
        import_schema(SchemaFolder(schema), str(path), "2099-03-03").commit == commit
    ), "the last one that touched the file"
    path.write_text(SOURCE.replace(REVISION, "2099-04-04"), encoding="utf-8")
    result = invoke(schema, "import", str(path), "--revision", "2099-04-04")
    assert result.exit_code == 3, "a file with changes of its own is at no commit"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder that is served, and its address."""
    folder = tmp_path / "site"
    folder.mkdir()
    with http_server(SimpleHTTPRequestHandler, directory=str(folder)) as address:
        yield folder, address


def test_a_url_is_fetched_and_its_commit_taken_from_it(tmp_path: Path, site: tuple[Path, str]) -> None:
    schema = write_folder(tmp_path)
    commit, (folder, address) = "b" * 40, site
    path = write_source(folder / commit, SOURCE.replace(REVISION, "2099-03-03"))
    url = f"{address}/{commit}/upstream/schema.ts"
    result = invoke(schema, "import", url, "--revision", "2099-03-03")
    assert result.exit_code == 0, result.output
    gone = invoke(schema, "import", f"{address}/{commit}/gone.ts", "--revision", "2099-04-04")
    assert load_pins(SchemaFolder(schema))["2099-03-03"].commit == commit
    assert (
        load_pins(SchemaFolder(schema))["2099-03-03"].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    )
    assert gone.exit_code == 3
    assert "404" in gone.stderr
    assert "2099-04-04" not in load_pins(SchemaFolder(schema))


def test_a_server_that_is_not_there_exits_with_3(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    result = invoke(schema, "import", f"{address}/schema.ts", "--revision", "2099-04-04")
    assert result.exit_code == 3
    assert "cannot be fetched" in result.stderr


@needs_upstream
def test_importing_upstreams_file_gives_the_repos_contract(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    pin = load_pins(FOLDER)[FIFTH]
    result = invoke(schema, "import", str(upstream_path(FIFTH)), "--revision", FIFTH, "--commit", pin.commit)
    assert result.exit_code == 0
    assert load_pins(SchemaFolder(schema))[FIFTH] == pin
    name = f"{FIFTH}/schema.ts"
    assert (schema / name).read_bytes() == (SCHEMA / name).read_bytes()


def test_the_small_schema_of_these_tests_is_in_order() -> None:
    assert typescript.parse(SOURCE, "mini").types.keys() >= {"Thing", "ClientRequest"}
