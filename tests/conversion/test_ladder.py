"""The ladder itself: ways, refusals, paths, copies, what it costs, and that no table entry was overlooked."""

from __future__ import annotations

import contextlib
import copy
import re
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Final

import pytest
from hypothesis import given, settings, strategies as st

from conversion.peers import A, B, C, D, E, Json, down, go, instead
from helpers.named import GONE, SINCE_E
from helpers.requirements import req
from helpers.support import DATED, DRAFT, ROOT, package, same
from mcprev.conversion import ConversionContext, Converter, PayloadKind, convert, converter
from mcprev.conversion.ladder import json_path, neighbours
from mcprev.conversion.rules import OBJECT, Rules
from mcprev.errors import ConversionError
from mcprev.revisions import ALL, LATEST, revision_named
from mcprev_types import Child, TypeDelta

NAMES: Final = [r.name for r in ALL]
PAIRS: Final = [(a.name, b.name) for a in ALL for b in ALL if a is not b]
STAMP: Final[Json] = {
    "io.modelcontextprotocol/protocolVersion": E,
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALL: Final = {"name": "t", "arguments": {"text": "hi"}}
RESULT: Final = {"content": [{"type": "text", "text": "hi"}]}


# -- ways ------------------------------------------------------------------------------------------------


@req("SEAM-5", "SEAM-9")
@pytest.mark.parametrize("row", [r.name for r in ALL])
def test_nothing_happens_between_a_revision_and_itself(row: str) -> None:
    for method, spec in revision_named(row).methods.items():
        way = converter(method, PayloadKind.PARAMS, from_=row, to=row)
        assert way.steps == ()
        assert way.takes_nothing == spec.params_optional
    value = {"content": [{"type": "audio"}], "x": object()}
    assert convert(value, "tools/call", "result", from_=row, to=row, validate=False) is value


@req("SEAM-8")
def test_the_draft_is_the_revision_it_grew_from() -> None:
    value = {**RESULT, "resultType": "complete"}
    for here, there in ((E, DRAFT), (DRAFT, E)):
        found = convert(value, "tools/call", "result", from_=here, to=there)
        assert found == value
        assert found is value or package(DRAFT, "deltas").TO_PREVIOUS
    for row in (name for name in DATED if revision_named(name).handshake):
        assert convert(value, "tools/call", "result", from_=DRAFT, to=row) == RESULT
        assert same(convert(RESULT, "tools/call", "result", from_=row, to=DRAFT), value)


@req("SEAM-10", everywhere=True)
def test_rows_may_be_given_for_names() -> None:
    found = convert({**RESULT, "resultType": "complete"}, "tools/call", "result", from_=LATEST, to=ALL[0])
    assert found == RESULT
    assert converter("tools/call", "result", from_=LATEST, to=ALL[0]) is converter(
        "tools/call", "result", from_=E, to=DATED[0]
    )


@req("SEAM-4", "SEAM-5", "SEAM-10")
@pytest.mark.parametrize(("from_", "to"), PAIRS)
def test_every_way_of_every_payload_compiles(from_: str, to: str) -> None:
    """No entry of a generated table asks for a value that no rule gives."""
    shared = revision_named(from_).methods.keys() & revision_named(to).methods.keys()
    for method in shared:
        for kind in (PayloadKind.PARAMS, PayloadKind.RESULT, PayloadKind.ERROR):
            if kind is PayloadKind.PARAMS or revision_named(from_).methods[method].result:
                converter(method, kind, from_=from_, to=to)
    for kind in (
        PayloadKind.CLIENT_CAPABILITIES,
        PayloadKind.SERVER_CAPABILITIES,
        PayloadKind.IMPLEMENTATION,
    ):
        converter("", kind, from_=from_, to=to)


@req("SEAM-7")
@pytest.mark.parametrize(("older", "younger"), list(pairwise(DATED)))
def test_rules_are_for_types_and_members_that_exist(older: str, younger: str) -> None:
    assert find_spec(
        f"mcprev.conversion.step_{younger.replace('-', '_')}"
    ), "each dated revision has a step module"
    for here, there in (
        (revision_named(younger), revision_named(older)),
        (revision_named(older), revision_named(younger)),
    ):
        rules = neighbours(here, there).rules
        made_up = {"Block", "SampledAudio"}
        for name in (*rules.before, *rules.children, *rules.deltas, *rules.choose, *rules.substitutes):
            assert name in made_up or hasattr(here.models, name), name
        for name, delta in neighbours(here, there).deltas.items():
            if name.endswith(("Request", "Notification", "Response")):
                continue  # whole messages are nobody's payload
            for member in delta.missing:
                replaced = name in rules.deltas
                assert replaced or member in rules.missing, f"{name}.{member}"


@req("SEAM-4", "SEAM-5")
@pytest.mark.parametrize(("here", "there"), [*pairwise(NAMES), *pairwise(NAMES[::-1])])
def test_every_missing_or_retyped_member_is_decided(here: str, there: str) -> None:
    step = neighbours(revision_named(here), revision_named(there))
    assert not step.rules.undecided
    assert step.rules.open_members(step.deltas) == []
    known = {f"{name}.{m}" for name, delta in step.deltas.items() for m in (*delta.missing, *delta.retyped)}
    for pattern, reason in step.rules.accepted.items():
        assert reason
        if not revision_named(there).negotiable:
            continue  # no revision has deltas to a draft
        assert any(pattern in {entry, "*." + entry.partition(".")[2]} for entry in known), pattern


TABLE: Final = {
    "Box": TypeDelta("Box", retyped=("lid",), missing=("id",), lost=(Child("lid", (), (("x", "Gone"),), "type"),)),
}  # fmt: skip
"""A box that needs an id next door, and whose lid may be of a type that is gone there."""


def unchanged(value: Json, _: ConversionContext) -> Json:
    return value


@req("SEAM-4", "SEAM-5", everywhere=True)
@pytest.mark.parametrize(
    ("rules", "left"),
    [
        (Rules(), ["Box.id", "Box.lid"]),
        (Rules(missing={"id": unchanged}), ["Box.lid"]),
        (Rules(substitutes={"Gone": unchanged}), ["Box.id"]),
        (Rules(children={"Box": (Child("lid", (), (), "type"),)}), ["Box.id"]),
        (Rules(children={"Box": (Child("id", (), (), "type"),)}), ["Box.lid"]),
        (Rules(accepted={"Box.lid": "reason", "*.id": "reason"}), []),
        (Rules(accepted={"Other.lid": "reason", "*.ids": "reason"}), ["Box.id", "Box.lid"]),
        (Rules(before={"Box": unchanged}), []),
        (Rules(deltas={"Box": None}), []),
        (Rules(undecided={"Box.lid": "a sentence"}), ["Box.id", "Box.lid"]),
    ],
)
def test_what_no_rule_speaks_of_is_open(rules: Rules, left: list[str]) -> None:
    assert rules.open_members(TABLE) == left


@req("SEAM-6", "SEAM-7", everywhere=True)
def test_only_step_modules_name_revisions() -> None:
    folder = ROOT / "runtime" / "mcprev" / "conversion"
    for file in folder.glob("*.py"):
        if not file.name.startswith("step_"):
            assert not re.search(r"20\d\d[-_]\d\d[-_]\d\d", re.sub(r"import.*", "", _code(file))), file.name


def _code(file: Path) -> str:
    return "\n".join(line for line in file.read_text().splitlines() if "step_20" not in line)


# -- refusals --------------------------------------------------------------------------------------------


@req("NEG-13", "SEAM-10", everywhere=True)
def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="unknown revision '2024-11-06'; known are 2024-11-05"):
        convert({}, "tools/call", "result", from_="2024-11-06", to=A)
    with pytest.raises(ValueError, match="unknown revision"):
        convert({}, "tools/call", "result", from_=A, to="")
    with pytest.raises(ValueError, match="unknown kind 'reply'; known are params, result"):
        convert({}, "tools/call", "reply", from_=E, to=A)
    with pytest.raises(ConversionError, match="has no method 'tools/cal'") as caught:
        convert({}, "tools/cal", "result", from_=E, to=A)
    assert (caught.value.path, caught.value.revision) == ("$", A)
    with pytest.raises(ConversionError, match="has no response"):
        convert({}, "notifications/progress", "result", from_=E, to=A)


