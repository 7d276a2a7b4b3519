"""The text of every generated file: templates filled in, black over it, one header on each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import jinja2
from black import Mode, format_str
from black.mode import TargetVersion

from mcprev_codegen import describe, jsonschema, lineage, models
from mcprev_codegen.docs import Docs
from mcprev_codegen.methods import CLIENT_TO_SERVER, DIRECTIONS, SERVER_TO_CLIENT, Method
from mcprev_codegen.naming import class_name, module_name
from mcprev_codegen.sources import Revision

GENERATOR_VERSION: Final = 1
"""Counted up whenever the same schema gives other files."""
LINE_LENGTH: Final = 110
_TEMPLATES: Final = Path(__file__).with_name("templates")
_SUPPORT: Final = ("_base.py", "_lazy.py", "_spec.py")
_MODULES: Final = ("constants", "deltas", "dispatch", "methods", "models")
_IMPORTS: Final[tuple[Mapping[str, tuple[str, ...]], ...]] = (
    {"typing": ("Annotated", "Any", "Literal", "Optional", "TypeAlias", "Union")},
    {"pydantic": ("MISSING", "Discriminator", "Field", "Tag"), "typing_extensions": ("TypeAliasType",)},
    {
        ".._base": (
            "UNKNOWN", "IntegralFloat", "Model", "Opt", "UnknownContent", "constant", "fallback", "open_tag", "wire",
        )
    },
)  # fmt: skip
"""What a body may use, by group and module."""


@dataclass(frozen=True)
class Neighbours:
    """What the packages of one revision say about the others."""

    chain: Sequence[Revision]
    """The revision and all before it, oldest first."""
    previous: Revision | None
    next: Revision | None


def package_files(revision: Revision, neighbours: Neighbours) -> dict[str, str]:
    """The files of one revision's package, by name within it."""
    return _Package(revision, neighbours).files()


