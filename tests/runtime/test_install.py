"""`mcprev install` and `uninstall`: one member of a host's file changes, and every other byte stays."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, strategies as st

from mcprev.cli import main
from mcprev.hosts.installing import added, place_of, removed
from mcprev.hosts.jsonc import JsoncError, parse_jsonc, with_member, without_member
from mcprev.hosts.masking import masked
from mcprev.hosts.named_server import HEADERS_VARIABLE, named_server
from mcprev.hosts.table import HOSTS, Host
from mcprev.json_schema.bounds import LIST, OBJECT

URL: Final = "https://mcp.example/mcp"


@pytest.fixture(autouse=True)
def _a_home_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    Path("shop.py").touch()
    for host in HOSTS.values():
        host.file().parent.mkdir(parents=True, exist_ok=True)


def invoke(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False, prog_name="mcprev", **options)


# -- one member of a text ----------------------------------------------------------------------------------

SPACE: Final = st.sampled_from(
    ["", " ", "\n", "\n\t", "\r\n  ", " // a }\n", "/* , */", '\n  /* " */ // {\n  ']
)
VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def spelled(draw: st.DrawFn, value: Any) -> str:
    """A value with white space and comments between its parts, and a comma after the last of them at times."""

    def space() -> str:
        return draw(SPACE)

    members: dict[str, Any] = value if isinstance(value, OBJECT) else {}
    items: list[Any] = value if isinstance(value, LIST) else []
    if isinstance(value, (OBJECT, LIST)):
        ends = "{}" if isinstance(value, OBJECT) else "[]"
        parts = [
            f"{space()}{json.dumps(key)}{space()}:{space()}{draw(spelled(inner))}{space()}"
            for key, inner in members.items()
        ]
        parts += [f"{space()}{draw(spelled(inner))}{space()}" for inner in items]
        has_comma: bool = draw(st.booleans())
        comma = "," if parts and has_comma else ""
        return f"{ends[0]}{','.join(parts)}{comma}{space()}{ends[1]}"
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


def is_within(part: str, whole: str) -> bool:
    """Whether a text is the other one without some of its characters."""
    rest = iter(whole)
    return all(character in rest for character in part)


@given(st.data())
def test_a_member_is_added_and_every_byte_stays(data: st.DataObject) -> None:
    document: dict[str, Any] = data.draw(st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
    document.pop("servers", None)
    if data.draw(st.booleans()):
        document["servers"] = data.draw(st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
        document["servers"].pop("new", None)
    text = data.draw(SPACE) + data.draw(spelled(document)) + data.draw(SPACE)
    value = data.draw(VALUES)
    changed = with_member(text, ("servers", "new"), value)
    expected = {**document, "servers": {**document.get("servers", {}), "new": value}}
    assert parse_jsonc(changed).value == expected
    assert is_within(text, changed)
    back = without_member(changed, ("servers", "new"))
    assert parse_jsonc(back).value == {**document, "servers": document.get("servers", {})}
    assert is_within(back, changed)
    comments = re.findall(r"// a }|/\* , \*/", text)
    assert re.findall(r"// a }|/\* , \*/", back) == comments


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "servers": {\n    "new": 1\n  }\n}\n'),
        ("{}", '{\n  "servers": {\n    "new": 1\n  }\n}'),
        ('{"servers": {"a": 1}}', '{"servers": {"a": 1, "new": 1}}'),
        (
            '{\n\t// x\n\t"servers": {\n\t\t"a": 1 // one\n\t\t// end\n\t}\n}',
            '{\n\t// x\n\t"servers": {\n\t\t"a": 1, // one\n\t\t// end\n\t\t"new": 1\n\t}\n}',
        ),
        ('{\r\n    "servers": {},\r\n}', '{\r\n    "servers": {\r\n        "new": 1\r\n    },\r\n}'),
        (
            '{\n  "servers": {\n    "new": [2] /* old */\n  }\n}',
            '{\n  "servers": {\n    "new": 1 /* old */\n  }\n}',
        ),
        (" \n", '{\n  "servers": {\n    "new": 1\n  }\n}\n'),
        ("\ufeff", '\ufeff{\n  "servers": {\n    "new": 1\n  }\n}\n'),
        ("// mine\r\n", '// mine\r\n{\r\n  "servers": {\r\n    "new": 1\r\n  }\r\n}\r\n'),
        ('\ufeff{\n  "a": 1.0\n}\n', '\ufeff{\n  "a": 1.0,\n  "servers": {\n    "new": 1\n  }\n}\n'),
    ],
)
def test_a_member_is_written_in_the_style_of_the_file(before: str, after: str) -> None:
    assert with_member(before, ("servers", "new"), 1) == after


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "line 1, column 2: expected a member name"),
        ('{\n"a" 1}', "line 2, column 5: expected a colon after 'a'"),
        ('{"a": 1 "b": 2}', "line 1, column 9: expected a comma or }"),
        ('{"a": [1 2]}', "expected a comma or ]"),
        ('{"a": }', "a value is missing"),
        ('{"a": nul}', "'nul' is not a JSON value"),
        ('{"a": NaN}', "'NaN' is not a JSON value"),
        ('{"a": "x}', "the string does not end"),
        ("{} {}", "the value has ended"),
        ("{ /* ", "the comment does not end"),
        ("[]", "$ is not an object"),
        ('{"servers": []}', "$.servers is not an object"),
        ('{"servers": {"new": 1, "new": 2}}', "the member 'new' occurs twice"),
        ("[" * 1000, "nested deeper than"),
    ],
)
def test_a_broken_text_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(JsoncError) as caught:
        with_member(text, ("servers", "new"), 1)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ('{"env": {"T": "s3cret", "N": 1234}}', '{"env": {"T": "[...]", "N": "[...]"}}'),
        ('{"headers": {"A": ["s3cret", {"b": "s3cret"}]}}', '{"headers": {"A": ["[...]", {"b": "[...]"}]}}'),
        ('["--header", "A: s3cret", "-H", "A: s3cret", "x"]', '["--header", "[...]", "-H", "[...]", "x"]'),
        ('["--header=A: s3cret"]', '["--header=[...]"]'),
        ('["--token", "s3cret", "--api-key=s3cret"]', '["--token", "[...]", "--api-key=[...]"]'),
        (
            '["run", "-e", "FOO=s3cret", "-e", "BAR", "--env=FOO=s3cret"]',
            '["run", "-e", "FOO=[...]", "-e", "BAR", "--env=FOO=[...]"]',
        ),
        ('["https://a:s3cret@h/x?k=s3cret"]', '["https://...@h/x?..."]'),
        ('{"url": "https://a:s3cret@h/x?k=s3cret"}', '{"url": "https://...@h/x?..."}'),
        ('{"command": "run --api-key=s3cret"}', '{"command": "run --api-key=[...]"}'),
        (
            '{"primaryApiKey": "s3cret", "tokens": ["s3cret"]}',
            '{"primaryApiKey": "[...]", "tokens": ["[...]"]}',
        ),
        ('{"auth-token": {"command": "x"}}', '{"auth-token": {"command": "x"}}'),
        ('{"a": 1, // "API_KEY": "s3cret"\n "b": 2}', '{"a": 1, // "API_KEY": "[...]"\n "b": 2}'),
        ('{"a": "// no comment", "b": []}', '{"a": "// no comment", "b": []}'),
    ],
)
def test_what_looks_like_a_secret_is_masked_where_a_change_is_shown(given: str, shown: str) -> None:
    assert masked(given) == shown


# -- hosts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("project", [False, True])
@pytest.mark.parametrize("host", HOSTS.values(), ids=lambda host: host.name)
def test_a_server_is_installed_used_and_removed(host: Host, project: bool) -> None:
    options = ("--project",) if project else ()
    if project and host.project is None:
        done = invoke("install", host.name, "shop.py", "--yes", *options)
        assert (done.exit_code, "has no file for one project" in done.stderr) == (2, True)
        return
    file = host.file(project=project)
    before = '{\n  // kept\n  "theme": "dark",\n}\n'
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(before, encoding="utf-8")
    done = invoke("install", host.name, "shop.py:app", "--yes", "-e", "TOKEN=abc", *options)
    assert done.exit_code == 0, done.stderr
    assert "abc" not in done.stdout
    entry = named_server([f"shop@{host.name}"]).entry
    assert entry.words == (sys.executable, "-m", "mcprev", "serve", f"{Path.cwd()}/shop.py:app")
    assert entry.env == {"TOKEN": "abc"}
    headers = ("--header", "X-A: b", "--header", "X-C: d")
    assert invoke("install", host.name, URL, "--yes", *headers, *options).exit_code == 0
    far = named_server([f"mcp-example@{host.name}"]).entry
    if host.url is None:
        assert far.words[2:] == ("mcprev", "bridge", URL)
        assert far.env == {HEADERS_VARIABLE: "X-A: b\nX-C: d"}
    else:
        assert (far.url, far.headers) == (URL, {"X-A": "b", "X-C": "d"})
    for name in ("shop", "mcp-example"):
        assert invoke("uninstall", host.name, name, "--yes", *options).exit_code == 0
    assert is_within(before.replace('dark",', 'dark"'), file.read_text(encoding="utf-8"))
    assert len([*file.parent.glob(f"{file.name}.*.bak")]) == 4
    done = invoke("uninstall", host.name, "shop", "--yes", *options)
    assert (done.exit_code, "has no server 'shop'; it has none" in done.stderr) == (2, True)


def test_a_file_of_any_name_and_what_is_only_shown() -> None:
    Path("mine.json").write_text('{"servers": {}}', encoding="utf-8")
    assert invoke("install", "mine.json", "shop.py", "--dry-run").exit_code == 0
    assert Path("mine.json").read_text(encoding="utf-8") == '{"servers": {}}'
    done = invoke("install", "mine.json", "--name", "it", "--yes", "--", "python3", "shop.py", "--fast")
    assert done.exit_code == 0, done.stderr
    entry = json.loads(Path("mine.json").read_text(encoding="utf-8"))["servers"]["it"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"] == [f"{Path.cwd()}/shop.py", "--fast"]
    printed = json.loads(invoke("install", "vscode", "shop:app", "--print").stdout)
    assert printed["shop"]["type"] == "stdio"
    assert printed["shop"]["env"] == {"PYTHONPATH": str(Path.cwd())}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("install", "emacs", "shop.py"), "no host 'emacs' is known; write one of claude-code"),
        (("install", "cursor"), "Missing argument TARGET"),
        (("install", "cursor", "none.py"), "there is no file 'none.py'"),
        (("install", "claude-desktop", URL, "--header", "A: b\nC: d"), "a header has a line end"),
        (("install", "cursor", "shop.py", "--name", "a__b"), "cannot be the name of a server"),
        (("install", "cursor", "shop.py", "--name", "a\x1b[2J"), "'a\\x1b[2J' cannot be the name"),
        (
            ("install", "cursor", "shop.py"),
            "there is no terminal to ask for confirmation: pass --yes, or --dry-run",
        ),
        (("install", "a/b/c.json", "shop.py", "--yes"), "whose folder does not exist"),
        (("install", "folder.json", "shop.py", "--yes"), "is not a regular file"),
        (("install", "link.json", "shop.py", "--yes"), "is a symbolic link; pass the file that it points to"),
        (("install", "binary.json", "shop.py", "--yes"), "is not UTF-8 text: byte 0 is 0xff"),
        (
            ("install", "broken.json", "shop.py", "--yes"),
            "broken.json: line 1, column 2: expected a member name",
        ),
        (("install", "list.json", "shop.py", "--yes"), "$ is not an object"),
        (("install", "known.json", "shop.py", "--yes"), "has a server 'shop' already; pass --replace"),
        (("uninstall", "none.json", "shop", "--yes"), "there is no file 'none.json'"),
        (("uninstall", "known.json", "shp", "--yes"), "has no server 'shp'; it has shop"),
        (("install", "vscode", "shop.py", "--project", "--yes"), "'.vscode' is a symbolic link"),
    ],
    ids=range(17),
)
def test_what_cannot_be_installed_is_refused_and_nothing_changes(
    arguments: tuple[str, ...], says: str
) -> None:
    Path("folder.json").mkdir()
    Path("target.json").write_text("{}", encoding="utf-8")
    Path("link.json").symlink_to("target.json")
    Path("binary.json").write_bytes(b"\xff\xfe")
    Path("broken.json").write_text("{", encoding="utf-8")
    Path("list.json").write_text("[]", encoding="utf-8")
    Path("known.json").write_text('{"mcpServers": {"shop": {}}}', encoding="utf-8")
    Path("elsewhere").mkdir()
    Path(".vscode").symlink_to("elsewhere")
    before = {path: path.read_bytes() for path in Path.cwd().rglob("*") if path.is_file()}
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert says.replace("'.vscode'", ".vscode'") in " ".join(done.stderr.split())
    assert {path: path.read_bytes() for path in Path.cwd().rglob("*") if path.is_file()} == before


@pytest.mark.skipif(sys.platform == "win32", reason="has no such modes")
def test_the_mode_stays_and_a_new_file_is_private() -> None:
    file = Path("mine.json")
    file.write_text("{}", encoding="utf-8")
    file.chmod(0o640)
    assert invoke("install", "mine.json", "shop.py", "--yes").exit_code == 0
    [copy] = Path.cwd().glob("mine.json.*.bak")
    assert {stat.S_IMODE(each.stat().st_mode) for each in (file, copy)} == {0o640}
    assert copy.read_text(encoding="utf-8") == "{}"
    assert invoke("install", "new.json", "shop.py", "--yes").exit_code == 0
    assert stat.S_IMODE(Path("new.json").stat().st_mode) == 0o600
    Path("open").mkdir()
    Path("open").chmod(0o777)
    done = invoke("install", "open/mine.json", "shop.py", "--yes")
    assert (done.exit_code, "everybody can write into the folder" in done.stderr) == (2, True)


@pytest.mark.parametrize("text", ["", " \n", "\ufeff", "// mine\n"])
def test_an_empty_file_has_no_servers(text: str) -> None:
    file = Path("mine.json")
    file.write_text(text, encoding="utf-8")
    done = invoke("uninstall", "mine.json", "shop", "--yes")
    assert (done.exit_code, "has no server 'shop'; it has none" in done.stderr) == (2, True)
    done = invoke("install", "mine.json", "shop.py", "--yes")
    assert done.exit_code == 0, done.stderr
    assert named_server(["shop@mine.json"]).entry.words[-2:] == ("serve", f"{Path.cwd()}/shop.py")
    assert file.read_text(encoding="utf-8").startswith(text.strip())


def test_a_change_after_the_copy_was_written_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path("mine.json")
    file.write_text("{}", encoding="utf-8")
    change = added(place_of("mine.json", project=False), "shop", {"command": "x"}, replace=False)

    def fsync(_: int) -> None:
        if [*Path.cwd().glob("mine.json.*.bak")]:
            file.write_text('{"other": 1}', encoding="utf-8")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(ValueError, match="was changed by another program meanwhile"):
        change.make()
    assert [path.name for path in Path.cwd().iterdir() if "json" in path.name] == ["mine.json"]
    assert file.read_text(encoding="utf-8") == '{"other": 1}'


@pytest.mark.parametrize("number", [1, 2], ids=["the new file", "the copy"])
def test_a_disk_that_is_full_leaves_the_file_alone(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    file = Path("mine.json")
    file.write_text('{"mcpServers": {"shop": {}}}', encoding="utf-8")
    calls: list[int] = []

    def fsync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == number:
            raise OSError(28, "No space left on device", "mine.json")

    change = removed(place_of("mine.json", project=False), "shop")
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="No space left"):
        change.make()
    assert {path.name for path in Path.cwd().iterdir()} == {"shop.py", "mine.json"}
    assert file.read_text(encoding="utf-8") == change.before


def test_a_change_by_another_program_is_not_lost() -> None:
    file = Path("mine.json")
    file.write_text("{}", encoding="utf-8")
    change = added(place_of("mine.json", project=False), "shop", {"command": "x"}, replace=False)
    file.write_text('{"other": 1}', encoding="utf-8")
    with pytest.raises(ValueError, match="was changed by another program meanwhile"):
        change.make()
    assert [path.name for path in Path.cwd().iterdir() if "json" in path.name] == ["mine.json"]
    assert file.read_text(encoding="utf-8") == '{"other": 1}'
