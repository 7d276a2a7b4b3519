"""The method table of every revision: direction, params, capability and results of each method.

The expected rows are written by hand from the specification. `>` is client to server, `<` server to client, `=` both;
`?` after the params means that a message may be sent without them.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from helpers.support import (
    DATED,
    DRAFT,
    FIFTH,
    FIRST,
    FOURTH,
    REVISIONS,
    SECOND,
    THIRD,
    each_revision,
    load,
    schema_of,
)
from mcprev_codegen import ir
from mcprev_codegen.errors import SchemaError
from mcprev_codegen.facts import overlay
from mcprev_codegen.facts.methods import Method, check_methods, method_table
from mcprev_codegen.facts.overlay import OverlayFacts
from mcprev_codegen.facts.overlay_file import OverlayEntry, Problems
from mcprev_codegen.facts.vocabulary import Side
from mcprev_codegen.inputs import Table
from mcprev_codegen.resolve.inline_objects import hoist
from mcprev_codegen.resolve.schema import Schema
from mcprev_codegen.typescript.reader import parse

Row = tuple[str, str, str, str]
"""Direction, params, results, capability."""

FIRST_TABLE: Final[dict[str, Row]] = {
    "initialize": (">", "InitializeRequestParams", "InitializeResult", ""),
    "ping": ("=", "RequestParams?", "EmptyResult", ""),
    "resources/list": (">", "PaginatedRequestParams?", "ListResourcesResult", "resources"),
    "resources/templates/list": (">", "PaginatedRequestParams?", "ListResourceTemplatesResult", "resources"),
    "resources/read": (">", "ReadResourceRequestParams", "ReadResourceResult", "resources"),
    "resources/subscribe": (">", "SubscribeRequestParams", "EmptyResult", "resources.subscribe"),
    "resources/unsubscribe": (">", "UnsubscribeRequestParams", "EmptyResult", "resources.subscribe"),
    "prompts/list": (">", "PaginatedRequestParams?", "ListPromptsResult", "prompts"),
    "prompts/get": (">", "GetPromptRequestParams", "GetPromptResult", "prompts"),
    "tools/list": (">", "PaginatedRequestParams?", "ListToolsResult", "tools"),
    "tools/call": (">", "CallToolRequestParams", "CallToolResult", "tools"),
    "logging/setLevel": (">", "SetLevelRequestParams", "EmptyResult", "logging"),
    "completion/complete": (">", "CompleteRequestParams", "CompleteResult", ""),
    "sampling/createMessage": ("<", "CreateMessageRequestParams", "CreateMessageResult", "sampling"),
    "roots/list": ("<", "RequestParams?", "ListRootsResult", "roots"),
    "notifications/cancelled": ("=", "CancelledNotificationParams", "", ""),
    "notifications/progress": ("=", "ProgressNotificationParams", "", ""),
    "notifications/initialized": (">", "NotificationParams?", "", ""),
    "notifications/roots/list_changed": (">", "NotificationParams?", "", "roots.listChanged"),
    "notifications/message": ("<", "LoggingMessageNotificationParams", "", "logging"),
    "notifications/resources/updated": ("<", "ResourceUpdatedNotificationParams", "", "resources.subscribe"),
    "notifications/resources/list_changed": ("<", "NotificationParams?", "", "resources.listChanged"),
    "notifications/tools/list_changed": ("<", "NotificationParams?", "", "tools.listChanged"),
    "notifications/prompts/list_changed": ("<", "NotificationParams?", "", "prompts.listChanged"),
}
SECOND_TABLE: Final = FIRST_TABLE | {
    "completion/complete": (">", "CompleteRequestParams", "CompleteResult", "completions"),
}
THIRD_TABLE: Final = SECOND_TABLE | {
    "elicitation/create": ("<", "ElicitRequestParams", "ElicitResult", "elicitation"),
}
FOURTH_TABLE: Final = THIRD_TABLE | {
    "tools/call": (">", "CallToolRequestParams", "CallToolResult | CreateTaskResult", "tools"),
    "sampling/createMessage": (
        "<", "CreateMessageRequestParams", "CreateMessageResult | CreateTaskResult", "sampling",
    ),
    "elicitation/create": ("<", "ElicitRequestParams", "ElicitResult | CreateTaskResult", "elicitation"),
    "tasks/get": ("=", "GetTaskRequestParams", "GetTaskResult", "tasks"),
    "tasks/result": ("=", "GetTaskPayloadRequestParams", "GetTaskPayloadResult", "tasks"),
    "tasks/cancel": ("=", "CancelTaskRequestParams", "CancelTaskResult", "tasks.cancel"),
    "tasks/list": ("=", "PaginatedRequestParams?", "ListTasksResult", "tasks.list"),
    "notifications/tasks/status": ("=", "TaskStatusNotificationParams", "", "tasks"),
    "notifications/elicitation/complete": ("<", "ElicitationCompleteNotificationParams", "", ""),
}  # fmt: skip
FIFTH_TABLE: Final[dict[str, Row]] = {
    "server/discover": (">", "RequestParams", "DiscoverResult", ""),
    "subscriptions/listen": (">", "SubscriptionsListenRequestParams", "SubscriptionsListenResult", ""),
    "resources/list": (">", "PaginatedRequestParams", "ListResourcesResult", "resources"),
    "resources/templates/list": (">", "PaginatedRequestParams", "ListResourceTemplatesResult", "resources"),
    "resources/read": (
        ">",
        "ReadResourceRequestParams",
        "ReadResourceResult | InputRequiredResult",
        "resources",
    ),
    "prompts/list": (">", "PaginatedRequestParams", "ListPromptsResult", "prompts"),
    "prompts/get": (">", "GetPromptRequestParams", "GetPromptResult | InputRequiredResult", "prompts"),
    "tools/list": (">", "PaginatedRequestParams", "ListToolsResult", "tools"),
    "tools/call": (">", "CallToolRequestParams", "CallToolResult | InputRequiredResult", "tools"),
    "completion/complete": (">", "CompleteRequestParams", "CompleteResult", "completions"),
    "sampling/createMessage": ("<", "CreateMessageRequestParams", "CreateMessageResult", "sampling"),
    "roots/list": ("<", "ListRootsRequestParams?", "ListRootsResult", "roots"),
    "elicitation/create": ("<", "ElicitRequestParams", "ElicitResult", "elicitation"),
    "notifications/cancelled": ("=", "CancelledNotificationParams", "", ""),
    "notifications/progress": ("<", "ProgressNotificationParams", "", ""),
    "notifications/message": ("<", "LoggingMessageNotificationParams", "", "logging"),
    "notifications/subscriptions/acknowledged": ("<", "SubscriptionsAcknowledgedNotificationParams", "", ""),
    "notifications/resources/updated": ("<", "ResourceUpdatedNotificationParams", "", "resources.subscribe"),
    "notifications/resources/list_changed": ("<", "NotificationParams?", "", "resources.listChanged"),
    "notifications/tools/list_changed": ("<", "NotificationParams?", "", "tools.listChanged"),
    "notifications/prompts/list_changed": ("<", "NotificationParams?", "", "prompts.listChanged"),
}
TABLES: Final = {
    FIRST: FIRST_TABLE, SECOND: SECOND_TABLE, THIRD: THIRD_TABLE, FOURTH: FOURTH_TABLE, FIFTH: FIFTH_TABLE,
}  # fmt: skip
ARROWS: Final[dict[tuple[str, ...], str]] = {("client",): ">", ("server",): "<", ("client", "server"): "="}


def row(m: Method) -> Row:
    params = (m.params or "") + ("?" if m.params_optional else "")
    return ARROWS[m.senders], params, " | ".join(m.results), m.capability or ""


@pytest.mark.parametrize(("revision", "table"), TABLES.items())
def test_the_method_table(revision: str, table: dict[str, Row]) -> None:
    assert {name: row(m) for name, m in load(revision).methods.items()} == table


@each_revision
def test_only_requests_have_results_and_only_their_names_say_otherwise(revision: str) -> None:
    for name, m in load(revision).methods.items():
        assert m.method == name
        assert m.kind == ("notification" if name.startswith("notifications/") else "request")
        assert bool(m.results) == (m.kind == "request")


@each_revision
def test_which_requests_travel_inside_results(revision: str) -> None:
    embedded = {name for name, m in load(revision).methods.items() if m.transport == "embedded"}
    inside = {"sampling/createMessage", "roots/list", "elicitation/create"}
    assert embedded == (inside if "InputRequest" in load(revision).schema.types else set())


@pytest.mark.parametrize("revision", [name for name in DATED if load(name).era == "handshake"])
def test_only_four_requests_have_an_empty_result(revision: str) -> None:
    empty = {name for name, m in load(revision).methods.items() if m.result_source == "empty"}
    assert empty == {"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}


@each_revision
def test_a_result_is_in_the_result_union_of_its_direction(revision: str) -> None:
    """All but the alternate that the overlay adds, which upstream names in no union."""
    current = load(revision)
    for m in current.methods.values():
        if m.kind == "notification":
            continue
        if m.transport == "embedded":
            unions = ["InputResponse"]
        else:
            unions = [{"client": "ServerResult", "server": "ClientResult"}[side] for side in m.senders]
        for union in unions:
            decl = current.declared.types[union]
            names = set(ir.references(decl))
            assert names >= {r for r in m.results if r != "CreateTaskResult"}, (m.method, union)


FLAGS: Final = {
    "paginated": ("resources/list", "resources/templates/list", "prompts/list", "tools/list", "tasks/list"),
    "task_augmented": ("tools/call", "sampling/createMessage", "elicitation/create"),
    "cacheable": (
        "server/discover", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "tools/list",
    ),
    "input_responses": ("resources/read", "prompts/get", "tools/call"),
    "deprecated": ("notifications/message", "sampling/createMessage", "roots/list"),
}  # fmt: skip
SETTLED: Final = (FIRST, SECOND, THIRD, FOURTH, FIFTH)
"""The revisions whose contracts do not change any more."""
IN: Final = {
    "paginated": SETTLED,
    "task_augmented": (FOURTH,),
    "cacheable": (FIFTH,),
    "input_responses": (FIFTH,),
    "deprecated": (FIFTH,),
}


@pytest.mark.parametrize("revision", SETTLED)
@pytest.mark.parametrize("flag", FLAGS)
def test_what_else_is_known_of_a_method(revision: str, flag: str) -> None:
    methods = load(revision).methods
    expected = {name for name in FLAGS[flag] if name in methods} if revision in IN[flag] else set[str]()
    assert {name for name, m in methods.items() if getattr(m, flag)} == expected


@pytest.mark.parametrize("revision", SETTLED)
def test_which_parameter_a_header_repeats(revision: str) -> None:
    found = {name: m.name_param for name, m in load(revision).methods.items() if m.name_param}
    expected = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
    assert found == (expected if revision == FIFTH else {})


@each_revision
def test_stubs_are_unique_in_each_direction_and_follow_from_the_message(revision: str) -> None:
    for side in Side:
        stubs = [m.attr for m in load(revision).methods.values() if side in m.senders]
        assert len(set(stubs)) == len(stubs)
        assert all(stub.isidentifier() and stub == stub.lower() for stub in stubs)


@each_revision
def test_a_method_that_starts_a_session_makes_the_handshake_era(revision: str) -> None:
    assert load(revision).era == ("handshake" if revision in (FIRST, SECOND, THIRD, FOURTH) else "stateless")


def test_the_draft_says_the_revision_it_grew_from() -> None:
    assert [load(revision).protocol_version for revision in REVISIONS] == [
        *DATED,
        load(DRAFT).protocol_version,
    ]


SENDERS: Final = {
    (FIRST, "CallToolResult"): {"server"},
    (FIRST, "CallToolRequestParams"): {"client"},
    (FIRST, "CreateMessageResult"): {"client"},
    (FIRST, "Tool"): {"server"},
    (FIRST, "Root"): {"client"},
    (FIRST, "TextContent"): {"client", "server"},
    (FIRST, "Implementation"): {"client", "server"},
    (FIRST, "ServerCapabilities"): {"server"},
    (FIRST, "ClientCapabilities"): {"client"},
    (FIRST, "JSONRPCRequest"): {"client", "server"},
    (FOURTH, "CreateTaskResult"): {"client", "server"},
    (FOURTH, "RelatedTaskMetadata"): set[str](),
    (FIFTH, "JSONRPCRequest"): {"client"},
    (FIFTH, "InputRequiredResult"): {"server"},
    (FIFTH, "CreateMessageRequest"): {"server"},
    (FIFTH, "CreateMessageResult"): {"client"},
    (FIFTH, "ElicitResult"): {"client"},
    (FIFTH, "ProgressNotification"): {"server"},
    (FIFTH, "RequestMetaObject"): {"client"},
}


@pytest.mark.parametrize(("place", "senders"), SENDERS.items())
def test_who_sends_a_type(place: tuple[str, str], senders: set[str]) -> None:
    assert load(place[0]).senders[place[1]] == senders


@each_revision
def test_everything_has_a_known_sender_set(revision: str) -> None:
    current = load(revision)
    assert current.senders.keys() == current.schema.types.keys()
    for m in current.methods.values():
        assert current.senders[m.type] >= {*m.senders}
        back = {"client": "server", "server": "client"}
        for result in m.results:
            assert current.senders[result] >= {back[side] for side in m.senders}


# -- tables that do not add up ---------------------------------------------------------------------------

BASE: Final = """\
export type ClientRequest = GetRequest;
export interface GetRequest { method: "things/get"; params: { name: string } }
export interface GetResult { a: string }
export type ServerResult = GetResult | EmptyResult;
export interface EmptyResult { b?: string }
export interface ServerCapabilities { things?: { sub?: object } }
"""


def table(source: str, facts: OverlayFacts | None = None) -> dict[str, Method]:
    schema, known = hoist(schema_of(source)), facts or OverlayFacts()
    found = method_table(schema, known, Problems(FIRST))
    check_methods(schema, known, found)
    return found


def test_a_small_table() -> None:
    (m,) = table(BASE).values()
    assert row(m) == (">", "GetRequestParams", "GetResult", "things")
    assert (m.attr, m.result_source) == ("get", "naming")


def test_a_union_of_that_name_without_a_method_is_none_of_messages() -> None:
    """So in other protocols."""
    assert not table(BASE.replace('method: "things/get"', "method: string"))


def test_a_response_type_decides_the_results() -> None:
    response = "export interface GetResultResponse { result: EmptyResult | GetResult }\n"
    (m,) = table(response + BASE).values()
    assert (m.results, m.result_source) == (("EmptyResult", "GetResult"), "response")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (BASE.replace("= GetRequest", "= GetRequest | Other") + "interface Other { method: string }", "not a single literal"),
        (BASE.replace("= GetRequest", "= GetRequest | Other") + 'interface Other { method: "a" | "b" }', "not a single literal"),
        (BASE.replace("ServerResult = GetResult | EmptyResult", "ServerResult = EmptyResult"), "not in ServerResult"),
        (BASE.replace("params: { name: string }", "params: string[]"), "must be one named object"),
        (
            BASE.replace("ClientRequest = GetRequest", "ClientRequest = GetRequest | GetNotification")
            + 'export interface GetNotification { method: "x"; params: { y: string } }\n',
            "share the stub 'get'|not in ServerResult",
        ),
    ],
)  # fmt: skip
def test_a_table_that_does_not_add_up_is_an_error_with_its_place(source: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words) as caught:
        table(source)
    assert caught.value.line > 0
    assert caught.value.source_line


def test_two_messages_with_one_method_are_an_error() -> None:
    source = BASE.replace("ClientRequest = GetRequest", "ClientRequest = GetRequest | OtherRequest")
    source += 'export interface OtherRequest { method: "things/get"; params: { z: string } }\n'
    with pytest.raises(SchemaError):
        table(source)


@pytest.mark.parametrize(
    ("method", "capability"),
    [
        ("things/get", "things"),
        ("things/sub", "things.sub"),
        ("things/sub/more", "things.sub"),
        ("things/two_words", "things.twoWords"),
        ("other/get", None),
        ("thing", None),
        ("things", "things"),
    ],
)
def test_a_methods_name_leads_to_its_capability(method: str, capability: str | None) -> None:
    source = BASE.replace("things/get", method).replace("sub?: object", "sub?: object; twoWords?: boolean")
    assert table(source)[method].capability == capability


def test_the_sender_of_a_notification_needs_the_capability_and_either_side_of_what_both_send() -> None:
    source = """
        export type ServerNotification = ChangedNotification | BothNotification;
        export type ClientNotification = BothNotification;
        export interface ChangedNotification { method: "notifications/things/list_changed"; params: { a: string } }
        export interface BothNotification { method: "notifications/things/both"; params: { a: string } }
        export interface ServerCapabilities { things?: { listChanged?: boolean; both?: boolean } }
        export interface ClientCapabilities { things?: { listChanged?: boolean } }
    """
    found = {name: m.capability for name, m in table(source).items()}
    assert found == {
        "notifications/things/list_changed": "things.listChanged",
        "notifications/things/both": "things",
    }


def entry_for(pointer: str, expected: str, new: str) -> OverlayEntry:
    values = SimpleNamespace(entry=[SimpleNamespace(pointers=())])
    table: Table[Any] = Table(Path("overlay.toml"), ["pointer"], values)
    return OverlayEntry(table, 0, None, None, (pointer,), expected, new)


def told(pointer: str, expected: str, new: str) -> dict[str, Method]:
    """The small table with one entry of an overlay."""
    said = entry_for(pointer, expected, new)
    problems = Problems("2099-01-01")
    schema, facts = overlay.apply_overlay(hoist(schema_of(BASE)), [said], problems)
    found = method_table(schema, facts, problems)
    problems.stop()
    return found


@pytest.mark.parametrize("path", ["nothing", "things.nothing", "things.sub.more"])
def test_a_capability_that_does_not_exist_is_an_error_at_its_entry(path: str) -> None:
    with pytest.raises(SchemaError, match=r"2099-01-01: .*not in this revision; correct the entry") as caught:
        told("things/get#capability", "things", path)
    assert (caught.value.path, caught.value.line) == ("overlay.toml", 1)


def test_an_entry_that_expects_another_capability_of_the_name_is_outdated() -> None:
    with pytest.raises(SchemaError, match=r'the schema has "things", the entry expects nothing'):
        told("things/get#capability", "", "things.sub")


@pytest.mark.parametrize(("new", "capability"), [("things.sub", "things.sub"), ("", None)])
def test_a_capability_that_the_overlay_says_is_taken(new: str, capability: str | None) -> None:
    assert told("things/get#capability", "things", new)["things/get"].capability == capability


@pytest.mark.parametrize(("new", "param"), [("name", "name"), ("", None)])
def test_a_header_parameter_that_the_overlay_says_is_taken(new: str, param: str | None) -> None:
    assert told("things/get#name_param", "", new)["things/get"].name_param == param


def test_a_header_parameter_that_does_not_exist_is_an_error_at_its_entry() -> None:
    with pytest.raises(SchemaError, match=r"2099-01-01: .*no parameter 'uri'") as caught:
        told("things/get#name_param", "", "uri")
    assert (caught.value.path, caught.value.line) == ("overlay.toml", 1)


def test_a_request_whose_results_are_nowhere_listed_is_refused_where_it_stands() -> None:
    source = (
        "export type ServerRequest = PutRequest;\n"
        'export interface PutRequest { method: "put" }\nexport interface PutResult {}\n'
    )
    schema = Schema(parse(source, "schema.ts"), lines=source.split("\n"))
    methods = method_table(schema, OverlayFacts(), Problems(FIRST))
    with pytest.raises(SchemaError, match="PutResult is the result of 'PutRequest', but not in") as caught:
        check_methods(schema, OverlayFacts(), methods)
    assert caught.value.line == 2


MISFITS: Final = [
    ("things/get#capability", "things", "things.gone", "not in this revision"),
    ("things/get#capability", "", "things.sub", "no longer matches"),
    ("things/get#name_param", "", "uri", "no parameter 'uri'"),
    ("things/get#alternate", "", "Gone", "'Gone' is not declared"),
]


@pytest.mark.parametrize(("pointer", "expected", "new", "words"), MISFITS)
def test_a_fact_about_a_method_that_does_not_fit_is_a_problem_and_is_ignored(
    pointer: str, expected: str, new: str, words: str
) -> None:
    said = entry_for(pointer, expected, new)
    problems = Problems(FIRST)
    schema, facts = overlay.apply_overlay(hoist(schema_of(BASE)), [said], problems)
    assert method_table(schema, facts, problems) == table(BASE)
    (problem,) = problems.found
    assert words in problem.message
    (warning,) = problems.warnings()
    assert f"a fact from the prose of {FIRST} is ignored" in warning
