"""The modules next to the models: tables, stubs, callers, constants, index, and the cost of an import.

Every reference is followed: from a binding to its stub and types, from a method to its enum, from an export to its
module.
"""

from __future__ import annotations

import asyncio
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, fields
from importlib import import_module
from types import ModuleType
from typing import Any, cast

import pytest
from pydantic import TypeAdapter, ValidationError

import mcprev_types
from helpers.corpus import Corpus
from helpers.support import DATED, FIRST, FOLDER, PYTHON_NAMES, REVISIONS, each_revision, load, package
from mcprev_codegen import ir
from mcprev_codegen.inputs.pins import load_pins
from mcprev_codegen.python.names import module_name
from mcprev_types import Direction, Kind, MethodNotHandled, MethodSpec, Model, Transport

NEWEST = f"mcprev_types.{module_name(DATED[-1])}"
MODULES = ("constants", "deltas", "dispatch", "methods", "models")


def methods(revision: str) -> Mapping[str, MethodSpec]:
    return cast("Mapping[str, MethodSpec]", package(revision, "methods").METHODS)


def root(revision: str) -> ModuleType:
    return import_module(f"mcprev_types.{module_name(revision)}")


# -- methods ---------------------------------------------------------------------------------------------


@each_revision
def test_the_method_table_is_the_generators(revision: str) -> None:
    mine, theirs = methods(revision), load(revision).methods
    assert list(mine) == list(theirs)
    for name, spec in mine.items():
        for member in fields(spec):
            assert getattr(spec, member.name) == getattr(theirs[name], member.name), (name, member.name)


@each_revision
def test_the_method_table_is_read_only_and_typed(revision: str) -> None:
    table: Any = methods(revision)
    with pytest.raises(TypeError):
        table["x"] = None
    for spec in table.values():
        assert isinstance(spec.kind, Kind)
        assert isinstance(spec.transport, Transport)
        assert all(isinstance(d, Direction) for d in spec.directions)
        with pytest.raises(FrozenInstanceError):
            spec.method = "x"


@each_revision
def test_every_type_a_method_names_exists(revision: str) -> None:
    models = package(revision, "models")
    for spec in methods(revision).values():
        for name in filter(None, (spec.type, spec.params, spec.result, *spec.alternate_results)):
            assert getattr(models, PYTHON_NAMES.class_name(name)) is not None


@each_revision
def test_the_enums_list_the_methods_by_direction_and_kind(revision: str) -> None:
    module = package(revision, "methods")
    sides = {"Client": Direction.CLIENT_TO_SERVER, "Server": Direction.SERVER_TO_CLIENT}
    for side, direction in sides.items():
        for kind in Kind:
            wanted = {
                s.method for s in methods(revision).values() if direction in s.directions and s.kind == kind
            }
            enum: Any = getattr(module, side + kind.capitalize(), ())
            assert {str(member) for member in enum} == wanted
            for member in enum:
                assert member.name == methods(revision)[member].attr.upper()
                assert methods(revision)[member].method == member


# -- stubs -----------------------------------------------------------------------------------------------


def handlers(revision: str) -> list[tuple[Any, Any, Direction]]:
    dispatch = package(revision, "dispatch")
    return [
        (dispatch.ServerHandler, dispatch.SERVER_BINDINGS, Direction.CLIENT_TO_SERVER),
        (dispatch.ClientHandler, dispatch.CLIENT_BINDINGS, Direction.SERVER_TO_CLIENT),
    ]


def public(cls: type) -> set[str]:
    """What a class itself offers."""
    return {name for name in vars(cls) if not name.startswith("_")}


