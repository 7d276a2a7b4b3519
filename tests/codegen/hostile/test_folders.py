"""Schema folders of others: their files end in an error that says where, and nothing is written through their links."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

import pytest

from helpers.mini import COMMIT, REVISION, snapshot, write_folder, write_source
from mcprev_codegen.build import packages as pipeline
from mcprev_codegen.checkout.pinning import import_schema
from mcprev_codegen.diff.report.ignoring import read_ignores
from mcprev_codegen.errors import CodegenError, InputError
from mcprev_codegen.inputs import SchemaFolder
from mcprev_codegen.inputs.folder import PINS
from mcprev_codegen.inputs.pins import load_pins, remove_pin

DEEP: Final = "a = " + "[" * 5_000
UNREADABLE: Final = [
    b"\xff", b"a", DEEP.encode(), b"a." * 50_000 + b"a = 1", b"#" * 4_100_000, b"a = " + b"9" * 5_000,
]  # fmt: skip


def entry(**values: str) -> str:
    given = {"pointer": '"Thing.size"', "expected": '"size?: number"', "new": '"size?: string"', "why": '"x"'}
    return "[[entry]]\n" + "".join(f"{name} = {value}\n" for name, value in (given | values).items())


def default(value: str) -> str:
    return entry(pointer='"Thing.name#default"', expected='"string"', new=value)


OVERLAYS: Final = [
    "[[ entry ]]", "entry = [{}]", "entry = 5", "entry = {}", "[[entry]]\n[[ entry ]]", *(
        entry(**{name: value}) for name in ("since", "pointer", "pointers", "why", "new") for value in ("5", "[5]", "{}")
    ),
    *(default(value) for value in ("inf", "[nan]", "2020-01-01", "[{ a = 10:00:00 }]")),
    *(entry(pointer=f'"{place}"', new="5") for place in ("things/get#capability", "things/get#alternate", "Thing#was")),
    *(entry(pointer='"ClientRequest"', expected='"GetThingRequest"', new=f'"{new}"') for new in ("ClientRequest", "ClientRequest | ClientRequest")),
    entry(new='"' + "Array<" * 300 + "string" + ">" * 300 + '"'),
]  # fmt: skip
DESCRIPTIONS: Final = [
    *(f"{name} = {value}" for name in ("types", "fields", "constants", "revisions") for value in ("5", "{ Thing = 5 }", "[]")),
    "types.Thing.doc = 5", "types.Thing.fields = 5", "types.Thing.fields.name = 5",
    f'revisions."{REVISION}" = 5', f'revisions."{REVISION}".types.Thing.doc = [5]',
]  # fmt: skip
PINS_: Final = [f'"{REVISION}" = 5', "x = 1", f'["{REVISION}"]\nstatus = 5']
FILES: Final = [
    ("overlay.toml", [t.encode() for t in OVERLAYS] + UNREADABLE),
    ("descriptions.toml", [t.encode() for t in DESCRIPTIONS] + UNREADABLE),
    (PINS, [t.encode() for t in PINS_] + UNREADABLE),
]


@pytest.mark.parametrize(
    ("name", "data"), [pytest.param(f, t, id=f"{f}-{n}") for f, found in FILES for n, t in enumerate(found)]
)
def test_a_file_with_anything_in_it_is_an_error_that_names_a_file(
    tmp_path: Path, name: str, data: bytes
) -> None:
    folder = write_folder(tmp_path)
    (folder / name).write_bytes(data)
    with pytest.raises(CodegenError, match=r"\.toml|schema\.ts"):
        pipeline.generate(SchemaFolder(folder), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("data", UNREADABLE)
def test_an_ignore_file_too(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "ignore.toml"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"ignore\.toml"):
        read_ignores(path)


def test_lines_may_end_as_on_windows_and_a_default_may_be_any_value_of_json(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    text = default('{ a = [1, 2.5, true, "x"] }')
    (folder / "overlay.toml").write_bytes(text.replace("\n", "\r\n").encode())
    result = pipeline.generate(SchemaFolder(folder), tmp_path / "out", write=False)
    assert any("{'a': [1, 2.5, True, 'x']}" in file.replace('"', "'") for file in result.files.values())


# -- pins ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "location", ["\x7f", '"]\n[x]\n', "\r", "\u2028\ufeff\U000e0001", "\x1b[2J", "\ud800"]
)
def test_a_location_that_is_no_line_of_text_is_refused(tmp_path: Path, location: str) -> None:
    folder, source = write_folder(tmp_path), str(write_source(tmp_path))
    before = snapshot(folder)
    with pytest.raises(InputError, match="--location"):
        import_schema(SchemaFolder(folder), source, REVISION, commit=COMMIT, location=location)
    assert snapshot(folder) == before


@pytest.mark.parametrize("location", ['https://é.example/"]#\\x{}?a=b', "'''", "*/ export const X = 1;"])
def test_a_location_is_written_as_it_is(tmp_path: Path, location: str) -> None:
    folder, source = write_folder(tmp_path), str(write_source(tmp_path))
    import_schema(SchemaFolder(folder), source, REVISION, commit=COMMIT, location=location)
    assert load_pins(SchemaFolder(folder))[REVISION].location == location
    assert set(tomllib.loads((folder / PINS).read_text(encoding="utf-8"))) == {REVISION}


def test_a_pin_with_any_text_is_kept_as_it_is(tmp_path: Path) -> None:
    folder, text = write_folder(tmp_path), "".join(map(chr, range(0x100))) + "\u2028\ufeff\U000e0001"
    pins = folder / PINS
    pins.write_text(
        pins.read_text(encoding="utf-8").replace(COMMIT, "".join(f"\\U{ord(c):08x}" for c in text)),
        encoding="utf-8",
    )
    import_schema(SchemaFolder(folder), str(write_source(tmp_path)), "draft", commit=COMMIT)
    found = load_pins(SchemaFolder(folder))[REVISION]
    assert text in (found.location, found.commit)
    assert pins.read_text(encoding="utf-8").replace("\n", "").isprintable()


@pytest.mark.parametrize("link", [PINS, REVISION, f"{REVISION}/schema.ts"])
@pytest.mark.parametrize("exists", [True, False])
def test_nothing_is_imported_or_deleted_through_a_link(tmp_path: Path, link: str, exists: bool) -> None:
    folder, away = write_folder(tmp_path), tmp_path / "away"
    source = str(write_source(tmp_path).rename(tmp_path / "new.ts"))
    (folder / link).rename(away)
    (folder / link).symlink_to(away if exists else tmp_path / "gone")
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match="this is a symbolic link"):
        import_schema(SchemaFolder(folder), source, REVISION, commit="f" * 40, repin=True)
    if link == REVISION:
        with pytest.raises(InputError, match="this is a symbolic link"):
            remove_pin(SchemaFolder(folder), REVISION)
    assert snapshot(tmp_path) == before


def test_a_new_pin_replaces_the_file_at_once(tmp_path: Path) -> None:
    folder, away = write_folder(tmp_path), tmp_path / "away"
    away.write_text("theirs", encoding="utf-8")
    (folder / f".{PINS}.new").symlink_to(away)
    import_schema(SchemaFolder(folder), str(write_source(tmp_path)), "draft", commit=COMMIT)
    assert away.read_text(encoding="utf-8") == "theirs"
    assert [*load_pins(SchemaFolder(folder))] == [REVISION, "draft"]
    assert not [*folder.rglob(".*")]


@pytest.mark.parametrize(
    ("first", "second"), [("a-b", "a.b"), ("v2099-01-01", None), ("Draft", "draft"), ("v1", "1"), ("V1", "1")]
)
def test_two_revisions_never_have_one_module(tmp_path: Path, first: str, second: str | None) -> None:
    folder = write_folder(tmp_path)
    pins = (folder / PINS).read_text(encoding="utf-8")
    block = pins[pins.index("[") :]
    added = [block.replace(REVISION, name, 1) for name in (first, second) if name]
    (folder / PINS).write_text("\n".join([pins, *added]), encoding="utf-8")
    with pytest.raises(InputError, match="modules of the same name"):
        pipeline.generate(SchemaFolder(folder), tmp_path / "out")


def test_a_revision_with_the_module_of_another_is_not_imported(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    before = snapshot(folder)
    with pytest.raises(InputError, match="modules of the same name"):
        import_schema(SchemaFolder(folder), str(write_source(tmp_path)), f"v{REVISION}", commit=COMMIT)
    assert snapshot(folder) == before
