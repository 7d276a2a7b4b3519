"""No command prints foreign text as it is: neither control sequences nor other lines, markup or workflow commands.

Every text of a schema is hostile here: literals, names of members and methods, tags, categories, comments, constants;
and so is every argument.
"""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest
from typing_extensions import override

from helpers.mini import REVISION, write_folder
from helpers.shell import invoke
from helpers.support import ROOT
from mcprev.cli import main, table
from mcprev.cli.generated import Described
from mcprev_codegen import errors
from mcprev_codegen.errors import InputError, SchemaError

SIGNS: Final = "\x1b[2J\x1b]0;t\x07\x9b31m\x7f\u202e\u2066\u200b\u2028\x85\r"
FORGED: Final = "FORGED: all is well"
HOSTILE: Final = f"h{SIGNS}\n{FORGED}\n::error::x ##[add-path]x `x` ``` | x|x \\| <b>&lt;</b> @team 100%0A"
QUOTED: Final = json.dumps(HOSTILE)
COMMENT: Final = HOSTILE.replace("\n", "\n * ")
SOURCE: Final = f"""
/* {HOSTILE.partition(chr(10))[0]} */
/** {COMMENT} */
export const LATEST_PROTOCOL_VERSION = "{REVISION}";
export const NOTE = {QUOTED};
export type Choice = {QUOTED} | "b" | {{ {QUOTED}: string }};
/** {COMMENT}
 * @category {SIGNS} `x` @team
 */
export interface Thing {{
  /** {COMMENT}
   * @default {QUOTED}
   * @format {SIGNS}`|
   */
  {QUOTED}: {QUOTED};
  kind: {QUOTED} | string;
  nested: {{ {QUOTED}: {{ {QUOTED}: Choice }} }};
}}
export interface GetRequest {{ method: {json.dumps(HOSTILE + "/get")}; params: {{ {QUOTED}: Thing }} }}
export interface GetResult {{ thing: Thing }}
export interface EmptyResult {{ [key: string]: unknown }}
export type ClientRequest = GetRequest;
export type ServerResult = GetResult | EmptyResult;
"""
CHANGED: Final = SOURCE.replace("\\u202e", "\\u202e2").replace("LATEST_PROTOCOL_VERSION", "OTHER").replace(
    "export interface GetResult", "/** @deprecated */\nexport interface GetResult"
)  # fmt: skip
FORMATS: Final = ("table", "markdown", "html", "github", "junit", "json")


def check(text: str) -> None:
    """Fail for a text that says anything else to a terminal than what it seems to say."""
    odd = {c for c in text if not c.isprintable() and c not in "\n\t"}
    assert not odd, (odd, text)
    assert not [line for line in text.split("\n") if line.startswith(FORGED)], text


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.chdir(tmp_path)
    folder = Path(HOSTILE.replace("/", "-"))
    folder.mkdir()
    names = (str(folder / "old.ts"), str(folder / "new.ts"))
    for name, text in zip(names, (SOURCE, CHANGED), strict=True):
        Path(name).write_text(text, encoding="utf-8", newline="\n")
    return names


@pytest.mark.parametrize("form", FORMATS)
def test_no_format_of_a_comparison_carries_control_characters(sides: tuple[str, str], form: str) -> None:
    for old, new in (sides, reversed(sides), (sides[0], sides[0])):
        done = invoke(None, "diff", "--level", "source", "--docs", "--format", form, old, new)
        assert done.exit_code == 0, done.output
        check(done.stdout)
        check(done.stderr)


def test_colours_are_all_that_a_terminal_is_told(
    sides: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        encoding = "utf-8"

        @override
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    main.main(["diff", "--level", "source", "--docs", *sides], standalone_mode=False)
    text = shown.getvalue()
    assert "\x1b[" in text
    check(re.sub(r"\x1b\[(?:0|1|2|22|3[123])m", "", text))


def test_no_name_leaves_its_place_in_markdown(sides: tuple[str, str]) -> None:
    text = invoke(None, "diff", "--level", "source", "--docs", "--format", "markdown", *sides).stdout
    assert "<code>" in text
    bare = re.sub(r"\\[^\w\s]", "", text)  # what is escaped
    bare = re.sub(r"`[^`\n]*`", "", bare)
    assert "`" not in bare
    assert "@team" not in bare
    assert set(re.findall(r"<[^>]*>", bare)) <= {
        "<br>", "<sub>", "</sub>", "<code>", "</code>", "<details>", "</details>", "<summary>", "</summary>", "<!-- -->"
    }  # fmt: skip
    assert not re.search(r"&\w+;", bare)
    for line in bare.splitlines():
        assert line.count("|") in (0, 6), "a row has five cells"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)


def test_no_name_is_markup_of_a_page(sides: tuple[str, str]) -> None:
    tags = Tags()
    tags.feed(invoke(None, "diff", "--level", "source", "--docs", "--format", "html", *sides).stdout)
    assert "b" not in tags.found