@each_revision
def test_every_inbound_method_is_bound_to_a_stub_and_types_that_exist(revision: str) -> None:
    models = package(revision, "models")
    for handler, bindings, direction in handlers(revision):
        assert set(bindings) == {s.method for s in methods(revision).values() if direction in s.directions}
        for method, binding in bindings.items():
            spec = methods(revision)[method]
            assert binding.stub == spec.attr
            assert inspect.iscoroutinefunction(getattr(handler, binding.stub))
            assert binding.params == spec.params
            assert binding.results == (() if spec.result is None else (spec.result, *spec.alternate_results))
            for name in (binding.params, *binding.results):
                assert hasattr(models, PYTHON_NAMES.class_name(name))


@each_revision
def test_a_handler_has_no_stub_but_the_bound_ones(revision: str) -> None:
    for handler, bindings, _ in handlers(revision):
        assert public(handler) == {binding.stub for binding in bindings.values()}


@each_revision
def test_a_stub_that_nobody_overrides_says_that_it_is_not_handled(revision: str) -> None:
    for handler, bindings, _ in handlers(revision):
        for method, binding in bindings.items():
            with pytest.raises(MethodNotHandled) as caught:
                asyncio.run(getattr(handler(), binding.stub)(None, None))
            assert (caught.value.method, caught.value.revision) == (method, revision)
            assert method in str(caught.value)


def written(revision: str, *names: str) -> str:
    return " | ".join(f"models.{PYTHON_NAMES.class_name(name)}" for name in names) or "None"


@each_revision
def test_a_stub_is_annotated_with_its_types(revision: str) -> None:
    for handler, bindings, _ in handlers(revision):
        for method, binding in bindings.items():
            spec = methods(revision)[method]
            signature = inspect.signature(getattr(handler, binding.stub))
            assert list(signature.parameters) == ["self", "ctx", "params"]
            optional = " | None" if spec.params_optional else ""
            assert (
                signature.parameters["params"].annotation == written(revision, spec.params or "") + optional
            )
            assert signature.return_annotation == written(revision, *binding.results)


@each_revision
def test_a_stub_says_its_method_capability_and_page(revision: str) -> None:
    for handler, bindings, _ in handlers(revision):
        for method, binding in bindings.items():
            doc = inspect.getdoc(getattr(handler, binding.stub)) or ""
            assert f"`{method}`" in doc
            assert f"https://modelcontextprotocol.io/specification/{revision}" in doc
            capability = methods(revision)[method].capability
            assert not capability or f"`{capability}`" in doc.replace("\n", " ")


# -- callers ---------------------------------------------------------------------------------------------


class Recorder:
    """A connection that answers with what it is told to and remembers what it was asked."""

    def __init__(self) -> None:
        self.sent: list[tuple[MethodSpec, object]] = []
        self.answer: object = object()

    async def send(self, method: MethodSpec, params: object | None, /) -> object:
        self.sent.append((method, params))
        return self.answer


@each_revision
def test_a_caller_sends_the_right_method_and_returns_the_answer(revision: str) -> None:
    dispatch = package(revision, "dispatch")
    models = package(revision, "models")
    sides = {
        dispatch.ClientCalls: Direction.CLIENT_TO_SERVER,
        dispatch.ServerCalls: Direction.SERVER_TO_CLIENT,
    }
    for caller, direction in sides.items():
        wanted = {
            s.attr: s
            for s in methods(revision).values()
            if direction in s.directions and s.transport is Transport.JSONRPC
        }
        assert public(caller) == wanted.keys()
        for attr, spec in wanted.items():
            assert spec.params is not None
            recorder = Recorder()
            message = Corpus(load(revision)).sample(ir.Ref(spec.params), full=False)
            params = TypeAdapter(getattr(models, PYTHON_NAMES.class_name(spec.params))).validate_python(
                message
            )
            answer = asyncio.run(getattr(caller(recorder), attr)(params))
            assert recorder.sent == [(spec, params)]
            assert answer is (recorder.answer if spec.kind is Kind.REQUEST else None)
            assert recorder.sent[0][0] is spec


