"""Each subcommand with each kind of bad input: one message that names what to do, no traceback, no control character."""

from __future__ import annotations

import _io
import builtins
import io
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from click.testing import CliRunner, Result

from helpers.named import D
from helpers.shell import serve_here
from mcprev.cli import _COMMANDS, main  # pyright: ignore[reportPrivateUsage]
from mcprev.revisions import DEFAULT

KINDS: Final = (
    "missing file", "binary file", "wrong JSON", "unknown revision", "dead URL", "hung server", "closed pipe",
    "huge names", "control characters", "no permission", "wrong arguments",
)  # fmt: skip
DEAD: Final = "http://127.0.0.1:1/mcp"
HANGS: Final = ("--", sys.executable, "-S", "-E", "-c", "import sys; sys.stdin.read()")
"""A server that says nothing; it ends with its input."""
HUGE: Final = "x" * 100_000
EVIL: Final = "\x1b[2Jx\n\u202e\x07"
REVISION: Final = DEFAULT[-1].name
SHOP: Final = """
import mcprev

app = mcprev.App("shop", "1.0")

@app.tool
def buy(what: str) -> str:
    return what

@app.resource("memo://one")
def one() -> str:
    return "1"

@app.prompt
def hello(name: str) -> str:
    return name

@app.completion("hello", "name")
def names(value: str) -> list[str]:
    return ["ann"]
"""
USES: Final[dict[str, tuple[str, ...]]] = {
    "inspect": (), "call": ("buy", "what=x"), "read": ("memo://one",), "prompt": ("hello", "name=x"),
    "complete": ("hello", "name=a"), "ask": (), "task": ("an-id",), "generate-cli": ("--out", "new"), "skill": (),
}  # fmt: skip
"""The commands that connect to a server, with the words after the target."""


class Bad(NamedTuple):
    """A command line with a mistake."""

    arguments: tuple[str, ...]
    codes: tuple[int, ...]
    says: str
    """What the message has, so that the user knows what to do."""


def uses(words: tuple[str, ...], code: int, says: str, *options: str) -> dict[str, list[Bad]]:
    """The same target for each command that connects to a server."""
    dashes = words[:1] == ("--",)
    return {
        name: [Bad((name, *options, *(rest + words if dashes else words + rest)), (code,), says)]
        for name, rest in USES.items()
    }


def configured(file: str, says: str) -> list[Bad]:
    """A file of --config, in one process and in several: one line, before any process is started."""
    several = ("--http", "0", "--workers", "2", "--store", "sqlite:///x.db")
    return [Bad(("bridge", *words, "--config", file), (2,), f"Error: {says}") for words in ((), several)]


