"""`mcprev list` and `mcprev show`: a table for people, tabs for a pipe, a stable JSON for programs."""

from __future__ import annotations

import gc
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import click
import pytest
from click.testing import CliRunner, Result

from helpers.support import DATED, DRAFT, FIFTH, FIRST, FOURTH, REVISIONS, SCHEMA, THIRD, each_revision, load
from mcprev.cli import main
from mcprev_codegen.emit import meta_json as describe
from mcprev_codegen.python.names import module_name
from mcprev_types.extensions.index import EXTENSIONS

RUN: Final = "from mcprev.cli import main; main()"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def printed(*arguments: str) -> Any:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


# -- list ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_list_has_a_row_for_each_revision_with_tabs_when_piped() -> None:
    revisions, _, _ = invoke("list").output.partition("\n\n")
    header, *rows = [line.split("\t") for line in revisions.splitlines()]
    assert [row[0] for row in rows] == list(REVISIONS)
    assert {len(row) for row in (header, *rows)} == {len(header)}
    for row in rows:
        info = dict(zip(header, row, strict=True))
        current = load(row[0])
        assert info["ERA"] == current.era
        assert current.pin is not None
        assert current.pin.commit.startswith(info["COMMIT"])
        assert current.pin.sha256.startswith(info["SHA256"])
        assert info["TYPES"] == str(len(current.declared.types))
        assert info["STATUS"] == ("latest" if row[0] == DATED[-1] else current.pin.status)


VERSIONS: Final = [f"{name}@{version}" for name, info in EXTENSIONS.items() for version in info.versions]


@pytest.mark.slow
def test_list_has_a_row_for_each_version_of_an_extension() -> None:
    _, _, extensions = invoke("list").output.partition("\n\n")
    header, *rows = [line.split("\t") for line in extensions.splitlines()]
    assert [row[0] for row in rows] == VERSIONS
    tasks = dict(zip(header, rows[VERSIONS.index("tasks@draft")], strict=True))
    assert (tasks["STATUS"], tasks["BASE"], tasks["NAME"]) == (DRAFT, DRAFT, EXTENSIONS["tasks"].id)
    listed = printed("list", "--json")["extensions"]
    assert [f"{row['extension']}@{row['version']}" for row in listed] == VERSIONS
    assert [row["extension"] for row in listed if row["latest"]] == [*EXTENSIONS]


@pytest.mark.parametrize("named", [*VERSIONS, *EXTENSIONS])
def test_show_describes_a_version_of_an_extension(named: str) -> None:
    name, _, version = named.partition("@")
    info = EXTENSIONS[name].versions[version or EXTENSIONS[name].latest]
    document = printed("show", named, "--json")
    assert (document["revision"], document["extension"]) == (info.version, EXTENSIONS[name].id)
    assert len(document["methods"]) == info.requests + info.notifications
    assert len(document["types"]) == info.types
    said = invoke("show", named).output
    assert said.startswith(f"The extension {name}@{info.version} (based on protocol version ")
    first = document["types"][0]["name"]
    assert f"{name}@{info.version}" in invoke("show", named, "--type", first).output
    assert f"export type {first}" in (text := invoke("show", named, "--schema").output) or (
        f"export interface {first}" in text
    )


def test_show_names_the_versions_that_an_extension_has() -> None:
    result = CliRunner().invoke(main, ["show", "tasks@1999"])
    assert result.exit_code == 2
    assert ", ".join(EXTENSIONS["tasks"].versions) in result.output


@pytest.mark.slow
def test_list_as_json() -> None:
    document = printed("list", "--json")
    assert document["format"] == 1
    assert [row["revision"] for row in document["revisions"]] == list(REVISIONS)
    assert [row["revision"] for row in document["revisions"] if row["latest"]] == [DATED[-1]]
    for row in document["revisions"]:
        assert row["era"] in ("handshake", "stateless")
        assert row["status"] in ("final", "draft")
        assert len(row["commit"]) == 40
        assert len(row["sha256"]) == 64


# -- show ------------------------------------------------------------------------------------------------

METHOD_KEYS: Final = {
    "method", "kind", "type", "directions", "transport", "params", "params_optional", "result", "alternate_results",
    "capability",
}  # fmt: skip


