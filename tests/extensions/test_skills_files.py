"""What becomes a skill: paths that every system can have, front matter within bounds, folders without ways out (SK-3, SK-5..SK-11)."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from helpers.requirements import req
from mcprev.extensions.skills.content import mime_type_of, skill_content
from mcprev.extensions.skills.folder import read_skills
from mcprev.extensions.skills.front_matter import (
    MAX_FRONT_MATTER,
    MAX_FRONT_MATTER_DEPTH,
    MAX_FRONT_MATTER_VALUES,
    is_ambiguous,
    plain_json,
    read_front_matter,
    says_the_same,
)
from mcprev.extensions.skills.paths import (
    MAX_PATH,
    MAX_PATH_DEPTH,
    clash_among,
    path_below,
    path_error,
    quoted,
)
from mcprev.extensions.skills.rules import MAX_SKILL_BYTES, MAX_SKILL_FILES, FrontMatterError


def document(front: str, body: str = "Do it.\n") -> str:
    return f"---\n{front}\n---\n{body}"


def skill_md(name: str, **more: str) -> str:
    return document(
        "\n".join([f"name: {name}", "description: What it does", *(f"{k}: {v}" for k, v in more.items())])
    )


def read(front: str) -> Any:
    return plain_json(read_front_matter(document(front).encode()))


@req("SK-3", "SK-10", everywhere=True)
@pytest.mark.parametrize(
    ("front", "found"),
    [
        ("a: b", {"a": "b"}),
        ("a: 2025-01-01", {"a": "2025-01-01"}),
        ("a: 2025-01-01T10:00:00Z", {"a": "2025-01-01T10:00:00Z"}),
        ("a: !!timestamp 2025-01-01", {"a": "2025-01-01"}),
        ("a: '1'\nb: 1\nc: 1.5\nd: true\ne: null\nf:", {"a": "1", "b": 1, "c": 1.5, "d": True, "e": None, "f": None}),
        ("a: [x, {b: c}]", {"a": ["x", {"b": "c"}]}),
        ("a: |\n  one\n  two", {"a": "one\ntwo\n"}),
        ("1: a\ntrue: b", {"1": "a", "true": "b"}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("a: !!str 1", {"a": "1"}),
        ('a: "é \\u263a"', {"a": "é ☺"}),
        ("a: =", {"a": "="}),
    ],
)  # fmt: skip
def test_front_matter_is_json(front: str, found: object) -> None:
    assert read(front) == found
    assert says_the_same(read_front_matter(document(front).encode()), found)


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{two}: &{two} [{', '.join([f'*{one}'] * 10)}]" for one, two in zip("abcdefgh", "bcdefghi", strict=True)
)


@req("SK-3", everywhere=True)
@pytest.mark.parametrize(
    ("front", "why"),
    [
        (BOMB, f"more than {MAX_FRONT_MATTER_VALUES} values"),
        ("a: &a [*a]", "no value yet"),
        ("a: *b", "no value yet"),
        (f"a: {'[' * 40}{']' * 40}", f"more than {MAX_FRONT_MATTER_DEPTH} deep"),
        (f"a: {'[' * 20_000}", f"more than {MAX_FRONT_MATTER_DEPTH} deep"),
        (f"a: [{'x,' * MAX_FRONT_MATTER_VALUES}]", "values"),
        ("a: !!python/object/apply:os.system [id]", "JSON does not have"),
        ("a: !!binary aGk=", "JSON does not have"),
        ("a: !!set {x}", "JSON does not have"),
        ("a: !mine x", "JSON does not have"),
        ("<<: {a: b}", "merges mappings"),
        ("a: b\na: c", "twice"),
        ("? [a]\n: b", "key is not a text"),
        ("a: .nan", "not one in JSON"),
        ("a: -.inf", "not one in JSON"),
        ("a: 99999999999999999999", "not one in JSON"),
        (f"a: {'9' * 5000}", "is no int"),
        ('a: "\\ud800"', "half of a character"),
        ("a: 'b", "not YAML"),
        ("a: b: c", "not YAML"),
        ("- a", "not a mapping"),
        ("", "not a mapping"),
        ("a: b\n--- c", "more than one document"),
        ("a: \x07", "not YAML"),
        (f"a: {'x' * MAX_FRONT_MATTER}", "within"),
    ],
)  # fmt: skip
def test_front_matter_that_json_does_not_have_or_that_grows_is_refused(front: str, why: str) -> None:
    with pytest.raises(FrontMatterError, match=why):
        read_front_matter(document(front).encode())


def test_front_matter_has_a_first_and_a_last_line() -> None:
    assert read_front_matter(b"\xef\xbb\xbf---\r\nname: a\r\n---\r\n")["name"]
    for data in (
        b"",
        b"name: a",
        b"---\nname: a",
        b"--- \xff\n---\n",
        b"----\na: b\n---\n",
        b" ---\na: b\n---\n",
    ):
        with pytest.raises(FrontMatterError):
            read_front_matter(data)


@req("SK-25", everywhere=True)
@pytest.mark.parametrize(
    ("front", "other", "same"),
    [
        ("a: yes", {"a": True}, True),
        ("a: yes", {"a": "yes"}, True),
        ("a: yes", {"a": 1}, False),
        ("a: 'yes'", {"a": True}, False),
        ("a: 010", {"a": 8}, True),
        ("a: 010", {"a": 10}, True),
        ("a: 010", {"a": 9}, False),
        ("a: 0o10", {"a": 8}, True),
        ("a: 1e3", {"a": 1000}, True),
        ("a: 1", {"a": 1.0}, True),
        ("a: 1", {"a": True}, False),
        ("a: ~", {"a": None}, True),
        ("a: b", {"a": "b", "c": "d"}, False),
        ("a: b\nc: d", {"a": "b"}, False),
        ("a: [b]", {"a": ["b", "b"]}, False),
        ("a: [b]", {"a": {"0": "b"}}, False),
        ("a: {b: c}", {"a": ["c"]}, False),
        ("a: 'b'", {"a": "c"}, False),
        ("a: 2025-01-01", {"a": "2025-01-01"}, True),
    ],
)
def test_readers_of_yaml_may_disagree_and_nothing_else_may(front: str, other: Any, *, same: bool) -> None:
    assert says_the_same(read_front_matter(document(front).encode()), other) is same


def test_what_readers_of_yaml_disagree_on_is_told(caplog: pytest.LogCaptureFixture) -> None:
    assert is_ambiguous(read_front_matter(document("a: [yes]\nb: {c: 010}\nd: true\ne: 'no'").encode())) == [
        "yes",
        "010",
    ]
    with caplog.at_level(logging.WARNING, "mcprev.extensions"):
        skill_content("a", {"SKILL.md": skill_md("a", invocable="no")})
    assert "readers of YAML disagree on 'no'" in caplog.text


GOOD = (
    "a",
    "a/b",
    "a b.md",
    "é.md",
    "日本.md",
    "a.b.c",
    "con-x",
    "nul_",
    "com10",
    "-",
    "a%2fb",
    "..a",
    "A" * 255,
    "#x",
    "x'y",
)
BAD = (
    "", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a/..", ".hidden", "a/.git/config", "a\\b", "..\\a",
    "C:\\x", "c:x", "a:stream", "a\0", "a\nb", "a\x1b[31m", "a\x7f", "a\u202eb", "a\u200b", "\ud800", "<img src=x>.md", 'a"b', "a|b",
    "a?b", "a*b", "a ", " a", "a.", "a./b", "con", "CON.txt", "Nul.tar.gz", "aux", "prn.md", "com1", "LPT9.x", "com\u00b9", "conin$",
    "x" * 256, "é" * 128, "a/" * MAX_PATH_DEPTH + "a", "x" * (MAX_PATH + 1), "\\\\server\\share", "\u2028", "con .md",
)  # fmt: skip


@req("SK-8", everywhere=True)
@pytest.mark.parametrize("path", GOOD)
def test_a_path_that_every_system_has_is_served_and_comes_back_from_its_uri(path: str) -> None:
    if path != "..a":
        assert path_error(path) is None
    assert path_below("skill://x", f"skill://x/{quoted(path)}") == path


@req("SK-8", everywhere=True)
@pytest.mark.parametrize("path", BAD, ids=repr)
def test_a_path_that_leads_out_or_is_another_one_somewhere_is_refused(path: str) -> None:
    assert path_error(path) is not None
    with pytest.raises(ValueError, match="refused"):
        skill_content("a", {"SKILL.md": skill_md("a"), path: b""})


@pytest.mark.parametrize(
    "uri",
    [
        "skill://x", "skill://xy/a", "skill://x/a%2Fb", "skill://x/a%2fb", "skill://x/%5c", "skill://x/a%00", "skill://x/%", "skill://x/%f",
        "skill://x/%ff", "skill://x/a?b", "skill://x/a#b", "other://x/a", "skill:///x/a",
    ],
)  # fmt: skip
def test_a_uri_that_is_no_path_below_a_folder_has_none(uri: str) -> None:
    assert path_below("skill://x", uri) is None


@req("SK-8", everywhere=True)
@pytest.mark.parametrize(
    ("paths", "clash"),
    [
        (["a.md", "A.md"], True),
        (["a/b", "A/c"], True),
        (["a", "a/b"], True),
        (["e\u0301", "\u00e9"], True),
        (["straße", "STRASSE"], True),
        (["\ufb01le", "file"], True),
        (["a/b", "a/c", "b/a"], False),
    ],
)
def test_paths_that_are_one_on_some_systems_clash(paths: list[str], *, clash: bool) -> None:
    assert (clash_among(paths) is not None) is clash
    if clash:
        with pytest.raises(ValueError, match="one path on some systems"):
            skill_content("a", {"SKILL.md": skill_md("a"), **dict.fromkeys(paths, "")})


@req("SK-3", "SK-5", "SK-11", everywhere=True)
@pytest.mark.parametrize(
    ("path", "files", "why"),
    [
        ("a", {}, "0 files"),
        ("a", {"b": ""}, "no file SKILL.md"),
        ("a", {"skill.md": skill_md("a")}, "no file SKILL.md"),
        ("a", {"SKILL.md": skill_md("b")}, "same name"),
        ("a/b", {"SKILL.md": skill_md("a")}, "same name"),
        ("A", {"SKILL.md": skill_md("A")}, "lower-case"),
        ("a--b", {"SKILL.md": skill_md("a--b")}, "lower-case"),
        ("-a", {"SKILL.md": skill_md("-a")}, "lower-case"),
        ("a" * 65, {"SKILL.md": skill_md("a" * 65)}, "lower-case"),
        ("a", {"SKILL.md": document("name: a")}, "description"),
        ("a", {"SKILL.md": document("name: a\ndescription: ''")}, "description"),
        ("a", {"SKILL.md": document("name: a\ndescription: [x]")}, "description"),
        ("a", {"SKILL.md": document(f"name: a\ndescription: {'x' * 1025}")}, "description"),
        ("a", {"SKILL.md": document("description: x")}, "`name`"),
        ("a", {"SKILL.md": "text"}, "does not begin"),
        ("a", {"SKILL.md": skill_md("a"), **{f"f{n}": "" for n in range(MAX_SKILL_FILES)}}, "513 files"),
        ("a", {"SKILL.md": skill_md("a"), "big": bytes(MAX_SKILL_BYTES)}, f"more than {MAX_SKILL_BYTES} bytes"),
        ("../a", {"SKILL.md": skill_md("a")}, "refused"),
    ],
    ids=range(18),
)  # fmt: skip
def test_what_is_no_skill_is_refused_with_its_place(
    path: str, files: dict[str, str | bytes], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        skill_content(path, files)
    if 0 < len(files) < MAX_SKILL_FILES and not path.startswith("."):
        assert skill_content("ok", {"SKILL.md": skill_md("ok"), "x/y": b"\xff"}).folders == {"", "x"}


def test_types_of_files_do_not_depend_on_the_machine() -> None:
    found = [
        mime_type_of(each)
        for each in ("SKILL.md", "a/b.PY", "x.json", "x.png", "x.unknown", "x", "a.b/c", ".md")
    ]
    assert found == [
        "text/markdown", "text/x-python", "application/json", "image/png",
        *["application/octet-stream"] * 4,
    ]  # fmt: skip


def write(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


@req("SK-8", "SK-14", everywhere=True)
def test_each_folder_with_a_skill_md_is_a_skill_with_all_files_below_it(tmp_path: Path) -> None:
    root = write(
        tmp_path / "skills",
        {
            "README.md": "no skill",
            "git/SKILL.md": skill_md("git"),
            "git/a/b.md": "b",
            "git/.secret": "hidden",
            "git/.cache/x": "hidden",
            "git/inner/SKILL.md": skill_md("inner"),
            "git/inner/x.md": "x",
            "team/mail/SKILL.md": skill_md("mail"),
        },
    )
    (root / "git" / "empty").mkdir()
    (root / "git" / "link.md").symlink_to(root / "git" / "a" / "b.md")
    found = {skill.path: skill for skill in read_skills(root)}
    assert [*found] == ["git", "git/inner", "team/mail"]
    assert [*found["git"].files] == ["SKILL.md", "a/b.md", "inner/SKILL.md", "inner/x.md", "link.md"]
    assert found["git"].folders == {"", "a", "inner", "empty"}
    assert [*found["git/inner"].files] == ["SKILL.md", "x.md"]
    assert found["git"].files["inner/x.md"] == found["git/inner"].files["x.md"]
    assert found["git"].files["link.md"].data == b"b"
    assert [skill.path for skill in read_skills(root / "git")] == ["git", "git/inner"]


def link_out(root: Path) -> None:
    (root.parent / "secret").write_text("secret")
    (root / "a" / "x.md").symlink_to(root.parent / "secret")


def link_to_folder(root: Path) -> None:
    (root / "a" / "x").symlink_to(root / "a")


def link_to_folder_outside(root: Path) -> None:
    (root / "x").symlink_to("/")


def link_to_nothing(root: Path) -> None:
    (root / "a" / "x.md").symlink_to(root / "a" / "nothing")


def link_to_hidden(root: Path) -> None:
    (root / "a" / ".env").write_text("secret")
    (root / "a" / "x.md").symlink_to(root / "a" / ".env")


def skill_md_is_a_link_out(root: Path) -> None:
    (root.parent / "other.md").write_text(skill_md("b"))
    (root / "b").mkdir()
    (root / "b" / "SKILL.md").symlink_to(root.parent / "other.md")


def fifo(root: Path) -> None:
    os.mkfifo(root / "a" / "x.md")


def device_name(root: Path) -> None:
    (root / "a" / "aux.md").write_text("")


def markup(root: Path) -> None:
    (root / "a" / "<b>.md").write_text("")


def not_unicode(root: Path) -> None:
    Path(os.fsdecode(bytes(root / "a") + b"/\xff.md")).write_text("")


def deep(root: Path) -> None:
    (root / "a" / "/".join("x" * (MAX_PATH_DEPTH + 1))).mkdir(parents=True)


def case(root: Path) -> None:
    (root / "a" / "x.md").write_text("")
    (root / "a" / "X.md").write_text("")


@req("SK-8", everywhere=True)
@pytest.mark.parametrize(
    "hostile",
    [
        link_out, link_to_folder, link_to_folder_outside, link_to_nothing, link_to_hidden, skill_md_is_a_link_out, fifo,
        device_name, markup, not_unicode, deep, case,
    ],
)  # fmt: skip
def test_a_folder_with_a_way_out_or_with_what_is_no_file_is_refused(hostile: Any, tmp_path: Path) -> None:
    root = write(tmp_path / "skills", {"a/SKILL.md": skill_md("a")})
    assert [skill.path for skill in read_skills(root)] == ["a"]
    hostile(root)
    with pytest.raises(ValueError, match=str(tmp_path)) as raised:
        read_skills(root)
    assert "secret" not in str(raised.value).replace(str(root), "")


def test_a_folder_without_skills_and_no_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no folder with a file"):
        read_skills(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        read_skills(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        read_skills(tmp_path / "nothing")