@req("SEAM-2", at=(D, E))
@pytest.mark.parametrize(
    "method", ["ping", "logging/setLevel", "resources/subscribe", "tasks/get", "initialize"]
)
def test_methods_of_one_era_have_no_form_in_the_other(method: str) -> None:
    with pytest.raises(ConversionError, match=f"has no method '{method}'"):
        convert({}, method, "params", from_=D, to=E)
    assert converter(method, "params", from_=D, to=D).steps == ()


@req("SEAM-4", "SEAM-5")
@pytest.mark.parametrize(
    ("payload", "method", "kind", "path"),
    [
        ({"content": [{"type": "text", "text": 5}]}, "tools/call", "result", "$.content[0].text"),
        ({"content": [{"type": "text"}]}, "tools/call", "result", "$.content[0].text"),
        ({"content": "x"}, "tools/call", "result", "$.content"),
        ({"contents": [{"uri": "x:y", "text": 1}]}, "resources/read", "result", "$.contents[0].text"),
        (
            {"tools": [{"name": "t", "inputSchema": {"type": "x"}}]},
            "tools/list",
            "result",
            "$.tools[0].inputSchema.type",
        ),
        ({"name": 1, "_meta": {**STAMP}}, "tools/call", "params", "$.name"),
        ([], "tools/call", "params", "$"),
        ("x", "tools/call", "result", "$"),
        (None, "tools/call", "result", "$"),
        ({"code": "x", "message": ""}, "tools/call", "error", "$.code"),
    ],
)
@pytest.mark.parametrize("from_", [A, C, D, E])
@pytest.mark.parametrize("to", [A, B, D, E])
def test_what_is_invalid_is_refused_with_its_path(
    from_: str, to: str, payload: Json, method: str, kind: str, path: str
) -> None:
    with pytest.raises(ConversionError) as caught:
        go(payload, method, kind, from_, to)
    assert caught.value.revision == to
    assert caught.value.path == path
    assert f"(at {caught.value.path}, for {to})" in str(caught.value)