@each_revision
def test_show_as_json_is_the_stable_format(revision: str) -> None:
    document = printed("show", revision, "--json")
    keys = ["format", "generator", "revision", "package", "protocol_version", "constants", "methods", "types"]
    assert list(document) == keys
    assert (document["format"], document["revision"]) == (1, revision)
    assert document["package"] == module_name(revision)
    assert document["protocol_version"] == load(revision).protocol_version
    assert document["constants"] == {n: c.value for n, c in load(revision).declared.consts.items()}
    for method in document["methods"]:
        assert set(method) == METHOD_KEYS
        assert method["kind"] in ("request", "notification")
        assert set(method["directions"]) <= {"client_to_server", "server_to_client"} != set()
        assert method["transport"] in ("jsonrpc", "embedded")
        assert isinstance(method["params_optional"], bool)
        assert isinstance(method["alternate_results"], list)
    for type_ in document["types"]:
        assert set(type_) == {"name", "kind", "fields", "sent_by"}
        assert type_["sent_by"] in ("client", "server", "both", "none")
        for field in type_["fields"]:
            assert set(field) == {"name", "type", "optional"}
            assert "\n" not in field["type"]
    assert document == describe.meta_document(load(revision))


@each_revision
def test_the_fields_of_a_type_are_flattened_under_their_wire_names(revision: str) -> None:
    types = {t["name"]: t for t in printed("show", revision, "--json")["types"]}
    tool = {f["name"]: f for f in types["ListToolsResult"]["fields"]}
    assert {"tools", "nextCursor", "_meta"} <= tool.keys()
    assert not tool["tools"]["optional"]
    assert tool["nextCursor"]["optional"]
    request = {f["name"]: f for f in types["CallToolRequest"]["fields"]}
    assert request["method"]["type"] == '"tools/call"'


def test_latest_is_the_newest_dated_revision() -> None:
    assert printed("show", "latest", "--json") == printed("show", DATED[-1], "--json")


def test_one_method_and_one_type_as_json() -> None:
    whole = printed("show", FOURTH, "--json")
    method = printed("show", FOURTH, "--method", "tools/call", "--json")
    assert method in whole["methods"]
    assert (method["result"], method["alternate_results"]) == ("CallToolResult", ["CreateTaskResult"])
    type_ = printed("show", FOURTH, "--type", "Tool", "--json")
    assert type_ in whole["types"]
    assert type_["sent_by"] == "server"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((THIRD,), ["tools/call", "CallToolResult", "LATEST_PROTOCOL_VERSION"]),
        ((THIRD, "--method", "tools/call"), ["client → server", "CallToolRequestParams", "tools"]),
        ((THIRD, "--method", "ping"), ["both ways", "RequestParams (optional)", "EmptyResult", "none"]),
        ((THIRD, "--method", "notifications/message"), ["server → client", "notification"]),
        ((THIRD, "--type", "Tool"), ["inputSchema\trequired", "title\toptional", "sent by: server"]),
        ((THIRD, "--type", "Role"), ["enum"]),
    ],
)
def test_show_for_people(arguments: tuple[str, ...], words: list[str]) -> None:
    result = invoke("show", *arguments)
    assert result.exit_code == 0
    for word in words:
        assert word in result.output


@each_revision
def test_every_type_and_method_can_be_shown(revision: str) -> None:
    for name in load(revision).declared.types:
        assert invoke("show", revision, "--type", name).exit_code == 0
    for name in load(revision).methods:
        assert invoke("show", revision, "--method", name).exit_code == 0


@each_revision
def test_the_schema_of_a_revision_is_shown_byte_for_byte(revision: str) -> None:
    assert invoke("show", revision, "--schema").stdout_bytes == (SCHEMA / revision / "schema.ts").read_bytes()


