"""Helpers that the tests share: upstream's files, the repo's own inputs, JSON Schema, strict equality.

Upstream's schema.ts, schema.json and examples are not part of the repo. They stand in `../shared/schema`
beside the checkout or in the folder that `MCPREV_UPSTREAM_SCHEMA` names; tests that compare with them are
marked with `needs_upstream` (`pytest -m upstream` selects them) and skipped where there are none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any, Final, cast
from unittest.mock import patch

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from helpers import pinned
from helpers.named import NAMED
from mcprev_codegen import ir
from mcprev_codegen.emit import json_schema as jsonschema
from mcprev_codegen.python.names import module_name
from mcprev_codegen.resolve.schema import Schema
from mcprev_codegen.typescript import reader as typescript

DATED: Final = pinned.DATED
REVISIONS: Final = pinned.REVISIONS
ROOT: Final = pinned.ROOT
SCHEMA: Final = pinned.SCHEMA
FOLDER: Final = pinned.FOLDER
PYTHON_NAMES: Final = pinned.PYTHON_NAMES
load: Final = pinned.load
faithful_definitions: Final = pinned.faithful_definitions
GENERATED: Final = ROOT / "generated" / "mcprev_types"
UPSTREAM: Final = Path(os.environ.get("MCPREV_UPSTREAM_SCHEMA") or ROOT.parent / "shared" / "schema")

FIRST, SECOND, THIRD, FOURTH, FIFTH = NAMED
DRAFT: Final = "draft"

HAS_UPSTREAM: Final = all((UPSTREAM / name / "schema.ts").is_file() for name in DATED)
needs_upstream: Final = pytest.mark.upstream
skip_without_upstream: Final = pytest.mark.skipif(
    not HAS_UPSTREAM,
    reason=f"upstream's schema files are not in {UPSTREAM}; set MCPREV_UPSTREAM_SCHEMA to where they are",
)
each_revision: Final = pytest.mark.parametrize("revision", REVISIONS)
each_dated: Final = pytest.mark.parametrize("revision", DATED)


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = False  # closing waits for them


@contextmanager
def http_server(handler: type[BaseHTTPRequestHandler], **options: Any) -> Iterator[str]:
    """Serve HTTP in a thread, with nothing logged; yields the server's URL. Ends when every request is answered."""
    with (
        patch.object(handler, "log_message"),
        _HttpServer(("127.0.0.1", 0), partial(handler, **options)) as server,
    ):
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


# -- inputs ----------------------------------------------------------------------------------------------


def upstream_path(revision: str) -> Path:
    """Upstream's schema.ts of a revision."""
    return UPSTREAM / revision / "schema.ts"


@cache
def upstream_text(revision: str) -> str:
    """The text of upstream's schema.ts."""
    return upstream_path(revision).read_text(encoding="utf-8")


@cache
def upstream_module(revision: str) -> ir.Module:
    """Upstream's schema.ts, parsed, prose included."""
    return typescript.parse(upstream_text(revision), str(upstream_path(revision)))


@cache
def upstream_definitions(revision: str) -> dict[str, Any]:
    """The definitions of upstream's schema.json, with references spelled `#/$defs/...`."""
    text = (UPSTREAM / revision / "schema.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text.replace("#/definitions/", "#/$defs/"))
    return cast("dict[str, Any]", document.get("$defs") or document["definitions"])


@cache
def shipped_document(revision: str) -> dict[str, Any]:
    """The schema.json in the revision's package."""
    text = (GENERATED / module_name(revision) / "schema.json").read_text(encoding="utf-8")
    return cast("dict[str, Any]", json.loads(text))


def package(revision: str, module: str) -> ModuleType:
    """A module of a revision's generated package, such as `models`."""
    return import_module(f"mcprev_types.{module_name(revision)}.{module}")


def models_of(revision: str) -> Any:
    """The models of a revision; its name once it is gone, by which tests that use them are left out."""
    return package(revision, "models") if revision in REVISIONS else revision


def parse(source: str) -> ir.Module:
    """A piece of TypeScript, parsed."""
    return typescript.parse(source, "schema.ts")


def schema_of(source: str) -> Schema:
    """A piece of TypeScript, parsed and ready to be asked."""
    return Schema(parse(source), "schema.ts", source.split("\n"))


# -- JSON ------------------------------------------------------------------------------------------------


def same(left: object, right: object) -> bool:
    """Whether two JSON values are the same in value *and* kind: 1, 1.0 and true are three things.

    The order of an object's members does not count; the sign of a zero does.
    """
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        mine, theirs = cast("dict[str, object]", left), cast("dict[str, object]", right)
        return mine.keys() == theirs.keys() and all(same(mine[key], theirs[key]) for key in mine)
    if isinstance(left, list):
        ours, others = cast("list[object]", left), cast("list[object]", right)
        return len(ours) == len(others) and all(map(same, ours, others))
    return repr(left) == repr(right)


def validator(definitions: Mapping[str, Any], name: str) -> Draft202012Validator:
    """A JSON Schema validator for one of some definitions."""
    return Draft202012Validator(
        {"$schema": jsonschema.DIALECT, "$ref": f"#/$defs/{name}", "$defs": definitions}
    )


def check_metaschema(document: Mapping[str, Any]) -> None:
    """Raise when a document is no JSON Schema 2020-12."""
    Draft202012Validator.check_schema(document)


def complaints(checker: Draft202012Validator, value: Any) -> list[str]:
    """What a validator has against a value."""
    found: Any = checker
    return [f"{error.json_path}: {error.message}" for error in found.iter_errors(value)]


def walk(value: object) -> Iterator[object]:
    """A JSON value and everything inside it."""
    yield value
    if isinstance(value, dict):
        for item in cast("dict[str, object]", value).values():
            yield from walk(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from walk(item)