SHAPES: Final = (
    ("list.json", "[]", "the configuration is not an object with servers by name"),
    ("null.json", "null", "the configuration is not an object with servers by name"),
    ("none-inside.json", '{"mcpServers": {}}', "the configuration has no servers; name at least one"),
    ("listed.json", '{"mcpServers": []}', "`mcpServers` is a list; write an object with the servers by name"),
    ("number.json", '{"mcpServers": {"a": 1}}', "the server 'a' of the configuration: it is not an object; write one with"),
    ("text.json", '{"mcpServers": {"a": "python server.py"}}', "the server 'a' of the configuration: 'python server.py' is not a URL; an entry is the URL of a server, or an object with `url`, or with `command` and `args`, such as {\"command\": \"python\", \"args\": [\"server.py\"]}"),
    ("empty.json", '{"mcpServers": {"a": {}}}', "the server 'a' of the configuration: it has neither `command` nor `url`; write"),
    ("option.json", '{"a": {"command": "x", "bridge": {"prefx": 1}}}', "the server 'a' of the configuration: `bridge` has no member `prefx`"),
    ("twice.json", '{"a": {"command": "x"}, "b": {"command": "x", "bridge": {"prefix": "a"}}}', "the servers 'a' and 'b' have the same prefix, 'a'; set another"),
)  # fmt: skip
"""JSON of another shape than a configuration: the name of the file, its text, and what is told."""
QUICK: Final = ("--timeout", "0.4")
TABLE: Final[dict[str, dict[str, list[Bad]]]] = {
    "missing file": {
        **uses(("none.py",), 2, "there is no file 'none.py'"),
        "serve": [Bad(("serve", "none.py"), (1,), "there is no file 'none.py'")],
        "bridge": [
            Bad(("bridge", "none.py"), (2,), "there is no file 'none.py'"),
            *configured(
                "none.json",
                "cannot read 'none.json': No such file or directory; pass a file with `mcpServers` to --config",
            ),
            *configured("home", "'home' is not a regular file; pass the path of one"),
        ],
        "dev": [Bad(("dev", "none.py", "--no-browser"), (2,), "there is no file 'none.py'")],
        "install": [Bad(("install", "cursor", "none.py"), (2,), "there is no file 'none.py'")],
        "uninstall": [Bad(("uninstall", "none.json", "x"), (2,), "there is no file 'none.json'")],
        "validate": [Bad(("validate", "none.jsonl"), (3,), "No such file")],
        "generate": [Bad(("generate", "--schema", "none.ts", "--out", "out"), (3,), "none.ts")],
        "import": [Bad(("import", "none.ts", "--revision", "2031-01-01"), (3,), "none.ts")],
        "diff": [Bad(("diff", "none.ts", REVISION), (2, 3), "none.ts")],
        "explore": [Bad(("explore", "none.ts", "--out", "out"), (2, 3), "none.ts")],
    },
    "binary file": {
        **uses(("binary.json",), 2, "is not UTF-8 text: byte 0 is 0xff"),
        "serve": [Bad(("serve", "binary.py"), (1,), "binary.py")],
        "bridge": [
            Bad(("bridge", "binary.json"), (2,), "is not UTF-8 text"),
            *configured("binary.json", "'binary.json' is not UTF-8 text: byte 0 is 0xff"),
        ],
        "dev": [Bad(("dev", "binary.json", "--no-browser"), (2,), "is not UTF-8 text")],
        "install": [Bad(("install", "binary.json", "shop.py", "--yes"), (2,), "is not UTF-8 text")],
        "uninstall": [Bad(("uninstall", "binary.json", "x", "--yes"), (2,), "is not UTF-8 text")],
        "validate": [Bad(("validate", "binary.json"), (1,), "Parse error")],
        "generate": [Bad(("generate", "--schema", "binary.ts", "--out", "out"), (3,), "binary.ts")],
        "import": [Bad(("import", "binary.ts", "--revision", "2031-01-01"), (3,), "binary.ts")],
        "diff": [Bad(("diff", "binary.ts", REVISION), (2, 3), "binary.ts")],
        "explore": [Bad(("explore", "binary.ts", "--out", "out"), (2, 3), "binary.ts")],
    },
    "wrong JSON": {
        **uses(("broken.json",), 2, "broken.json: line 1, column 2"),
        "call": [
            Bad(("call", "shop.py", "buy", "{"), (2,), "the argument is not JSON"),
            Bad(("call", "shop.py", "buy", "--answer", "broken.json"), (2,), "is not JSON"),
            Bad(("call", "x@broken.json", "buy"), (2,), "broken.json: line 1, column 2"),
        ],
        "serve": [Bad(("serve", "broken.json"), (1,), "there is no module 'broken.json'")],
        "bridge": [
            *configured("broken.json", "'broken.json' is not JSON: line 1, column 2"),
            *configured("commented.json", "'commented.json' is not JSON: line 3, column 9"),
            *(case for name, _, says in SHAPES for case in configured(name, f"'{name}': {says}")),
        ],
        "dev": [Bad(("dev", "broken.json", "--no-browser"), (2,), "broken.json: line 1, column 2")],
        "install": [Bad(("install", "broken.json", "shop.py", "--yes"), (2,), "line 1, column 2")],
        "uninstall": [Bad(("uninstall", "broken.json", "x", "--yes"), (2,), "line 1, column 2")],
        "validate": [Bad(("validate", "broken.json"), (1,), "Parse error")],
    },
    "unknown revision": {
        **uses(("shop.py",), 2, "1999", "--revision", "1999-01-01"),
        "bridge": [Bad(("bridge", "--revision", "1999-01-01", "shop.py"), (2,), "1999-01-01")],
        "dev": [Bad(("dev", "--revision", "1999-01-01", "shop.py"), (2,), "1999-01-01")],
        "show": [
            Bad(("show", "1999-01-01"), (2,), f"unknown revision '1999-01-01'; known: {DEFAULT[0].name}")
        ],
        "validate": [Bad(("validate", "x", "--revision", "1999-01-01"), (2,), "1999-01-01")],
        "generate": [Bad(("generate", "1999-01-01", "--check"), (2, 3), "1999-01-01")],
        "unpin": [Bad(("unpin", "1999-01-01"), (3,), "1999-01-01")],
        "diff": [Bad(("diff", "1999-01-01", REVISION), (2, 3), "1999-01-01")],
        "explore": [Bad(("explore", "1999-01-01", "--out", "out"), (2, 3), "1999-01-01")],
    },
    "dead URL": {
        **uses((DEAD,), 3, "check that the server runs", *QUICK, "--no-login"),
        "install": [Bad(("install", "none/x.json", DEAD, "--yes"), (2,), "whose folder does not exist")],
        "diff": [Bad(("diff", "http://127.0.0.1:1/x.ts", REVISION), (2, 3), "127.0.0.1:1/x.ts")],
        "explore": [Bad(("explore", "http://127.0.0.1:1/x.ts", "--out", "out"), (2, 3), "127.0.0.1:1/x.ts")],
        "import": [
            Bad(("import", "http://127.0.0.1:1/x.ts", "--revision", "2031-01-01"), (3,), "cannot be fetched")
        ],
    },
    "hung server": uses(HANGS, 3, "if it needs longer to start, pass --timeout SECONDS", *QUICK),
    "huge names": {
        **uses((HUGE,), 2, "no configuration has a server 'xxx"),
        **{
            name: [Bad((name, "shop.py", HUGE, *rest), (1, 2), HUGE[:50])]
            for name, rest in (
                ("call", ()),
                ("prompt", ()),
                ("complete", ("name=a",)),
                ("read", ()),
                ("task", ()),
                ("skill", ()),
            )
        },
        "serve": [Bad(("serve", f"{HUGE}.py"), (1,), "File name too long; name a Python file")],
        "bridge": [
            Bad(("bridge", HUGE), (2,), "no configuration has a server"),
            *configured(HUGE, f"cannot read '{HUGE[:100]}': File name too long; pass a file"),
        ],
        "dev": [Bad(("dev", HUGE), (2,), "no configuration has a server")],
        "install": [
            Bad(("install", "x.json", "shop.py", "--name", HUGE), (2,), "cannot be the name of a server"),
            Bad(
                ("install", f"{HUGE}.json", "shop.py", "--yes"),
                (2,),
                "File name too long; nothing was changed",
            ),
        ],
        "uninstall": [Bad(("uninstall", "known.json", HUGE), (2,), "it has shop")],
        "show": [Bad(("show", REVISION, "--type", HUGE), (2,), "has no type")],
        "hosts": [Bad(("hosts", HUGE), (2,), "the hosts are claude-code")],
        "completion": [Bad(("completion", HUGE), (2,), "is not one of 'bash', 'zsh', 'fish'")],
        "validate": [Bad(("validate", HUGE), (3,), "File name too long")],
        "generate": [Bad(("generate", HUGE, "--check"), (3,), HUGE[:100])],
        "import": [Bad(("import", HUGE, "--revision", "2031-01-01"), (3,), HUGE[:100])],
        "unpin": [Bad(("unpin", HUGE), (3,), HUGE[:100])],
        "diff": [Bad(("diff", HUGE, REVISION), (2, 3), HUGE[:100])],
        "explore": [Bad(("explore", HUGE, "--out", "out"), (2, 3), HUGE[:100])],
    },
    "control characters": {
        **uses((EVIL,), 2, "\\x1b[2Jx\\n\\u202e\\x07"),
        "call": [
            Bad(
                ("call", "shop.py", EVIL),
                (2,),
                "the server has no tool '\\x1b[2Jx\\n\\u202e\\x07'; it has buy",
            ),
            Bad(("call", "shop.py", "buy", EVIL), (2,), "is not an argument; write NAME=VALUE"),
            Bad(("call", "shop.py", "buy", f"{EVIL}=1"), (2,), "$.\\x1b[2Jx"),
            Bad(("call", "shop.py", "buy", f"@{EVIL}"), (2,), "cannot read '\\x1b[2Jx"),
            Bad(("call", EVIL, "buy"), (2,), "\\x1b[2Jx"),
        ],
        "serve": [
            Bad(("serve", f"{EVIL}.py"), (1,), "\\u202e"),
            Bad(("serve", "evil.py"), (1,), "\\x1b[2J"),
        ],
        "bridge": [Bad(("bridge", EVIL), (2,), "\\x1b[2Jx"), *configured(EVIL, "cannot read '\\x1b[2Jx")],
        "dev": [Bad(("dev", EVIL), (2,), "\\x1b[2Jx")],
        "install": [Bad(("install", EVIL, "shop.py"), (2,), "no host '\\x1b[2Jx")],
        "uninstall": [Bad(("uninstall", "known.json", EVIL), (2,), "has no server '\\x1b[2Jx")],
        "show": [
            Bad(("show", EVIL), (2,), "\\u202e"),
            Bad(("show", REVISION, "--method", EVIL), (2,), "\\u202e"),
        ],
        "hosts": [Bad(("hosts", EVIL), (2,), "no host '\\x1b[2Jx")],
        "list": [Bad(("list", EVIL), (2,), "\\u202e")],
        "completion": [Bad(("completion", EVIL), (2,), "is not one of")],
        "validate": [Bad(("validate", EVIL), (3,), "\\x1b[2Jx")],
        "generate": [Bad(("generate", EVIL, "--check"), (2, 3), "\\x1b[2Jx")],
        "import": [Bad(("import", EVIL, "--revision", "2031-01-01"), (2, 3), "\\x1b[2Jx")],
        "unpin": [Bad(("unpin", EVIL), (2, 3), "\\x1b[2Jx")],
        "diff": [Bad(("diff", EVIL, REVISION), (2, 3), "\\u202e")],
        "explore": [Bad(("explore", EVIL, "--out", "out"), (2, 3), "\\u202e")],
    },
    "no permission": {
        **uses(("denied.json",), 2, "cannot read 'denied.json': Permission denied"),
        "call": [
            Bad(
                ("call", "shop.py", "buy", "@denied.json"),
                (2,),
                "cannot read 'denied.json': Permission denied",
            ),
            Bad(("call", "shop.py", "buy", "what=x", "--record", "denied.json"), (2, 3), "denied.json"),
            Bad(("call", "denied.json", "buy"), (2,), "cannot read 'denied.json': Permission denied"),
        ],
        "serve": [Bad(("serve", "denied.py"), (1,), "Permission denied")],
        "bridge": [
            Bad(("bridge", "denied.json"), (2,), "Permission denied"),
            *configured("denied.json", "cannot read 'denied.json': Permission denied; pass a file"),
        ],
        "dev": [Bad(("dev", "denied.json"), (2,), "Permission denied")],
        "install": [
            Bad(
                ("install", "denied.json", "shop.py", "--yes"), (2,), "Permission denied; nothing was changed"
            )
        ],
        "uninstall": [
            Bad(("uninstall", "denied.json", "x", "--yes"), (2,), "Permission denied; nothing was changed")
        ],
        "validate": [Bad(("validate", "denied.json"), (3,), "Permission denied")],
        "generate": [Bad(("generate", "--schema", "denied.ts", "--out", "out"), (3,), "denied.ts")],
        "import": [Bad(("import", "denied.ts", "--revision", "2031-01-01"), (3,), "denied.ts")],
        "diff": [Bad(("diff", "denied.ts", REVISION), (2, 3), "denied.ts")],
        "explore": [Bad(("explore", "denied.ts", "--out", "out"), (2, 3), "denied.ts")],
    },
    "wrong arguments": {
        name: [
            Bad((name, "--nonsense"), (2,), "No such option"),
            *([] if name in {"list", "hosts"} else [Bad((name,), (2,), "Usage: ")]),
            Bad((name, "a", "b", "c", "d", "--revisionn"), (2,), "Usage: "),
        ]
        for name in _COMMANDS
    },
}
"""Command lines by kind and command."""
TABLE["wrong arguments"]["call"] += [
    Bad(("call", "shop.py", "buy", "what=x", "--repeat", "0"), (2,), "0 is not in the range 1<=x<="),
    Bad(("call", "shop.py", "buy", "what=x", "--at-once", "2"), (2,), "--at-once requires --repeat N"),
    Bad(("call", "shop.py", "buy", "what=x", "--no-wait"), (2,), "--no-wait requires --task"),
    Bad(
        ("call", "shop.py", "buy", "what=x", "--task", "--no-wait"),
        (2,),
        "--no-wait requires a server at a URL",
    ),
    Bad(("call", "shop.py", "buy", "what=x", "--task", "--repeat", "2"), (2,), "--task starts one call"),
    Bad(("call", "shop.py", "buy", "what=x", "--seconds", "0"), (2,), "0.0 is not in the range"),
    Bad(("call", "shop.py", "buy", "what=x", "--rate", "5"), (2,), "--rate requires --repeat N"),
    Bad(("call", "shop.py", "buy", "what=x", "--warm-up", "nan"), (2,), "nan is not in the range"),
]
TABLE["wrong arguments"]["task"] += [
    Bad(("task", "shop.py"), (2,), "Missing argument ID"),
    Bad(("task", "shop.py", "an-id", "more"), (2,), "a task has one ID"),
    Bad(
        ("task", "shop.py", "an-id", "--status", "--cancel"), (2,), "--status and --cancel do not go together"
    ),
]
for _words in (
    ("inspect", "shop.py", "--timeout"),
    ("ask", "shop.py", "--for"),
    ("serve", "shop.py", "--drain"),
    ("bridge", "shop.py", "--drain"),
):
    TABLE["wrong arguments"][_words[0]].append(Bad((*_words, "nan"), (2,), "nan is not in the range"))
