"""`mcprev call`, `read`, `prompt`, `complete` and `ask`: results, arguments, questions, files and exit codes."""

from __future__ import annotations

import base64
import json
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, Final

import click
import pytest
from click.testing import CliRunner, Result

import mcprev
from fuzz.fuzzing import each_once, sampled_of
from helpers.running import run
from helpers.shell import serve_here
from helpers.terminal import AtTerminal
from mcprev.cli import main
from mcprev.cli.answering import read_answers
from mcprev.cli.arguments import check_arguments, read_arguments
from mcprev.cli.exit_codes import MismatchError
from mcprev.cli.known_names import recall
from mcprev.cli.rendering import Renderer
from mcprev.cli.valid_entries import listed_entries
from mcprev.revisions import DEFAULT, Revision

APP: Final = '''
import base64
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Literal

import mcprev
from mcprev_types.latest import models as m
from pydantic import Field

app = mcprev.App("shop", "1.0")


@dataclass
class Order:
    name: str
    count: Annotated[int, Field(ge=1, description="How many.")] = 2
    fast: bool = False
    size: Literal["small", "large"] = "small"


@app.tool
def add(a: float, b: int = 1, note: str = "", parts: list[int] | None = None) -> dict[str, float | str]:
    """Adds."""
    return {"sum": a + b + sum(parts or []), "note": note}


@app.tool(strict_arguments=True)
async def count(to: int, *, ctx: mcprev.Context) -> str:
    for step in range(to):
        await ctx.progress(step + 1, to, f"step \\x1b[2J{step}")
        await ctx.log("warning", f"at \\x1b[2J{step}")
    return "counted"


@app.tool
def fail() -> str:
    raise mcprev.ToolError("no \\x1b[31mluck")


@app.tool
def everything() -> m.CallToolResult:
    png = base64.b64encode(b"png").decode()
    return m.CallToolResult(content=[
        m.TextContent(text="first\\n\\x1b[31mred\\u202e"),
        m.ImageContent(data=png, mime_type="image/png"),
        m.AudioContent(data=png, mime_type="audio/wav"),
        m.EmbeddedResource(resource=m.TextResourceContents(uri="memo://two", text="two")),
        m.ResourceLink(uri="memo://one", name="one\\x1b[2J"),
    ])


@app.tool
async def order(*, ctx: mcprev.Context) -> str:
    answer = await ctx.elicit("What shall it \\x1b[2Jbe?", Order)
    return f"{answer.action} {answer.data}"


@app.tool
async def write(*, ctx: mcprev.Context) -> str:
    return (await ctx.sample("Write.")).text


@app.tool
async def page(*, ctx: mcprev.Context) -> str:
    params = {"mode": "url", "message": "Log in.", "url": "https://login.example/\\x1b[2J"}
    return (await ctx.ask("page", m.ElicitRequest.from_wire({"method": "elicitation/create", "params": params}))).action


@app.tool
async def roots(*, ctx: mcprev.Context) -> str:
    found = await ctx.ask("roots", m.ListRootsRequest())
    return " ".join(str(root.uri) for root in found.roots)


@app.resource("memo://one")
def one() -> str:
    return "one \\x1b[31mred"


@app.resource("blob://one", mime_type="application/pdf")
def blob() -> bytes:
    return b"pdf"


@app.prompt
def hello(name: str, mood: str = "good") -> str:
    """Greets."""
    return f"Say hello to {name}, in a {mood} mood"


@app.completion("hello", "name")
def names(value: str) -> list[str]:
    return [name for name in ("ann\\x1b[2J", "anton", "bob") if name.startswith(value)]
'''
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "a": {"type": "number"},
        "b": {"type": "integer"},
        "note": {"type": "string"},
        "parts": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        "any": {"type": ["string", "number"]},
        "level": {"enum": [1, 2]},
    },
    "required": ["a"],
    "additionalProperties": False,
}
each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


@pytest.fixture(autouse=True)
def _shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    serve_here("shop.py", APP, monkeypatch)


def invoke(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False, prog_name="mcprev", **options)


def printed(*arguments: str) -> Any:
    done = invoke(*arguments)
    assert (done.exit_code, done.stderr) == (0, "")
    return json.loads(done.stdout)


# -- tools -----------------------------------------------------------------------------------------------