@dataclass(frozen=True)
class _Package:
    revision: Revision
    neighbours: Neighbours

    def files(self) -> dict[str, str]:
        docs = Docs(self.revision, lineage.lives(self.neighbours.chain))
        body = models.generate(self.revision, docs.types())
        texts = {
            "models.py": self.render("models.py", imports=_imports(body), body=body),
            "methods.py": self.render("methods.py", enums=self.enums(docs), methods=self.methods()),
            "constants.py": self.render("constants.py", consts=list(self.revision.schema.consts.values())),
            "dispatch.py": self.dispatch(docs),
            "deltas.py": self.deltas(),
            "__init__.py": self.render(
                "__init__.py",
                doc=f"MCP {self.revision.name}: models, methods, dispatch stubs and constants, imported on first use.",
                dots="..", prefix=".", package="__name__", exports=_exports(self.revision, body),
            ),
        }  # fmt: skip
        texts = {name: format_python(text) for name, text in texts.items()}
        texts["schema.json"] = _json(self.schema())
        texts["meta.json"] = _json(describe.document(self.revision))
        return texts

    def header(self) -> str:
        return header(_source(self.revision))

    def render(self, template: str, **values: object) -> str:
        return (
            _environment()
            .get_template(f"{template}.jinja2")
            .render(header=self.header(), revision=self.revision, **values)
        )

    def methods(self) -> list[Method]:
        return list(self.revision.methods.values())

    def inbound(self, direction: str) -> list[Method]:
        return [m for m in self.methods() if direction in m.directions]

    def enums(self, docs: Docs) -> list[dict[str, Any]]:
        """The method enums: one for each direction and kind that has methods."""
        sides = {CLIENT_TO_SERVER: ("Client", "client"), SERVER_TO_CLIENT: ("Server", "server")}
        found: list[dict[str, Any]] = []
        for direction in DIRECTIONS:
            for kind in ("request", "notification"):
                chosen = [m for m in self.inbound(direction) if m.kind == kind]
                prefix, side = sides[direction]
                entries = [{"stub": m.stub, "method": m.method, "doc": docs.summary(m)} for m in chosen]
                doc = f"The {kind}s that a {side} may send."
                if chosen:
                    found.append({"name": prefix + kind.capitalize(), "doc": doc, "methods": entries})
        return found

    def dispatch(self, docs: Docs) -> str:
        environment = _environment()
        environment.filters["docstring"] = docs.method
        to_server, to_client = self.inbound(CLIENT_TO_SERVER), self.inbound(SERVER_TO_CLIENT)
        handlers = [
            {
                "name": "ServerHandler", "table": "SERVER_BINDINGS", "methods": to_server,
                "doc": "What a server serves: one stub for each message that a client may send.",
                "table_doc": "The stub and types of every method that a server receives.",
            },
            {
                "name": "ClientHandler", "table": "CLIENT_BINDINGS", "methods": to_client,
                "doc": "What a client serves: one stub for each message that a server may send.",
                "table_doc": "The stub and types of every method that a client receives.",
            },
        ]  # fmt: skip
        callers = [
            {
                "name": "ClientCalls", "methods": to_server,
                "doc": "What a client sends: one coroutine for each method that a server serves.",
            },
            {
                "name": "ServerCalls", "methods": [m for m in to_client if m.transport == "jsonrpc"],
                "doc": "What a server sends as messages of its own: one coroutine for each method.",
            },
        ]  # fmt: skip
        return environment.get_template("dispatch.py.jinja2").render(
            header=self.header(), revision=self.revision, handlers=handlers, callers=callers
        )

    def deltas(self) -> str:
        tables: list[dict[str, Any]] = []
        mine = set(self.revision.methods)
        previous, following = self.neighbours.previous, self.neighbours.next
        pairs = [("PREVIOUS", previous), ("NEXT", following)]
        for label, other in pairs:
            if other is None:
                names: dict[str, str] = {}
            elif label == "PREVIOUS":
                names = lineage.pairing(other, self.revision)
            else:
                names = {old: new for new, old in lineage.pairing(self.revision, other).items()}
            tables.append({
                "name": f"TO_{label}",
                "deltas": lineage.deltas(self.revision, other, names) if other else {},
                "doc": f"What the {label.lower()} revision needs changed, by type of this one.",
                "methods_name": f"NOT_IN_{label}",
                "methods": sorted(mine - set(other.methods)) if other else [],
                "methods_doc": f"Methods that the {label.lower()} revision does not have.",
            })  # fmt: skip
        return self.render(
            "deltas.py",
            tables=tables,
            nested=any(delta.children for table in tables for delta in table["deltas"].values()),
            previous=previous.name if previous else None,
            next=following.name if following else None,
        )

    def schema(self) -> jsonschema.Node:
        pin = self.revision.pin
        comment = "; ".join(line.removeprefix("# ") for line in self.header().split("\n"))
        identifier = f"{pin.spec}/schema.json" if pin else self.revision.name
        return jsonschema.document(self.revision.schema, comment, identifier)


def shared_files(revisions: Sequence[Revision], latest: Revision, latest_models: str) -> dict[str, str]:
    """The files beside the packages: support modules, the index and `latest`, given the text of its models."""
    everything = header("every pinned revision")
    package = module_name(latest.name)
    texts = {
        name: f"{everything}\n{(_TEMPLATES / 'support' / name).read_text(encoding='utf-8')}"
        for name in _SUPPORT
    }
    infos = [_info(r) for r in revisions]
    texts["index.py"] = (
        _environment().get_template("index.py.jinja2").render(header=everything, infos=infos, latest=latest)
    )
    init = _environment().get_template("__init__.py.jinja2")
    texts["latest.py"] = init.render(
        header=header(_source(latest)),
        doc="The newest dated revision, under a name that stays.",
        dots=".", prefix=f".{package}.", package=f'"mcprev_types.{package}"',
        exports=_exports(latest, latest_models),
    ).replace(f"from .{package}. import", f"from .{package} import")  # fmt: skip
    texts["__init__.py"] = init.render(
        header=everything,
        doc=(
            "The types of every revision of the Model Context Protocol, one package each.\n\n"
            f"`from mcprev_types.{package} import CallToolResult` takes a type of one revision, `mcprev_types.latest`\n"
            "is the newest dated one, and `REVISIONS` lists them. Importing this imports none of them.\n"
        ),
        dots=".", prefix=".", package="__name__",
        exports={
            "_base": ["Model", "UnknownContent"],
            "_spec": [
                "Binding", "Child", "Direction", "Kind", "MethodNotHandled", "MethodSpec", "RevisionInfo", "Sender",
                "Transport", "TypeDelta",
            ],
            "index": ["LATEST", "REVISIONS"],
        },
    )  # fmt: skip
    return {name: format_python(text) for name, text in texts.items()} | {"py.typed": ""}