TABLE["wrong arguments"]["generate"].pop(1)  # writes all packages
TABLE["wrong arguments"]["diff"][1] = Bad(("diff",), (2,), "pass two inputs, OLD and NEW")
for _name in ("login", "logout"):  # they read a TARGET as `inspect` does, and connect only to URLs
    for _kind in (
        "missing file",
        "binary file",
        "wrong JSON",
        "huge names",
        "control characters",
        "no permission",
    ):
        TABLE[_kind][_name] = [
            bad._replace(arguments=(_name, *bad.arguments[1:]))
            for bad in TABLE[_kind]["inspect"]
            if not {"shop.py", "--"}.intersection(bad.arguments)
        ]
TABLE["unknown revision"]["login"] = [
    Bad(("login", "http://127.0.0.1:1/mcp", "--revision", "2031-01-01"), (2,), "2031-01-01")
]
TABLE["dead URL"]["login"] = [
    Bad(("login", *QUICK, "http://127.0.0.1:1/mcp"), (3,), "check that the server runs")
]
NOT: Final[dict[str, frozenset[str]]] = {
    "missing file": frozenset({"list", "show", "hosts", "completion", "unpin"}),
    "binary file": frozenset({"list", "show", "hosts", "completion", "unpin"}),
    "wrong JSON": frozenset(
        {"list", "show", "hosts", "completion", "generate", "import", "unpin", "diff", "explore"}
    ),
    "unknown revision": frozenset(
        {"list", "hosts", "serve", "install", "uninstall", "completion", "import", "logout"}
    ),
    "dead URL": frozenset(
        # The first four take no URL of a server, `bridge` and `dev` serve and tell their clients of it.
        {
            "list",
            "show",
            "hosts",
            "completion",
            "uninstall",
            "bridge",
            "dev",
            "serve",
            "validate",
            "generate",
            "unpin",
            "logout",
        }
    ),
    "hung server": frozenset(set(_COMMANDS) - set(USES)),
    "huge names": frozenset({"list"}),
    "control characters": frozenset[str](),
    "no permission": frozenset({"list", "show", "hosts", "completion", "unpin"}),
    "wrong arguments": frozenset[str](),
}
"""The commands that cannot get an input of a kind: they read no such thing."""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", ["mcprev"])
    serve_here("shop.py", SHOP, monkeypatch)
    Path("evil.py").write_text('raise RuntimeError("\\x1b[2J")\n', encoding="utf-8")
    for name in ("binary.json", "binary.py", "binary.ts"):
        Path(name).write_bytes(b"\xff\xfe\x00\x1b[2J")
    Path("broken.json").write_text("{", encoding="utf-8")
    Path("commented.json").write_text('{ // comments\n  /* and\n */ "a" 1}', encoding="utf-8")
    for name, text, _ in SHAPES:
        Path(name).write_text(text, encoding="utf-8")
    Path("home").mkdir()
    Path("known.json").write_text('{"mcpServers": {"shop": {"command": "x"}}}', encoding="utf-8")
    for name in ("denied.json", "denied.py", "denied.ts"):
        Path(name).write_text("{}", encoding="utf-8")
    modules = set(sys.modules)
    yield
    for name in set(sys.modules) - modules:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def _denied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that nobody may open; the user of the tests may be one who may open all."""

    def guarded(opens: Any) -> Any:
        def open_(path: Any, *arguments: Any, **options: Any) -> Any:
            if not isinstance(path, int) and str(path).rpartition("/")[2].startswith("denied."):
                raise PermissionError(13, "Permission denied", str(path))
            return opens(path, *arguments, **options)

        return open_

    for module in (builtins, io, os):
        monkeypatch.setattr(module, "open", guarded(module.open))
    monkeypatch.setattr(_io, "open_code", guarded(_io.open_code))  # of imports


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="mcprev")


def check(done: Result, bad: Bad) -> None:
    """Hold the end of a command against what every user may expect."""
    shown = done.stdout + done.stderr
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code in bad.codes, shown[-2000:]
    assert "Traceback" not in shown or "evil.py" in bad.arguments  # that of the author's own code
    assert re.findall(r"[^\n\t -~\u00a0-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]", shown) == []
    assert bad.says in " ".join(shown.split()) or bad.says in shown, shown[-2000:]
    assert len(shown) < 20_000 or bad.arguments[0] in {
        "generate",
        "import",
        "unpin",
        "diff",
        "explore",
        "validate",
    }


CASES: Final = [
    pytest.param(kind, bad, id=f"{kind}-{command}-{number}")
    for kind, commands in TABLE.items()
    for command, several in commands.items()
    for number, bad in enumerate(several)
]


@pytest.mark.parametrize(("kind", "bad"), [case for case in CASES if case.values[0] != "no permission"])
def test_a_mistake_is_told(kind: str, bad: Bad) -> None:
    check(invoke(*bad.arguments), bad)


@pytest.mark.usefixtures("_denied")
@pytest.mark.parametrize(("kind", "bad"), [case for case in CASES if case.values[0] == "no permission"])
def test_a_file_that_nobody_may_read_is_told(kind: str, bad: Bad) -> None:
    check(invoke(*bad.arguments), bad)


@pytest.mark.parametrize("command", USES)
def test_a_url_that_never_answers(command: str) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        done = invoke(command, "--timeout", "0.3", "--no-login", url, *USES[command])
        check(done, Bad((command,), (3,), ""))


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("list",), ("completion", "bash"), ("inspect", "shop.py", "--as", D),
        ("call", "shop.py", "buy", "what=x", "--as", D), ("install", "cursor", "shop.py", "--print"),
        ("validate", "broken.json"),
    ],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_a_reader_that_is_gone_is_no_error(arguments: tuple[str, ...]) -> None:
    """Servers are asked at a revision with sessions: no warning says that one is late to answer the first message."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        argv = [sys.executable, "-m", "mcprev", *arguments]
        done = subprocess.run(
            argv, stdout=writing, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1 if arguments[0] == "validate" else 0, b"")


def test_every_command_meets_every_kind_of_bad_input() -> None:
    for kind in KINDS:
        if kind == "closed pipe":
            continue  # of those that print; `show`, `diff` and `generate` in test_command_line.py
        assert set(TABLE[kind]) | NOT[kind] == set(_COMMANDS), kind
        assert not set(TABLE[kind]) & NOT[kind], kind