@each_row
def test_a_tool_is_called_at_each_revision(row: Revision) -> None:
    document = printed("call", "shop.py", "add", "a=1.5", "--json", "--as", row.name)
    assert (document["format"], document["revision"]) == (1, row.name)
    assert json.loads(document["result"]["content"][0]["text"]) == {"sum": 2.5, "note": ""}
    assert json.loads(invoke("call", "shop.py", "add", "a=1.5", "--revision", row.name).stdout)["sum"] == 2.5


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("a=1",), {"a": 1}),
        (("a=1.0", "b:=2", "note=3"), {"a": 1.0, "b": 2, "note": "3"}),
        (("a=1", "note=null", "parts=[1,2]"), {"a": 1, "note": "null", "parts": [1, 2]}),
        (("a=1", "parts=null"), {"a": 1, "parts": None}),
        (('{"a": 1, "note": "x"}', "b=4"), {"a": 1, "note": "x", "b": 4}),
        (("@args.json",), {"a": 10, "note": "é"}),
        (("-", "b=1"), {"a": 7, "b": 1}),
        (("a=1", "note=a=b"), {"a": 1, "note": "a=b"}),
        (("a=1", "any=x"), {"a": 1, "any": "x"}),
        (("a=1", "any=2"), {"a": 1, "any": 2}),
        (("a=1", "level=2"), {"a": 1, "level": 2}),
    ],
)
def test_arguments_are_said_in_several_ways(
    words: tuple[str, ...], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("args.json").write_text('\ufeff{"a": 10, "note": "é"}', encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b'{"a": 7}')))
    found = read_arguments(words, SCHEMA)
    assert found == expected
    assert [type(value) for value in found.values()] == [type(value) for value in expected.values()]
    check_arguments("the tool 'add'", found, SCHEMA, "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "$.a is missing"),
        (("a=x",), "$.a is not of type number"),
        (("a=1", "b=1.5"), "$.b"),
        (("a=1", "c=2"), "$.c is not a known property"),
        (("a=1", "notes=2"), "did you mean 'note'?"),
        (("a=1", "parts=[1,true]"), "$.parts[1] is not of type integer"),
        (("a=1", "a=2"), "the argument 'a' is given twice"),
        (("a",), "'a' is not an argument; write NAME=VALUE"),
        (("=1",), "'=1' is not an argument"),
        (("a:=x",), "the value of 'a' is not JSON"),
        (("a:=NaN",), "NaN is not a JSON value"),
        (("{",), "the argument is not JSON"),
        (("[1]",), "'[1]' is not an argument"),
        (("@missing.json",), "cannot read 'missing.json': No such file or directory"),
        (("@list.json",), "'list.json' is not a JSON object"),
        (("@binary",), "'binary' is not UTF-8 text: byte 0 is 0xff"),
        (("@.",), "cannot read '.': Is a directory"),
        (('{"a": ' + "[" * 100_000,), "is nested too deeply"),
    ],
    ids=range(18),
)
def test_wrong_arguments_are_not_sent(words: tuple[str, ...], says: str) -> None:
    Path("list.json").write_text("[1]", encoding="utf-8")
    Path("binary").write_bytes(b"\xff\xfe")
    with pytest.raises(click.ClickException) as caught:
        check_arguments("the tool 'add'", read_arguments(words, SCHEMA), SCHEMA, "look it up")
    assert caught.value.exit_code == 2
    assert says in caught.value.format_message()


def test_wrong_arguments_end_the_command() -> None:
    done = invoke("call", "shop.py", "add", "b=x", "c=1")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "Error: the arguments do not fit the tool 'add'; nothing was sent",
        "  $.a is missing",
        "  $.b is not of type integer",
        "  $.c is not a known property",
        "  `mcprev inspect --schemas` shows the schema of each tool",
    ]


def test_a_tool_that_fails_and_one_that_is_not_there() -> None:
    done = invoke("call", "shop.py", "fail")
    assert (done.exit_code, done.stdout) == (1, "no \\x1b[31mluck\n")
    done = invoke("call", "shop.py", "ad")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "the server has no tool 'ad'; did you mean 'add'?" in done.stderr
    assert "it has add, count" in invoke("call", "shop.py", "zzz").stderr