@each_revision
def test_params_may_be_left_out_where_a_message_may_come_without(revision: str) -> None:
    """Also where the schema wants params that a caller has nothing to say in: whoever sends fills them in."""
    dispatch, models = package(revision, "dispatch"), package(revision, "models")
    for caller in (dispatch.ClientCalls, dispatch.ServerCalls):
        for attr in public(caller):
            spec = next(s for s in methods(revision).values() if s.attr == attr)
            parameter = inspect.signature(getattr(caller, attr)).parameters["params"]
            may_be_left_out = spec.params_optional or is_made_of_nothing(models, str(spec.params))
            assert (parameter.default is None) == may_be_left_out
            if may_be_left_out:
                recorder = Recorder()
                asyncio.run(getattr(caller(recorder), attr)())
                assert recorder.sent == [(spec, None)]


def is_made_of_nothing(models: Any, params: str) -> bool:
    """Whether a model of params needs no member from its caller."""
    model: Any = getattr(models, PYTHON_NAMES.class_name(params))
    try:
        model() if isinstance(model, type) else TypeAdapter(model).validate_python({})
    except ValidationError:
        return False
    return True


# -- constants, index, latest ----------------------------------------------------------------------------


@each_revision
def test_constants_are_the_schemas(revision: str) -> None:
    module = package(revision, "constants")
    assert revision == module.REVISION
    for name, const in load(revision).declared.consts.items():
        assert getattr(module, name) == const.value
        assert type(getattr(module, name)) is type(const.value)
    codes = {c.value: n for n, c in load(revision).declared.consts.items() if isinstance(c.value, int)}
    assert dict(module.ERROR_CODES) == codes
    with pytest.raises(TypeError):
        module.ERROR_CODES[1] = "X"


def test_error_codes_are_the_numbers_of_json_rpc() -> None:
    for revision in REVISIONS:
        codes = {name: code for code, name in package(revision, "constants").ERROR_CODES.items()}
        assert codes["PARSE_ERROR"] == -32700
        assert codes["INVALID_REQUEST"] == -32600
        assert codes["METHOD_NOT_FOUND"] == -32601
        assert codes["INVALID_PARAMS"] == -32602
        assert codes["INTERNAL_ERROR"] == -32603


def test_the_index_lists_every_package_with_its_pin() -> None:
    assert tuple(mcprev_types.REVISIONS) == REVISIONS
    assert DATED[-1] == mcprev_types.LATEST
    for name, info in mcprev_types.REVISIONS.items():
        current, pin = load(name), load_pins_of(name)
        assert (info.revision, info.package) == (name, module_name(name))
        assert (info.status, info.sha256, info.commit, info.source, info.spec) == (
            pin.status, pin.sha256, pin.commit, pin.location, pin.spec,
        )  # fmt: skip
        assert (info.era, info.protocol_version) == (current.era, current.protocol_version)
        kinds = [str(m.kind) for m in current.methods.values()]
        assert (info.requests, info.notifications) == (kinds.count("request"), kinds.count("notification"))
        assert info.types == len(current.declared.types)
        assert import_module(f"mcprev_types.{info.package}").METHODS
    table: Any = mcprev_types.REVISIONS
    with pytest.raises(TypeError):
        table["x"] = None


def load_pins_of(revision: str) -> Any:
    return load_pins(FOLDER)[revision]


def test_latest_is_the_newest_dated_revision() -> None:
    from mcprev_types import latest

    newest = root(DATED[-1])
    assert latest.CallToolResult is newest.CallToolResult
    assert latest.models is package(DATED[-1], "models")
    assert latest.METHODS is package(DATED[-1], "methods").METHODS
    assert dir(latest) == dir(newest)