def test_no_name_is_a_workflow_command(sides: tuple[str, str]) -> None:
    lines = invoke(None, "diff", "--level", "source", "--format", "github", *sides).stdout.splitlines()
    commands = [line for line in lines if line.lstrip().startswith("::")]
    for line in commands:
        found = re.fullmatch(r"::(error|warning|notice) ([^:]*)::(.*)", line)
        assert found, line
        assert not re.findall("%(?!25|0A)", found[3])
        assert {part.partition("=")[0] for part in found[2].split(",")} <= {
            "file",
            "line",
            "endLine",
            "title",
        }
    assert not [line for line in lines if line not in commands and "##[" in line]
    assert commands


def test_data_keeps_what_it_is(sides: tuple[str, str]) -> None:
    report: dict[str, Any] = json.loads(
        invoke(None, "diff", "--level", "source", "--format", "json", *sides).stdout
    )
    assert any(
        HOSTILE in json.dumps(change, ensure_ascii=False) or HOSTILE in change["path"]
        for change in report["changes"]
    )
    suite = invoke(None, "diff", "--level", "source", "--format", "junit", *sides).stdout
    ET.fromstring(suite)  # noqa: S314


BROKEN: Final = {
    "a member twice": f"export interface A {{ {QUOTED}: string; {QUOTED}: string }}",
    "a bad tag": f"export interface A {{\n/** @minimum {SIGNS} */\na: number }}",
    "an unknown tag": f"/** @{'x' * 5}\n */\nexport interface A {{ a: number }}",
    "no TypeScript": f"export {SIGNS} {{",
    "no reference": f"export interface A {{ {QUOTED}: Gone }}",
    "an enum": f"enum E {{ {QUOTED} = 'a', {QUOTED} }} export interface A {{}}",
    "another version": f"export const LATEST_PROTOCOL_VERSION = {QUOTED}; export interface A {{}}",
    "a bad name": SOURCE.replace("ClientRequest =", f"ClientRequest = {{ {QUOTED}: string }} |"),
    "methods": SOURCE
    + f"/** @category {SIGNS} `x` */\nexport interface PutRequest {{ method: {json.dumps(HOSTILE + '/put')} }}"
    + "\nexport type ServerRequest = PutRequest;",
    "not UTF-8": SOURCE.encode("utf-16", "surrogatepass").decode("latin-1"),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_no_error_and_no_warning_about_a_schema_does(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    schema = write_folder(tmp_path)
    path = Path(f"a{SIGNS}\n{FORGED}.ts")
    path.write_text(text, encoding="utf-8", newline="\n")
    for arguments in (
        ["import", str(path), "--revision", REVISION, "--repin", "--commit", "a" * 40],
        ["generate", "--schema", str(path), "--out", "out", "--no-overlay"],
        ["diff", str(path), str(path)],
        ["diff", "HEAD:" + str(path), str(path)],
        ["diff", "--ignore-file", str(path), REVISION, REVISION],
    ):
        done = invoke(schema, *arguments)
        assert done.output
        check(done.output)


def commands() -> Iterator[list[str]]:
    yield from ([HOSTILE], [f"--{HOSTILE}"])
    for command in ("list", "show", "serve", "inspect", "validate", "generate", "import", "unpin", "diff"):
        yield [command, HOSTILE]
        yield [command, f"--{HOSTILE}"]
    yield from (
        ["diff", HOSTILE, HOSTILE],
        ["diff", "--type", HOSTILE, REVISION, REVISION],
        ["diff", "--only", HOSTILE, REVISION, REVISION],
        ["diff", "--history", HOSTILE],
        ["diff", "--format", HOSTILE],
        ["diff", f"https://127.0.0.1:1/{HOSTILE}", REVISION],
        ["diff", f"HEAD:{HOSTILE}", REVISION],
        ["diff", "--output", f"{HOSTILE}/x", REVISION, REVISION],
        ["generate", "--schema", HOSTILE, "--out", HOSTILE],
        ["generate", "--like", HOSTILE, "--schema", HOSTILE, "--out", "out"],
        ["import", HOSTILE, "--revision", HOSTILE],
        ["import", HOSTILE, "--revision", REVISION],
        ["import", HOSTILE, "--revision", REVISION, "--commit", HOSTILE],
        ["show", "latest", "--type", HOSTILE],
        ["show", "latest", "--method", HOSTILE],
        ["serve", f"{HOSTILE}:{HOSTILE}"],
        ["serve", f"{HOSTILE}.py:x"],
        ["serve", "json:x", "--http", HOSTILE],
        ["serve", f"json:{HOSTILE}"],
        ["inspect", "--revision", HOSTILE, "x"],
        ["inspect", "--header", HOSTILE, "http://127.0.0.1:1/"],
        ["inspect", f"http://127.0.0.1:1/{HOSTILE}"],
        ["inspect", "--", HOSTILE],
        ["validate", "--revision", HOSTILE, "x"],
    )


@pytest.mark.parametrize(
    "arguments", list(commands()), ids=lambda arguments: f"{arguments[0]:.8}".replace("\x1b", "")
)
def test_no_error_about_arguments_does(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoke(write_folder(tmp_path), *arguments)
    assert done.exit_code != 0
    assert done.output
    check(done.output)


def test_what_is_generated_from_is_shown_in_one_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`list` and `show` print what stands in packages and in open decisions."""
    schema = write_folder(tmp_path)
    document: dict[str, Any] = json.loads(json.dumps({
        "revision": HOSTILE, "protocol_version": HOSTILE, "constants": {HOSTILE: HOSTILE},
        "methods": [{
                "method": HOSTILE, "kind": HOSTILE, "directions": ["client_to_server"], "capability": HOSTILE,
            "result": HOSTILE, "alternate_results": [HOSTILE], "params": HOSTILE, "params_optional": True,
            "transport": HOSTILE, "type": HOSTILE,
        }],
        "types": [{
            "name": HOSTILE, "kind": HOSTILE, "sent_by": HOSTILE,
            "fields": [{"name": HOSTILE, "type": HOSTILE, "optional": True}],
        }],
    }))  # fmt: skip

    def load(_package: Described) -> dict[str, Any]:
        return document

    monkeypatch.setattr(Described, "document", load)
    monkeypatch.setattr("mcprev.cli.list_._to_decide", partial(list[str], [HOSTILE]))
    for arguments in (
        ["list"], ["list", "--json"], ["show", "latest"], ["show", "latest", "--json"],
        ["show", "latest", "--type", HOSTILE], ["show", "latest", "--method", HOSTILE],
    ):  # fmt: skip
        done = invoke(schema, *arguments)
        assert done.exit_code == 0
        check(done.output)


def test_a_transcript_is_shown_in_one_line_each(tmp_path: Path) -> None:
    path = tmp_path / f"a{SIGNS}.jsonl"
    message = {"jsonrpc": "2.0", "id": HOSTILE, "method": HOSTILE, "params": {HOSTILE: HOSTILE}}
    path.write_text(json.dumps(message) + "\n" + SIGNS + "\n" + json.dumps(HOSTILE), encoding="utf-8")
    for form in ([], ["--json"]):
        done = invoke(None, "validate", *form, str(path))
        assert done.exit_code == 1
        check(done.output)


def test_logs_of_a_server_are_clean() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(table.CleanFormatter())
    try:
        raise ValueError(HOSTILE)  # noqa: TRY301
    except ValueError as error:
        record = logging.LogRecord("x", logging.ERROR, "x", 1, "the tool '%s' failed", (HOSTILE,), None)
        record.exc_info = (type(error), error, error.__traceback__)
        handler.emit(record)
    text = stream.getvalue()
    assert text.startswith("the tool 'h\\x1b")
    assert not [c for c in text if not c.isprintable() and c != "\n"]


# -- the two functions ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_both_packages_clean_alike_and_nothing_is_left() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    cleaned = errors.clean(everything)
    assert cleaned == table.clean(everything)
    assert cleaned.isprintable()
    assert errors.clean(cleaned) == cleaned


@pytest.mark.slow
def test_no_other_module_prints() -> None:
    """What prints past the two modules could print foreign text."""
    allowed = {ROOT / "runtime/mcprev/cli/table.py", ROOT / "codegen/mcprev_codegen/terminal.py"}
    paths = {*(ROOT / "runtime/mcprev/cli").rglob("*.py"), *(ROOT / "codegen/mcprev_codegen").rglob("*.py")}
    found: list[str] = []
    for path in paths - allowed:
        if "templates" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(ast.Name("click"), "echo" | "secho" | "echo_via_pager" | "progressbar"):
                    found.append(f"{path}:{node.lineno}")
                case ast.Attribute(ast.Attribute(ast.Name("sys"), "stdout" | "stderr"), "write" | "buffer"):
                    found.append(f"{path}:{node.lineno}")
                case ast.Name("print"):
                    found.append(f"{path}:{node.lineno}")
                case ast.ImportFrom("click") if {a.name for a in node.names} & {"echo", "secho"}:
                    found.append(f"{path}:{node.lineno}")
                case _:
                    pass
    assert not found


def test_a_line_of_any_length_is_shown_around_its_place() -> None:
    line = "x" * 1_000_000 + HOSTILE + "y" * 1_000_000
    error = SchemaError(line, path="schema.ts", line=1, column=1_000_001 + 1 + len(SIGNS), source_line=line)
    headline, shown, caret = str(error).split("\n")
    assert max(map(len, (headline, shown, caret))) < 5_000
    assert shown[len(caret) - 1 :].startswith("\\nFORGED")
    assert len(str(InputError(line))) < 5_000