@each_row
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("call", "add", "b=x", "a:=[1]"), "a is wrong"),
        (("call", "zzz", "b=x"), "zzz"),
        (("call", "add", "a=2", "b=x"), "b is wrong"),
        (("prompt", "hello", "other=x"), "name is missing"),
        (("prompt", "zzz"), "zzz"),
    ],
    ids=range(5),
)
@each_once
def test_what_the_server_refuses_can_be_sent(row: Revision, words: tuple[str, ...], says: str) -> None:
    command, *rest = words
    done = invoke(command, "shop.py", *rest, "--unchecked", "--as", row.name, "--record", "sent.jsonl")
    assert done.exit_code == 1
    assert says in done.stdout + done.stderr
    sent = [json.loads(line) for line in Path("sent.jsonl").read_text("utf-8").splitlines()[1:]]
    methods = [each["message"].get("method") for each in sent if each["direction"] == "sent"]
    assert not {"tools/list", "prompts/list"} & {*methods}


def test_values_that_are_sent_unchecked_are_strings() -> None:
    """The type is that of the command line: no list says another. Arguments of a prompt are strings at any rate."""
    done = invoke("call", "shop.py", "count", "to=2", "--unchecked")
    assert done.exit_code == 1
    assert "to is wrong" in done.stdout
    assert invoke("call", "shop.py", "count", "to:=2", "--unchecked").stdout == "counted\n"
    done = invoke("prompt", "shop.py", "hello", "name:=1", "--unchecked")
    assert done.exit_code == 2
    assert "$.name is not of type string" in done.stderr


def test_the_command_after_dashes() -> None:
    done = invoke("call", "add", "a=1", "--", sys.executable, "-m", "mcprev", "serve", "shop.py")
    assert (done.exit_code, json.loads(done.stdout)["sum"]) == (0, 2)


def test_each_kind_of_content() -> None:
    done = invoke("call", "shop.py", "everything", "--out", "files")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines() == [
        "first",
        "\\x1b[31mred\\u202e",
        "[image image/png, 3 bytes: files/1.png]",
        "[audio audio/wav, 3 bytes: files/2.wav]",
        "two",
        "[link memo://one one\\x1b[2J; show it with `mcprev read`]",
    ]
    assert Path("files/1.png").read_bytes() == b"png"
    again = invoke("call", "shop.py", "everything", "--out", "files").stdout
    assert "files/2.png" in again  # over no file
    assert "--out DIR writes it to a file" in invoke("call", "shop.py", "everything").stdout


def test_data_that_is_no_base64_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Renderer(None).file("image", "image/\x1b[2J", "no base64")
    assert capsys.readouterr().out == "[image image/\\x1b[2J: its data is not valid base64]\n"


def test_members_of_meta_are_sent() -> None:
    done = invoke(
        "call",
        "shop.py",
        "fail",
        "--meta",
        "x.example/a=1",
        "--meta",
        "x.example/b:=[1]",
        "--record",
        "s.jsonl",
    )
    assert done.exit_code == 1
    lines = [json.loads(line)["message"] for line in Path("s.jsonl").read_text(encoding="utf-8").splitlines()]
    [sent] = [line for line in lines if line.get("method") == "tools/call"]
    assert sent["params"]["_meta"].items() >= {"x.example/a": "1", "x.example/b": [1]}.items()
    done = invoke("call", "shop.py", "fail", "--meta", "io.modelcontextprotocol/x=1")
    assert done.exit_code == 2


def test_logs_and_the_recording() -> None:
    done = invoke("call", "shop.py", "count", "to=2", "--log-level", "warning", "--record", "saved.jsonl")
    assert (done.exit_code, done.stdout) == (0, "counted\n")
    assert done.stderr.splitlines() == ["warning server: at \\x1b[2J0", "warning server: at \\x1b[2J1"]
    assert invoke("validate", "saved.jsonl").exit_code == 0


# -- resources, prompts, completion ------------------------------------------------------------------------


def test_resources_are_read() -> None:
    assert invoke("read", "shop.py", "memo://one").stdout == "one \\x1b[31mred\n"
    assert (
        invoke("read", "shop.py", "blob://one", "--out", ".").stdout
        == "[blob application/pdf, 3 bytes: 1.pdf]\n"
    )
    blob = printed("read", "shop.py", "blob://one", "--json")["result"]["contents"][0]["blob"]
    assert base64.b64decode(blob) == b"pdf"
    done = invoke("read", "shop.py", "memo://none")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "not found" in done.stderr
    assert invoke("read", "shop.py", "memo://one", "more").exit_code == 2


