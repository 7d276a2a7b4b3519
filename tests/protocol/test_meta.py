"""META-2, 3, 6; MOD-17; AMB-13: the form of keys, what is reserved, names of extensions, trace context."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from helpers.requirements import req
from mcprev.protocol.meta import caller_meta_error, extension_error, key_error, reserved, trace_error

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
letters = "abcXYZ"
inner = st.text(letters + "019-", max_size=6)
label = st.tuples(st.sampled_from(letters), inner, st.sampled_from(letters + "09")).map("".join)
name = st.tuples(
    st.sampled_from(letters + "09"), st.text(letters + "019-_.", max_size=6), st.sampled_from(letters + "09")
).map("".join)
prefix = st.lists(label | st.sampled_from(letters), min_size=1, max_size=4).map(".".join)


@req("META-2", everywhere=True)
@given(st.none() | prefix, st.just("") | name | st.sampled_from(letters))
def test_keys_are_labels_and_a_name(before: str | None, last: str) -> None:
    assert key_error(last if before is None else f"{before}/{last}") is None


@req("META-2", everywhere=True)
@pytest.mark.parametrize(
    "key",
    ["/", "/a", "a b", "a/b/c", "-a", "a-", "_a", ".a", "a.", "é", "a/é", "a/-b", "a/b_", "1a/b", "a-/b", "-a/b",
     "a..b/c", ".a/b", "a./b", "a_b/c", "a /b", "a/b\n", "a\n", "com.example", " "],
)  # fmt: skip
def test_what_is_no_key(key: str) -> None:
    if key == "com.example":
        assert key_error(key) is None  # a name may have dots, and is no prefix without a slash
        return
    assert key_error(key) is not None


@req("META-3", "META-4", "AMB-13", everywhere=True)
@pytest.mark.parametrize(
    ("key", "is_reserved"),
    [
        ("io.modelcontextprotocol/x", True), ("dev.mcp/", True), ("org.modelcontextprotocol.api/x", True),
        ("com.mcp.tools/", True), ("com.example.mcp/x", False), ("com.example/mcp", False), ("mcp/x", False),
        ("modelcontextprotocol/x", False), ("mcp.dev/x", False), ("modelcontextprotocol.io/x", False),
        ("io.mcpx/x", False), ("io.mcp", False), ("x", False), ("", False),
    ],
)  # fmt: skip
def test_the_second_label_reserves(key: str, is_reserved: bool) -> None:
    """Where the revisions disagree the later rule holds: the third revision would reserve `mcp.dev/` too."""
    assert reserved(key) is is_reserved
    assert (caller_meta_error({key: 1}) is None) is not is_reserved


@req("META-3", "MOD-17", everywhere=True)
def test_what_the_owner_of_an_extension_may_write() -> None:
    key = "io.modelcontextprotocol/other"
    assert "reserved" in str(caller_meta_error({key: 1}, extensions=["com.example/x"]))
    assert caller_meta_error({key: 1}, extensions=["io.modelcontextprotocol/ui"]) is None
    assert caller_meta_error({"io.modelcontextprotocol/serverInfo": {}}) is None


@req("MOD-17")
@pytest.mark.parametrize("good", ["com.example/x", "x/y", "io.modelcontextprotocol/tasks", "a.b-c.d1/e_f.g"])
def test_names_of_extensions(good: str) -> None:
    assert extension_error(good) is None
    for bad in (
        good.split("/", maxsplit=1)[0],
        good.split("/")[1],
        good + "/",
        "/" + good,
        good.split("/", maxsplit=1)[0] + "/",
    ):
        assert extension_error(bad) is not None


@req("META-6")
@pytest.mark.parametrize(
    ("key", "value", "good"),
    [
        ("traceparent", PARENT, True), ("traceparent", PARENT.upper(), False), ("traceparent", PARENT[:-1], False),
        ("traceparent", PARENT + "-more", False), ("traceparent", "cc" + PARENT[2:] + "-more", True),
        ("traceparent", "ff" + PARENT[2:], False), ("traceparent", f"00-{'0' * 32}-b7ad6b7169203331-01", False),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01", False),
        ("traceparent", "", False), ("traceparent", None, False), ("traceparent", 7, False),
        ("traceparent", PARENT + "\n", False),
        ("tracestate", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", True), ("tracestate", "a@b=1 , c=2", True),
        ("tracestate", "", True), ("tracestate", "a=1,,b=2", True), ("tracestate", "a=1,a=2", False),
        ("tracestate", "A=1", False), ("tracestate", "a", False), ("tracestate", "a=é", False),
        ("tracestate", ",".join(f"k{n}=v" for n in range(32)), True),
        ("tracestate", ",".join(f"k{n}=v" for n in range(33)), False), ("tracestate", {}, False),
        ("baggage", "userId=alice,serverNode=DF%2028,isProduction=false", True), ("baggage", "a=", True),
        ("baggage", "k = v ; p ; q = w", True), ("baggage", "", False), ("baggage", "a", False),
        ("baggage", "a=b c", False), ("baggage", "a=é", False), ("baggage", "a=" + "x" * 8191, False),
        ("trace", 7, True), ("com.example/traceparent", 7, True),
    ],
)  # fmt: skip
def test_trace_context(key: str, value: object, good: bool) -> None:
    assert (trace_error(key, value) is None) is good
    assert (caller_meta_error({key: value}) is None) is good


@req("META-2", "META-6", everywhere=True)
@given(
    st.dictionaries(
        st.text(max_size=12) | st.sampled_from(["traceparent", "tracestate", "baggage"]), st.text()
    )
)
def test_anything_is_judged_without_raising(meta: dict[str, str]) -> None:
    said = caller_meta_error(meta)
    assert said is None or len(said) < 250