@req("SEAM-4", everywhere=True)
def test_paths() -> None:
    assert json_path(()) == "$"
    assert json_path(("a", 0, "b-c", "d'e")) == "$.a[0]['b-c'][\"d'e\"]"


@req("SEAM-5", at=(A, D, E))
def test_params_that_are_missing() -> None:
    for from_, to in ((E, A), (A, A), (A, E), (D, E)):
        with pytest.raises(ConversionError) as caught:
            convert(None, "tools/call", "params", from_=from_, to=to)
        assert caught.value.path in {"$", "$.name"}


@req("SEAM-5", everywhere=True)
def test_params_may_be_absent_where_the_revision_says_so() -> None:
    for to in (A, B, C, D):
        assert convert(None, "notifications/tools/list_changed", "params", from_=E, to=to) is None
        assert convert(None, "tools/list", "params", from_=to, to=E) == {"_meta": STAMP}
        assert convert(None, "roots/list", "params", from_=E, to=to) is None
        assert convert(None, "roots/list", "params", from_=to, to=E) is None


@req("SEAM-10", everywhere=True)
def test_validation_can_be_left_to_the_caller() -> None:
    broken = {"content": [{"type": "text", "text": 5}], "resultType": "complete"}
    found = convert(broken, "tools/call", "result", from_=E, to=A, validate=False)
    assert found == {"content": [{"type": "text", "text": 5}]}


@req("SEAM-4", at=(C, D, E))
def test_a_task_is_no_result_elsewhere() -> None:
    task = {"task": {"taskId": "1", "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttl": None}}
    assert convert(task, "tools/call", "result", from_=D, to=D) is task
    for method in ("tools/call", "sampling/createMessage", "elicitation/create"):
        for to in (C, E):
            with pytest.raises(ConversionError, match="a task cannot be converted"):
                convert(task, method, "result", from_=D, to=to)


@req("CONV-1", "CONV-2", at=A)
def test_hooks_give_content_that_the_peer_has() -> None:
    audio = {"content": [{"type": "audio", "data": "", "mimeType": "x"}], "resultType": "complete"}
    for given_ in (
        {"type": "audio", "data": "", "mimeType": "x"},
        {"type": "resource_link"},
        {},
        {"type": 5},
    ):
        with pytest.raises(ConversionError, match="on_downgrade returned content of type") as caught:
            down(audio, "tools/call", "result", A, on_downgrade=instead(given_))
        assert caught.value.path == "$.content[0]"
    link = {"content": [{"type": "resource_link", "uri": "x:y", "name": "n"}], "resultType": "complete"}
    heard = {"type": "audio", "data": "", "mimeType": "x"}
    found = down(
        link,
        "tools/call",
        "result",
        A,
        on_downgrade=instead(heard, of="resource_link"),
    )
    assert found["content"][0]["type"] == "resource"


# -- copies ----------------------------------------------------------------------------------------------


@req("SEAM-10", everywhere=True)
def test_only_changed_paths_are_copied() -> None:
    untouched = {"type": "text", "text": "a", "x": [1]}
    changed = {"type": "text", "text": "b", "annotations": {"lastModified": "2026", "priority": 1}}
    value: Json = {"content": [untouched, changed], "isError": False}
    found = go(value, "tools/call", "result", C, A)
    assert found["content"][0] is untouched
    assert found["content"][1] == {"type": "text", "text": "b", "annotations": {"priority": 1}}
    same_value: Json = {"content": [untouched]}
    for to in (A, B, C, D):
        assert go(same_value, "tools/call", "result", D, to) is same_value


