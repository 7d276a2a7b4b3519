"""Every subcommand of the generator with every kind of wrong argument: an error that says so, and never a traceback."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from helpers.mini import REVISION, SOURCE, snapshot, write_folder
from helpers.shell import invoke

OUTPUT_FAILED: Final = 4
FILES: Final = {
    "empty": b"",
    "binary.ts": bytes(range(256)),
    "utf16.ts": "export interface A {}".encode("utf-16"),
    "broken.ts": b"export interface A {",
    "nothing.ts": b"// nothing\n",
    "broken.toml": b"[x",
    "types.ts": b"export interface A { a: 1 }\n",
    "schema.ts": SOURCE.encode(),
    "full/mine": b"mine",
}
PLACES: Final = (
    "", "-", ".", "..", "/", "folder", "full", "dangling", "loop", "loop/x.ts", "missing.ts", "missing/x.ts",
    "types.ts/x.ts", "/dev/null", "x" * 300 + ".ts", "a\x01b", "\u00e9\udcff.ts", "https://", "https://[::1",
    "ftp://x/y", "HEAD:", "HEAD:x", ":x", "x:y", *(name for name in FILES if "/" not in name),
)  # fmt: skip
"""What is passed where a file or folder is expected."""
NAMES: Final = (
    "", "-", " ", "\n", "../x", "a/b", "a b", "x" * 100, "class", "None", "models", "index", "latest", "__init__",
    "latest.py", "con", "\u00e9", "0", "1", "v1", "2025-99-99", REVISION.replace("-", "_"), "draft", "unpinned",
)  # fmt: skip
"""What is passed where a revision, method or type is expected."""
COMMIT: Final = "a" * 40
TYPES: Final = ("generate", "1.0", "--schema", "types.ts", "--no-overlay", "--check", "--out")
COMMANDS: Final = {
    "generate --schema": (PLACES, ("generate", "1.0", "--check", "--out", "out", "--schema")),
    "generate --schema --no-overlay": (PLACES, (*TYPES, "out", "--schema")),
    "generate --schema --out": (PLACES, TYPES),
    "generate --names": (PLACES, (*TYPES, "out", "--names")),
    "generate --target --out": (PLACES, ("generate", "--target", "typeddict", "--check", "--out")),
    "import": (PLACES, ("import", "--revision", "draft", "--commit", COMMIT)),
    "diff": (PLACES, ("diff", REVISION)),
    "diff --ignore-file": (PLACES, ("diff", REVISION, REVISION, "--ignore-file")),
    "diff --output": (PLACES, ("diff", REVISION, REVISION, "--output")),
    "show": ((*PLACES, *NAMES), ("show",)),
    "list": (("", "x", "--nothing"), ("list",)),
    "generate REV": (NAMES, ("generate", "--check")),
    "generate REV --schema": (NAMES, (*TYPES, "out")),
    "generate --like": (NAMES, ("generate", "--schema", "schema.ts", "--check", "--out", "out", "--like")),
    "generate --target": (NAMES, ("generate", "--out", "out", "--check", "--target")),
    "import --revision": (NAMES, ("import", "types.ts", "--commit", COMMIT, "--revision")),
    "import --commit": (NAMES, ("import", "types.ts", "--revision", "draft", "--commit")),
    "unpin": (NAMES, ("unpin",)),
    "diff --history": (NAMES, ("diff", "--history")),
    "diff --type": (NAMES, ("diff", REVISION, REVISION, "--type")),
    "diff --only": (NAMES, ("diff", REVISION, REVISION, "--only")),
}
"""What is tried as the last argument of each command."""


@pytest.mark.parametrize("command", COMMANDS)
def test_no_argument_ends_in_a_traceback(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    schema = write_folder(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "full").mkdir()
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    values, arguments = COMMANDS[command]
    refused = 0
    for value in values:
        before = snapshot(schema)
        result = invoke(schema, *arguments, value)
        shown = f"{command} {value!r}: {result.output}"
        assert result.exception is None or isinstance(result.exception, SystemExit), shown
        assert result.exit_code in (0, 1, 2, 3, OUTPUT_FAILED), shown
        if result.exit_code > 1:
            refused += 1
            assert result.stderr.strip(), shown
            assert snapshot(schema) == before, shown
    assert refused, f"{command}: nothing was refused"


def test_a_folder_that_is_gone_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = write_folder(tmp_path)
    gone = tmp_path / "gone"
    gone.mkdir()
    (tmp_path / "types.ts").write_bytes(FILES["types.ts"])
    here = Path.cwd()
    try:
        os.chdir(gone)
        gone.rmdir()
        result = invoke(schema, *TYPES[:3], str(tmp_path / "types.ts"), *TYPES[4:], "out")
    finally:
        os.chdir(here)
    assert result.exit_code == 3
    assert "out: cannot be found: No such file or directory" in result.stderr