def test_a_schema_that_was_changed_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = shutil.copytree(SCHEMA, tmp_path / "schema")
    monkeypatch.setenv("MCPREV_SCHEMA", str(copy))
    with (copy / FIRST / "schema.ts").open("a") as stream:
        stream.write("export type Mine = string;\n")
    (copy / THIRD / "schema.ts").unlink()
    for revision, said in ((FIRST, "this file is not edited by hand"), (THIRD, "pinned but missing")):
        result = invoke("show", revision, "--schema")
        assert (result.exit_code, result.stdout) == (3, "")
        assert said in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "2000-01-01"), ["unknown revision '2000-01-01'", *REVISIONS]),
        (("show", FIRST, "--type", "Toool"), ["no type 'Toool'", "did you mean", "Tool"]),
        (("show", FIRST, "--method", "tools/cal"), ["no method 'tools/cal'", "did you mean", "tools/call"]),
        (("show", FIRST, "--type", "Tool", "--method", "ping"), ["not both"]),
        (("show", FIRST, "--schema", "--json"), ["pass no other option with it"]),
        (("show", FIRST, "--schema", "--type", "Tool"), ["pass no other option with it"]),
        (("show", "2000-01-01", "--schema"), ["unknown revision '2000-01-01'", *REVISIONS]),
        (("show",), ["Missing argument"]),
        (("lst",), ["No such command"]),
    ],
)
def test_wrong_usage_exits_with_2_and_helps(arguments: tuple[str, ...], words: list[str]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    for word in words:
        assert word in result.output


def test_help_names_no_page_of_the_repository() -> None:
    """Who installed the command has none of them."""
    assert isinstance(main, click.Group)
    for name in main.list_commands(click.Context(main)):
        assert "docs/" not in invoke(name, "--help").output.replace("docs/revisions", ""), name


def test_help_lists_every_command() -> None:
    output = invoke("--help").output
    for name in ("list", "show", "generate", "import"):
        assert f"  {name} " in output


def test_the_version_is_the_packages() -> None:
    from mcprev import __version__

    assert __version__ in invoke("--version").output


# -- terminals and pipes ---------------------------------------------------------------------------------


def on_terminal(*arguments: str, columns: int = 80) -> str:
    """What a command writes when its output is a terminal of some width."""
    main_end, child_end = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "LINES": "40", "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments], stdout=child_end, env=environment
    ) as process:
        os.close(child_end)
        chunks: list[bytes] = []
        while True:
            try:
                chunk = os.read(main_end, 4096)
            except OSError:
                break
            if not chunk:
                break
            chunks.append(chunk)
        os.close(main_end)
        assert process.wait(timeout=30) == 0
    return b"".join(chunks).decode().replace("\r\n", "\n")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("list",), ("show", FIFTH, "--type", "Tool")])
def test_a_terminal_gets_aligned_columns(arguments: tuple[str, ...]) -> None:
    output = on_terminal(*arguments, columns=100)
    assert "\t" not in output
    assert "\x1b[1m" in output
    plain = output.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert all(len(line) <= 100 for line in plain.splitlines())


def test_a_pipe_gets_no_control_characters() -> None:
    done = subprocess.run([sys.executable, "-c", RUN, "show", FIFTH], capture_output=True, check=True)
    assert b"\x1b" not in done.stdout
    assert b"tools/call" in done.stdout


# -- lazy loading ----------------------------------------------------------------------------------------


def modules_after(*arguments: str) -> set[str]:
    code = (
        "import sys\nfrom mcprev.cli import main\n"
        f"try:\n    main({list(arguments)!r})\nexcept SystemExit:\n    pass\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


READING: Final = {"mcprev_codegen", "tree_sitter", "pydantic"}
"""What `list` needs in a checkout to say what is to be decided; pydantic checks the tables of the schema folder."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (("list",), READING),
        (("show", FIRST), set[str]()),
        (("show", FIRST, "--schema"), {"mcprev_codegen", "pydantic"}),
        (("--version",), set[str]()),
    ],
)
def test_looking_something_up_loads_neither_models_nor_the_generator(
    arguments: tuple[str, ...], needed: set[str]
) -> None:
    heavy = {"pydantic", "black", "jinja2", "datamodel_code_generator", *READING}
    assert {name.split(".")[0] for name in modules_after(*arguments)} & heavy <= needed


@pytest.mark.slow
def test_a_command_whose_extra_is_missing_says_which() -> None:
    code = (
        "import sys\n"
        "from importlib.abc import MetaPathFinder\n"
        "class Missing(MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('tree_sitter', 'jinja2'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "import importlib.util\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, p=None: None if n in ('tree_sitter', 'jinja2') else real(n, p)\n"
        "from mcprev.cli import main\n"
        "main(sys.argv[1:])\n"
    )
    for arguments in (["generate"], ["generate", "--check"], ["import", "x", "--revision", "y"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert "requires tree_sitter, jinja2; install mcprev[codegen]" in done.stderr
    done = subprocess.run([sys.executable, "-c", code, "diff"], capture_output=True, text=True, check=False)
    assert "requires tree_sitter, jinja2; install mcprev[diff]" in done.stderr
    listed = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True
    )
    assert "(requires mcprev[codegen])" in listed.stdout


@pytest.mark.slow
def test_the_process_looks_for_no_garbage_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    at_end: list[object] = []
    monkeypatch.setattr("atexit.register", at_end.append)
    assert invoke("list").exit_code == 0
    assert at_end == [gc.freeze]
