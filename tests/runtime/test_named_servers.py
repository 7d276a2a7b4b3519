"""The TARGET of a command: a URL, a file, a command, or a name out of the configuration of a host."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from mcprev.cli import main
from mcprev.client.host_config import config_entries
from mcprev.hosts.named_server import NamedServer, configured_servers, named_server
from mcprev.hosts.table import HOSTS, Host

STDIO: Final = {"command": "server", "args": ["--fast"], "env": {"A": "b"}}
URL: Final = "https://mcp.example/mcp"


@pytest.fixture(autouse=True)
def _a_home_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def configure(host: Host, servers: dict[str, Any], *, project: bool = False) -> Path:
    """Write servers to where a host keeps them, between comments."""
    file = host.file(project=project)
    document: Any = servers
    for name in reversed(host.members[0]):
        document = {name: document}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"// of the user\n{json.dumps(document)[:-1]}, /* more */ }}\n", encoding="utf-8")
    return file


@pytest.mark.parametrize("host", HOSTS.values(), ids=lambda host: host.name)
def test_a_server_is_found_by_its_name_in_each_host(host: Host) -> None:
    servers: dict[str, Any] = {"shop": {**STDIO, **host.command_members}}
    if host.url is not None:
        servers["far"] = {host.url: URL, "headers": {"X-A": "1"}, **host.url_members}
    configure(host, servers)
    for word in ("shop", f"shop@{host.name}", f"shop@{host.file()}"):
        if host.file().suffix == ".json":
            found = named_server([word])
            assert (found.entry.words, found.entry.env, found.name) == (
                ("server", "--fast"),
                {"A": "b"},
                "shop",
            )
    if host.url is not None:
        entry = named_server(["far"]).entry
        assert (entry.url, entry.headers) == (URL, {"X-A": "1"})
    assert {(each.name, each.host) for each in configured_servers()} == {
        (name, host.name) for name in servers
    }


@pytest.mark.parametrize(
    "host", [host for host in HOSTS.values() if host.project], ids=lambda host: host.name
)
def test_the_file_of_a_project_goes_before_that_of_the_user(host: Host) -> None:
    configure(host, {"shop": STDIO})
    configure(host, {"shop": {"command": "near"}}, project=True)
    assert named_server([f"shop@{host.name}"]).entry.words == ("near",)


def test_the_servers_of_a_folder_in_claude_code_and_the_old_entries_of_zed() -> None:
    file = HOSTS["claude-code"].file()
    file.parent.mkdir(parents=True)
    file.write_text(
        json.dumps({"projects": {str(Path.cwd()): {"mcpServers": {"here": STDIO}}}}), encoding="utf-8"
    )
    assert named_server(["here"]).entry.words == ("server", "--fast")
    configure(HOSTS["zed"], {"old": {"command": {"path": "server", "args": ["--fast"], "env": {"A": "b"}}}})
    assert named_server(["old@zed"]).entry == named_server(["here"]).entry


def test_words_and_options() -> None:
    url = named_server([URL], headers={"X-A": "1"})
    assert (url.entry.url, url.entry.headers, url.label) == (URL, {"X-A": "1"}, URL)
    command = named_server(["https://no", "url"], command=True, env={"A": "b"})
    assert (command.entry.words, command.entry.env) == (("https://no", "url"), {"A": "b"})
    assert (command.given, command.label) == (("--", "https://no", "url"), "https://no url")
    assert named_server(["server", "--token", "s3cret"], command=True).label == "server --token [...]"
    assert named_server([f"{URL}?key=s3cret"]).label == f"{URL}?..."
    Path("shop.py").touch()
    for word in ("shop.py", "shop.py:app", "shop:app"):
        module = named_server([word])
        assert isinstance(module, NamedServer)
        assert module.module == word
        assert module.entry.words[-2:] == ("serve", word)


def write(name: str, text: str | bytes) -> None:
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())


@pytest.mark.parametrize(
    ("word", "text", "says"),
    [
        ("none.py", None, "there is no file 'none.py'"),
        ("none.json", None, "there is no file 'none.json'"),
        ("a@none.json", None, "there is no file 'none.json'"),
        ("a@cursor", None, "there is no file"),
        ("ftp://a/b", None, "begins with http:// or https://"),
        ("no such server", None, "no configuration has a server 'no such server'; write a URL"),
        ("", None, "no configuration has a server ''"),
        ("odd.json", '{"mcpServers": {}}', "'odd.json' has no servers; it requires"),
        ("odd.json", "", "'odd.json' has no servers; it requires"),
        (
            "odd.json",
            '{"mcpServers": {"a": {}, "b": {}}}',
            "several servers; pass one of a@odd.json, b@odd.json",
        ),
        ("odd.json", '{"mcpServers": {"a": []}}', "the server 'a' in 'odd.json': its entry is not an object"),
        ("odd.json", '{"mcpServers": {"a": {}}}', "it has neither `command` nor `url`"),
        ("odd.json", '{"mcpServers": {"a": {"comand": "x"}}}', "did you mean 'command'?"),
        ("odd.json", '{"mcpServers": {"a": {"url": "${NOT_SET_HERE}"}}}', "NOT_SET_HERE is not set"),
        (
            "odd.json",
            '{\n  "mcpServers": {"a" 1}}',
            "odd.json: line 2, column 22: expected a colon after 'a'",
        ),
        ("odd.json", b"\xff\xfe\x00", "is not UTF-8 text: byte 0 is 0xff"),
        ("odd.json", '{"mcpServers": ' + "[" * 300, "nested deeper than"),
        ("shop@odd.json", '{"mcpServers": {"shops": {}}}', "has no server 'shop'; did you mean 'shops'?"),
        ("x@odd.json", '{"mcpServers": {"shops": {}}}', "has no server 'x'; its servers are shops"),
    ],
)
def test_what_names_no_server_is_explained(word: str, text: str | bytes | None, says: str) -> None:
    if text is not None:
        write("odd.json", text)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared
        named_server([word])
    assert says in str(caught.value)


def test_a_name_in_several_hosts() -> None:
    configure(HOSTS["cursor"], {"shop": STDIO})
    configure(HOSTS["windsurf"], {"shop": STDIO})
    assert named_server(["shop"]).entry.words == ("server", "--fast")  # the same
    configure(HOSTS["windsurf"], {"shop": {"command": "other"}})
    with pytest.raises(ValueError, match="write one of shop@cursor, shop@windsurf"):
        named_server(["shop"])
    assert named_server(["shop@windsurf"]).entry.words == ("other",)


def test_a_broken_configuration_hides_no_other() -> None:
    configure(HOSTS["cursor"], {"shop": STDIO})
    broken = HOSTS["windsurf"].file()
    broken.parent.mkdir(parents=True)
    broken.write_text("{", encoding="utf-8")
    assert named_server(["shop"]).name == "shop"
    with pytest.raises(ValueError, match=r"mcp_config.json: line 1, column 2"):
        named_server(["shop@windsurf"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes with names")
def test_a_pipe_in_place_of_a_configuration_is_not_waited_for() -> None:
    configure(HOSTS["cursor"], {"shop": STDIO})
    pipe = HOSTS["windsurf"].file()
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    os.mkfifo("odd.json")
    assert named_server(["shop"]).name == "shop"
    assert [each.name for each in configured_servers()] == ["shop"]
    for word in ("shop@windsurf", "odd.json", "shop@odd.json"):
        with pytest.raises(ValueError, match="is not a regular file"):
            named_server([word])
    with pytest.raises(ValueError, match="is not a regular file"):
        config_entries("odd.json")


def test_the_servers_of_all_hosts_are_listed_without_secrets() -> None:
    args = ["--token", "s3cret", "-e", "A=s3cret", "--header", "X: s3cret", "https://a/?k=s3cret", "x\x1b[2J"]
    configure(HOSTS["cursor"], {"shop": {**STDIO, "args": args}, "odd": []})
    configure(HOSTS["windsurf"], {"far": {"serverUrl": "https://ann:s3cret@mcp.example/mcp?key=s3cret"}})
    done = CliRunner().invoke(main, ["hosts"])
    assert done.exit_code == 0
    header, *rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert header == ["NAME", "HOST", "SERVER", "FILE"]
    assert [row[:2] for row in rows] == [["shop", "cursor"], ["odd", "cursor"], ["far", "windsurf"]]
    assert "s3cret" not in done.stdout
    assert "\\x1b[2J" in rows[0][2]
    assert (
        json.loads(CliRunner().invoke(main, ["hosts", "windsurf", "--json"]).stdout)["servers"][0]["name"]
        == "far"
    )
    wrong = CliRunner().invoke(main, ["hosts", "cursr"])
    assert (wrong.exit_code, "did you mean 'cursor'?" in wrong.stderr) == (2, True)