def _exports(revision: Revision, models_text: str) -> dict[str, list[str]]:
    """The public names of a package by the module they live in; submodules stand under the empty name."""
    declared = r"^(?:class )?([A-Za-z]+)(?:\(|: TypeAlias = | = TypeAliasType)"
    return {
        "": list(_MODULES),
        "constants": sorted(["REVISION", "ERROR_CODES", *revision.schema.consts]),
        "dispatch": ["ClientCalls", "ClientHandler", "ServerCalls", "ServerHandler"],
        "methods": ["METHODS"],
        "models": sorted(re.findall(declared, models_text, re.MULTILINE)),
    }


def _info(revision: Revision) -> dict[str, Any]:
    pin = revision.pin
    kinds = [m.kind for m in revision.methods.values()]
    return {
        "revision": revision.name,
        "protocol_version": revision.protocol_version,
        "package": module_name(revision.name),
        "status": pin.status if pin else "file",
        "era": revision.era,
        "requests": kinds.count("request"),
        "notifications": kinds.count("notification"),
        "types": len(revision.declared.types),
        "source": pin.location if pin else revision.declared.path,
        "commit": pin.commit if pin else "",
        "sha256": pin.sha256 if pin else "",
        "spec": pin.spec if pin else "",
    }


def _source(revision: Revision) -> str:
    pin = revision.pin
    return f"schema.ts of {revision.name}, sha256 {pin.sha256}" if pin else revision.declared.path


def header(source: str) -> str:
    """The first lines of a generated file."""
    return (
        f"# Generated by mcprev generate (generator {GENERATOR_VERSION}); not edited by hand.\n"
        f"# From {source}."
    )


def format_python(text: str) -> str:
    """Python source as black writes it."""
    return format_str(text, mode=Mode(target_versions={TargetVersion.PY311}, line_length=LINE_LENGTH))


def _imports(body: str) -> str:
    code = re.sub(r'""".*?"""', "", body, flags=re.DOTALL)
    groups: list[str] = []
    for group in _IMPORTS:
        lines: list[str] = []
        for module, names in group.items():
            used = [name for name in names if re.search(rf"\b{name}\b", code)]
            if used:
                lines.append(f"from {module} import {', '.join(used)}")
        groups.append("\n".join(lines))
    return "\n\n".join(group for group in groups if group)


def _params_type(method: Method) -> str:
    if method.params is None:
        return "None"
    return f"models.{class_name(method.params)}" + (" | None" if method.params_optional else "")


def _result_type(method: Method) -> str:
    return " | ".join(f"models.{class_name(name)}" for name in method.results) or "None"


def _literal_source(value: object) -> str:
    """Python source of a plain value; sequences become tuples."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        items = [_literal_source(item) for item in cast("Sequence[object]", value)]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    return repr(value)


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES / "package"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Python, not HTML
    )
    filters: dict[str, Callable[..., str]] = {
        "source": _literal_source,
        "params_type": _params_type,
        "result_type": _result_type,
    }
    environment.filters.update(filters)
    return environment


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