@each_revision
def test_a_package_offers_every_type_constant_and_module(revision: str) -> None:
    module = root(revision)
    offered = set(dir(module))
    names = {PYTHON_NAMES.class_name(name) for name in load(revision).schema.types}
    expected = {
        *names,
        *load(revision).declared.consts,
        *MODULES,
        "METHODS",
        "ServerHandler",
        "ClientHandler",
    }
    assert expected <= offered
    for name in offered - {"__path__"}:
        if not name.startswith("__"):
            assert getattr(module, name) is not None
    models = package(revision, "models")
    for name in names:
        assert getattr(module, name) is getattr(models, name)


@each_revision
def test_a_star_import_gives_what_the_package_offers_and_no_more(revision: str) -> None:
    for module in (root(revision), package(revision, "models")):
        found: dict[str, object] = {}
        exec(f"from {module.__name__} import *", found)  # noqa: S102 - a module of our own
        assert found.keys() - {"__builtins__"} == set(dir(module))
        assert {"Tool", "UnknownContent"} <= found.keys()


@each_revision
def test_no_model_is_left_out(revision: str) -> None:
    models = package(revision, "models")
    defined: set[str] = set()
    for section in pkgutil.iter_modules(models.__path__, f"{models.__name__}."):
        found = vars(import_module(section.name))
        defined |= {
            name
            for name, value in found.items()
            if isinstance(value, type) and issubclass(value, Model) and value.__module__ == section.name
        }
    assert len(defined) > 50
    assert defined == defined & set(dir(root(revision))) & set(dir(models))


@pytest.mark.parametrize("name", ["Nothing", "models_", "_x", "callToolResult", "__wrapped__"])
def test_an_unknown_name_is_an_attribute_error_that_names_the_package(name: str) -> None:
    from mcprev_types import latest

    for module in (mcprev_types, root(DATED[0]), latest):
        with pytest.raises(AttributeError, match=name):
            getattr(module, name)
    with pytest.raises(ImportError):
        exec(  # noqa: S102 - a table of names of our own
            f"from mcprev_types.{module_name(DATED[0])} import {name}", {}
        )


def test_the_one_renamed_type_has_its_python_name() -> None:
    module = root(FIRST)
    assert module.AnnotatedModel.__name__ == "AnnotatedModel"
    assert not hasattr(module, "Annotated")


# -- what an import costs --------------------------------------------------------------------------------


def imported(code: str) -> set[str]:
    """The modules that are loaded after running some code in an interpreter of its own."""
    probe = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    command = [sys.executable, "-W", "error", "-c", probe]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import mcprev_types",
        "from mcprev_types import REVISIONS, MethodSpec, Sender, MethodNotHandled",
        f"import {NEWEST}",
        f"from {NEWEST} import METHODS, constants, PARSE_ERROR, deltas, methods",
        f"from {NEWEST} import ServerHandler, ClientCalls",
        "from mcprev_types import latest",
        "from mcprev_types import index",
    ],
)
def test_an_import_brings_in_no_models_and_not_pydantic(code: str) -> None:
    found = imported(code)
    assert not {
        name for name in found if name.split(".")[0] in ("pydantic", "pydantic_core", "typing_extensions")
    }
    assert not {name for name in found if ".models." in name}
    assert not {name for name in found if name.startswith("mcprev_codegen") or name == "mcprev"}


def test_models_bring_in_only_their_own_revision() -> None:
    found = imported(f"from {NEWEST} import CallToolResult")
    revisions = {name for name in found if name.startswith("mcprev_types.v") or name == "mcprev_types.draft"}
    assert all(name.startswith(NEWEST) for name in revisions)


@pytest.mark.slow
def test_generated_code_does_not_need_the_generator_or_the_runtime() -> None:
    code = "import sys\nsys.modules['mcprev_codegen'] = None\nsys.modules['mcprev'] = None\n"
    code += "\n".join(f"import mcprev_types.{module_name(r)}.{m}" for r in REVISIONS for m in MODULES)
    code += "\n".join(f"\nfrom mcprev_types.{module_name(r)}.models import *" for r in REVISIONS)
    assert f"mcprev_types.{module_name(DATED[0])}.models.tools_list" in imported(code)