def test_prompts_and_completion() -> None:
    done = invoke("prompt", "shop.py", "hello", "name=7")
    assert done.stdout.splitlines() == ["user:", "Say hello to 7, in a good mood"]
    assert "$.name is missing" in invoke("prompt", "shop.py", "hello").stderr
    assert printed("prompt", "shop.py", "hello", "name=a", "--json")["result"]["messages"]
    assert invoke("complete", "shop.py", "hello", "name=an").stdout == "ann\\x1b[2J\nanton\n"
    assert printed("complete", "shop.py", "hello", "name=b", "--json")["result"]["completion"]["values"] == [
        "bob"
    ]
    assert invoke("complete", "shop.py", "hello").exit_code == 2


# -- questions ---------------------------------------------------------------------------------------------

CLIENTS: Final = [row for row in DEFAULT if "elicitation/create" in row.methods]


@pytest.mark.parametrize("row", [CLIENTS[0], CLIENTS[-1]], ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"name": "ann", "count": 3}, "accept Order(name='ann', count=3, fast=False, size='small')"),
        ([{"name": "bob", "size": "large"}], "size='large'"),
        ("decline", "decline None"),
        ("cancel", "cancel None"),
        (None, "decline None"),
        ({"name": "ann", "count": 0}, "cancel None"),
        (7, "cancel None"),
    ],
    ids=range(7),
)
def test_a_form_is_answered_by_a_file(row: Revision, answer: Any, says: str) -> None:
    Path("answers.json").write_text(json.dumps({"elicitation": answer}), encoding="utf-8")
    done = invoke("call", "shop.py", "order", "--answer", "answers.json", "--as", row.name)
    assert done.exit_code == 0, done.stderr
    assert says in done.stdout
    assert ("Warning" in done.stderr) is (answer in ({"name": "ann", "count": 0}, 7))


def test_messages_and_roots_are_answered_by_a_file() -> None:
    Path("answers.json").write_text('{"sampling": ["hi"], "roots": ["/srv/data"]}', encoding="utf-8")
    assert invoke("call", "shop.py", "write", "--answer", "answers.json").stdout == "hi\n"
    assert invoke("call", "shop.py", "roots", "--answer", "answers.json").stdout == "file:///srv/data\n"
    assert invoke("call", "shop.py", "roots", "--root", "/srv/a").stdout == "file:///srv/a\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "'answers.json' is not a JSON object"),
        ("{", "is not JSON"),
        ('{"elicit": 1}', "has a member 'elicit'; did you mean 'elicitation'?"),
        ('{"roots": "x"}', "`roots` is a list of paths"),
    ],
)
def test_a_wrong_file_of_answers(text: str, says: str) -> None:
    Path("answers.json").write_text(text, encoding="utf-8")
    with pytest.raises(click.ClickException) as caught:
        read_answers("answers.json")
    assert caught.value.exit_code == 2
    assert says in caught.value.format_message()


def test_nobody_is_asked_without_a_terminal() -> None:
    done = invoke("call", "shop.py", "order")
    assert done.exit_code == 1
    assert "answer at a terminal, or with --answer FILE" in done.stderr


@pytest.mark.slow
def test_a_form_is_filled_in_at_a_terminal() -> None:
    user = AtTerminal("call", "shop.py", "order")
    user.wait_for("What shall it \\x1b[2Jbe?")
    user.wait_for("[a]nswer field by field, [d]ecline or [c]ancel? [a] ")
    user.type("Dune\n")  # an answer, typed too early
    user.wait_for("type a, d or c, or its word")
    user.type("Answer\n")
    user.wait_for("string> ")
    user.type("\n")
    user.wait_for("an answer is required")
    user.type("ann\n")
    user.wait_for("count (optional): How many.")
    user.wait_for("integer [2]> ")
    user.type("many\n")
    user.wait_for("count is not of type integer")
    user.type("3\n")
    user.wait_for("boolean [false]> ")
    user.type("yes\n")
    user.wait_for("2. large")
    user.type("2\n")
    assert user.end() == (0, "accept Order(name='ann', count=3, fast=True, size='large')\n")


