"""A site of schemas of one's own: what is foreign stays text, and only checked names become files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

import mcprev_explore
from explore.page_tree import ids, read_page
from helpers.named import A, B
from mcprev.cli import main
from mcprev_codegen.inputs import schema_folder
from mcprev_explore.names import file_names, fragment

EVIL: Final = "</script></pre><img src=x onerror=alert(1)>\u202e"
SCHEMA: Final = """
/** %(evil)s */
export const LATEST_PROTOCOL_VERSION = "%(version)s";
/** %(evil)s */
export const EVIL = %(quoted)s;
export interface Request { method: string; params?: { [key: string]: unknown } }
export interface Result { _meta?: { [key: string]: unknown } }
export type EmptyResult = Result;
/** %(evil)s */
export interface HostileRequest extends Request {
  method: %(quoted_method)s;
  params: {
    /** %(evil)s */
    %(quoted)s: %(quoted)s;
    nested?: hostileRequest[];
  };
}
export interface hostileRequest { again?: hostileRequest; __proto__?: string; constructor: "x" | null }
export interface CON { a: number; %(more)s }
export type ClientRequest = HostileRequest;
"""


def write(folder: Path, name: str, *, version: str = "my-1", method: str = EVIL, more: str = "") -> Path:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    text = SCHEMA % {
        "evil": EVIL, "quoted": quoted(EVIL), "quoted_method": quoted(method), "version": version, "more": more,
    }  # fmt: skip
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def run(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["explore", *map(str, arguments)])
    return done.exit_code, done.output


@pytest.mark.parametrize(
    "method", [EVIL, "../../outside", "a/../b", "CON", "nul.txt", '"><script>', "x" * 400]
)
def test_what_a_schema_says_stays_text_and_what_it_names_stays_inside(tmp_path: Path, method: str) -> None:
    folder = schema_folder()
    first = write(tmp_path, "one/schema.ts", method=method)
    second = write(tmp_path, "two/schema.ts", method=method, more="b?: string;")
    revisions = mcprev_explore.load_revisions(folder, (str(first), str(second)))
    files = mcprev_explore.site_files(folder, revisions, mcprev_explore.Ladder())
    assert len({name.lower() for name in files}) == len(files)
    for name, text in files.items():
        assert re.fullmatch(
            r"(?:(?:type|method|diff)/)?[A-Za-z0-9_-]+(?:\.{1,2}[A-Za-z0-9_-]+)*\.(?:html|css|js)", name
        )
        assert "\u202e" not in text
        if name.endswith(".html"):
            page = read_page(text)
            ids(page)
            assert page.all("img") == []
            assert [s.text for s in page.all("script")] == [""]
            assert not [a for each in page.walk() for a in each.attributes if a.startswith("on")]
    assert "<" not in files["search-data.js"].partition("= ")[2]
    assert "diff/my-1..my-1-2.html" in files
    assert "&lt;img src=x onerror=alert(1)&gt;\\u202e" in files["constants.html"]


@given(
    st.lists(
        st.text(min_size=1, max_size=30)
        | st.sampled_from(["Tool", "tool", "TOOL", "a/b", "a.b", "COM1", "x-0123456789abcdef"])
    )
)
def test_names_of_files_are_plain_and_all_different(names: list[str]) -> None:
    found = file_names(names)
    assert set(found) == set(names)
    assert len({name.lower() for name in found.values()}) == len(found)
    for name in found.values():
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name)
        assert ".." not in name
        assert not re.fullmatch(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?", name)


@given(st.text(), st.text())
def test_fragments_are_plain_and_tell_texts_apart(one: str, other: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._-]*", fragment(one))
    assert (fragment(one) == fragment(other)) == (one == other)


@pytest.mark.slow
def test_a_schema_beside_a_revision_has_a_page_of_both(tmp_path: Path) -> None:
    own = write(tmp_path, "my/schema.ts", method="things/get")
    out = tmp_path / "site"
    code, told = run(B, "--out", out, "--schema", own)
    assert code == 0, told
    assert (out / f"diff/my-1..{B}.html").is_file()
    page = read_page((out / "method/things.get.html").read_text(encoding="utf-8"))
    assert "my-1" in ids(page)
    assert not (out / "rules").exists()


@pytest.mark.slow
def test_only_an_empty_folder_or_one_of_a_site_is_written(tmp_path: Path) -> None:
    out = tmp_path / "site"
    own = write(tmp_path, "my/schema.ts")
    out.mkdir()
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    code, told = run("--schema", own, "--out", out)
    assert code == 3
    assert "neither empty nor written by `mcprev explore`" in told
    assert [path.name for path in out.iterdir()] == ["notes.txt"]
    (out / "notes.txt").unlink()
    code, told = run("--schema", own, "--out", out, "--check")
    assert code == 1
    assert "out of date" in told
    assert list(out.iterdir()) == []
    assert run("--schema", own, "--out", out)[0] == 0
    assert "up to date" in run("--schema", own, "--out", out, "--check")[1]
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    (out / "index.html").write_text(
        (out / "index.html").read_text(encoding="utf-8") + "edited", encoding="utf-8"
    )
    write(tmp_path, "my/schema.ts", method="other/method")
    code, told = run("--schema", own, "--out", out)
    assert code == 0
    assert "kept, because it is not part of the site: notes.txt" in told
    assert [path.name for path in (out / "method").iterdir()] == ["other.method.html"]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "Missing option '--out'"),
        (("--out", "site", "nonsense"), 3, "'nonsense' is neither a revision"),
        (("--out", "site", "missing/schema.ts"), 3, "no such file"),
        (("--out", "file.txt"), 2, "is a file"),
    ],
)
def test_a_wrong_argument_is_told_and_nothing_is_written(
    arguments: tuple[str, ...], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file.txt").touch()
    done = run(*arguments)
    assert done[0] == code
    assert message in done[1]
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


@pytest.mark.slow
def test_two_of_one_revision_are_told_apart(tmp_path: Path) -> None:
    own = write(tmp_path, "my/schema.ts", version=A, method="things/get")
    folder = schema_folder()
    revisions = mcprev_explore.load_revisions(folder, (A, str(own)))
    files = mcprev_explore.site_files(folder, revisions, mcprev_explore.Ladder())
    assert f"diff/{A}..{A}-2.html" in files