JSON: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from([
                "content", "type", "messages", "tools", "inputSchema", "outputSchema", "properties", "_meta",
                "structuredContent", "contents", "role", "resource", "annotations", "resultType", "oneOf", "task",
                "requestedSchema", "mode", "capabilities", "elicitation", "roots", "name", "values", "completion",
            ]),
            st.one_of(inner, st.sampled_from(["audio", "resource_link", "tool_result", "object", "url", "array"])),
            max_size=4,
        ),
    ),
    max_leaves=12,
)  # fmt: skip
EVERYTHING: Final = [
    (method, kind, from_, to)
    for from_, to in ((E, A), (E, D), (D, A), (D, E), (A, E))
    if not GONE & {from_, to}
    for method in sorted(revision_named(from_).methods.keys() & revision_named(to).methods.keys())
    for kind in (PayloadKind.PARAMS, PayloadKind.RESULT, PayloadKind.ERROR)
    if kind is PayloadKind.PARAMS or revision_named(from_).methods[method].result
]


@pytest.mark.slow
@req("SEAM-4", "SEAM-5", everywhere=True)
@settings(max_examples=400)
@given(value=JSON, what=st.sampled_from(EVERYTHING))
def test_whatever_comes_is_converted_or_refused_and_left_alone(
    value: Json, what: tuple[str, str, str, str]
) -> None:
    method, kind, from_, to = what
    before = copy.deepcopy(value)
    for validate in (True, False):
        with contextlib.suppress(ConversionError):
            convert(value, method, kind, from_=from_, to=to, validate=validate)
        assert same(value, before)


@pytest.mark.slow
@req("SEAM-10", everywhere=True)
@settings(max_examples=400)
@given(value=JSON, what=st.sampled_from(EVERYTHING))
def test_what_has_no_member_that_is_touched_passes_as_it_is(
    value: Json, what: tuple[str, str, str, str]
) -> None:
    """Whoever looks before the steps are run may leave them out."""
    method, kind, from_, to = what
    way = converter(method, kind, from_=from_, to=to)
    if way.touches is not None and isinstance(value, OBJECT):
        given = {name: item for name, item in value.items() if name not in way.touches}
        assert way(given, validate=False) is given


@pytest.mark.slow
@req("SEAM-10", "MOD-1", everywhere=True)
@settings(max_examples=400)
@given(value=JSON, what=st.sampled_from(EVERYTHING))
def test_what_only_gets_the_metadata_of_its_session_gets_just_that(
    value: Json, what: tuple[str, str, str, str]
) -> None:
    """Whoever looks before the steps are run may set `_meta` instead."""
    method, kind, from_, to = what
    way = converter(method, kind, from_=from_, to=to)
    meta = {"io.modelcontextprotocol/protocolVersion": revision_named(to).version}
    context = ConversionContext(to, stamp={**meta, "io.modelcontextprotocol/clientCapabilities": {}})
    if way.only_stamped is not None and isinstance(value, OBJECT):
        given = {name: item for name, item in value.items() if name not in way.only_stamped}
        assert way(given, context, validate=False) == {**given, "_meta": context.stamp}


# -- cost ------------------------------------------------------------------------------------------------


def python_calls(way: Converter, payload: Json) -> int:
    """How many Python functions one conversion without validation calls."""
    way(payload, validate=False)  # what is made on first use is made now
    seen: list[str] = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        way(payload, validate=False)
    finally:
        sys.setprofile(before)
    return len(seen)


@req("SEAM-10", everywhere=True)
@pytest.mark.parametrize(
    ("kind", "payload", "from_", "to", "most"),
    [
        ("params", {**CALL, "_meta": STAMP}, E, D, 5),
        ("params", CALL, D, E, 6),
        ("result", {**RESULT, "resultType": "complete"}, E, D, 8),
        ("result", RESULT, D, E, 5),
        # The number of blocks does not count when none of them changes.
        ("result", {"content": RESULT["content"] * 100, "resultType": "complete"}, E, D, 8),
        ("result", {"content": RESULT["content"] * 100, "resultType": "complete"}, E, A, 18),
    ],
)
def test_python_calls(kind: str, payload: Json, from_: str, to: str, most: int) -> None:
    further = 3 * (len(SINCE_E) - 1)  # steps between revisions of the stateless era
    assert python_calls(converter("tools/call", kind, from_=from_, to=to), payload) <= most + further


@req("CONV-42", "SEAM-10", at=D)
def test_a_context_is_made_once_for_a_connection() -> None:
    context = ConversionContext(E, stamp={**STAMP, "io.modelcontextprotocol/logLevel": "info"})
    assert isinstance(context, ConversionContext)
    way = converter("tools/call", "params", from_=D, to=E)
    assert way(CALL, context)["_meta"] == context.stamp
    assert way(CALL)["_meta"] == STAMP


@pytest.mark.slow
@req("SEAM-10", everywhere=True)
def test_importing_the_ladder_imports_no_models() -> None:
    script = "import sys, mcprev.conversion; print(*[m for m in sys.modules if m.startswith(('pydantic', 'mcprev_types.v'))])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == ""