DECLINED: Final = [("d\n", "decline"), ("decline\n", "decline"), ("c\n", "cancel"), ("\x04", "cancel")]


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "action"), sampled_of(DECLINED, [DECLINED[0], DECLINED[-1]]))
def test_a_form_is_declined_at_a_terminal(typed: str, action: str) -> None:
    user = AtTerminal("call", "shop.py", "order", "--as", CLIENTS[-1].name)
    user.wait_for("[a]nswer")
    user.type(typed)
    assert user.end() == (0, f"{action} None\n")


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "action"), [("y\n", "accept"), ("\n", "decline"), ("c\n", "cancel")])
def test_a_page_is_shown_before_it_is_opened(typed: str, action: str) -> None:
    user = AtTerminal("call", "shop.py", "page")
    user.wait_for("https://login.example/\\x1b[2J")
    user.wait_for("open this page in a browser?")
    user.type(typed)
    code, out = user.end()
    # A URL with a control character is opened by nobody.
    assert (code, out) == (0, "cancel\n" if action == "accept" else f"{action}\n")


@pytest.mark.slow
def test_a_message_is_written_at_a_terminal() -> None:
    user = AtTerminal("call", "shop.py", "write")
    user.wait_for("Write.")
    user.wait_for("> ")
    user.type("one\n")
    user.wait_for("> ")
    user.type("two\n\n")
    assert user.end() == (0, "one\ntwo\n")
    user = AtTerminal("call", "shop.py", "write")
    user.wait_for("> ")
    user.type("\n")
    code, _ = user.end()
    assert code == 1


@pytest.mark.slow
def test_progress_is_shown_at_a_terminal_and_erased() -> None:
    user = AtTerminal("call", "shop.py", "count", "to=2")
    user.wait_for("\r\x1b[K1/2 step \\x1b[2J0")
    user.wait_for("\r\x1b[K")
    assert user.end() == (0, "counted\n")


def test_ask_stays_until_its_time_is_over() -> None:
    done = invoke("ask", "shop.py", "--for", "0.1")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith("connected at ")


@pytest.mark.parametrize("row", [DEFAULT[0], DEFAULT[-1]], ids=lambda row: row.name)
def test_ask_ends_with_its_server(row: Revision) -> None:
    text = APP + """
import asyncio, os
from contextlib import asynccontextmanager

@asynccontextmanager
async def lifespan(server):
    asyncio.get_running_loop().call_later(0.3, os._exit, 7)
    yield

app = mcprev.App("short", "1.0", lifespan=lifespan)
"""
    Path("short.py").write_text(text, encoding="utf-8")
    done = invoke("ask", "short.py:app", "--for", "20", "--as", row.name)
    assert (done.exit_code, done.stdout) == (3, "")
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr


# -- names for the completion of a shell -------------------------------------------------------------------


def test_names_of_tools_are_kept_and_odd_ones_are_not() -> None:
    assert recall(["shop.py"], "tools") == {}
    invoke("call", "shop.py", "fail")
    assert recall(["shop.py"], "tools")["add"] == ["a", "b", "note", "parts"]
    [file] = (Path("cache") / "mcprev" / "names").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    file.write_text("{", encoding="utf-8")
    assert recall(["shop.py"], "tools") == {}


@pytest.mark.parametrize("row", DEFAULT, ids=str)
def test_a_version_of_a_tool_is_known_by_its_name(row: Revision) -> None:
    """The schema of the newest is in the list; the arguments of another one are checked by the server."""
    app = mcprev.App("shop", "1")

    @app.tool(version="1")
    def buy(item: str) -> str:
        return f"1: {item}"

    @app.tool(name="buy", version="2")
    def buy_several(items: list[str]) -> str:
        return f"2: {items}"

    async def main_() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            listed = await listed_entries(client, "tools", 10)
            assert listed.named("buy@1", "tool").input_schema.to_wire() == {"type": "object"}
            newest = listed.named("buy@2", "tool")
            unknown = ["buy@", "other@1"]
            if newest.meta:  # which older revisions do not have
                assert list(newest.input_schema.to_wire()["properties"]) == ["items"]
                unknown.append("buy@3")
            for name in unknown:
                with pytest.raises(MismatchError, match=f"the server has no tool '{name}'"):
                    listed.named(name, "tool")

    run(main_())
