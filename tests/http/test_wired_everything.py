"""The tests of the server over ASGI again, fuzzing included, on connections of our own without sockets.

Connections know no revision: what runs at one of `SOME_ROWS` runs at these in `make test`, and at all in `make fuzz`.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

import mcprev
from helpers import asgi_bridge, wired
from helpers.requirements import req
from helpers.running import run
from helpers.served import Served
from mcprev.errors import PARSE_ERROR

HAS_ITS_OWN_RULE: Final = True
"""`conftest.py` leaves out cases at some revisions (`parts.trim`)."""
NOT_HERE: Final = frozenset(
    {
        # Mounted in another app, or within another one.
        "test_both_transports_stand_side_by_side",
        "test_the_endpoint_is_at_its_path_and_where_the_app_is_mounted",
        "test_pages_that_are_let_in_can_read_refusals_too",
        "test_a_routing_header_that_is_there_twice_is_refused",
        "test_a_task_of_the_http_server_that_is_cancelled_leaves_nothing_behind",
        "test_a_resume_that_is_cancelled_leaves_no_timer",
        # A connection refuses such bytes, and takes a little that nobody reads; see `test_connections`.
        "test_headers_that_say_more_than_they_may_say_nothing",
        "test_a_reader_who_takes_nothing_for_long_is_let_go",
    }
)


def _load(name: str) -> ModuleType:
    """The module of tests of that name that lies beside this one."""
    spec = spec_from_file_location(f"again_{name}", Path(__file__).with_name(f"test_server_{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_SUITES: Final = [
    _load(name) for name in ("fuzz", "hostile", "modern", "refusals", "sessions", "sse", "streams")
]


@pytest.fixture(autouse=True)
def _over_connections(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for module in (asgi_bridge, *_SUITES):
        if hasattr(module, "Exchange"):
            monkeypatch.setattr(module, "Exchange", wired.Exchange)


for _suite in _SUITES:
    globals().update(
        {
            name: test
            for name, test in vars(_suite).items()
            if name.startswith("test_") and name not in NOT_HERE
        }
    )


@req("HTTP-12", everywhere=True)
def test_bytes_beyond_the_declared_length_are_another_request() -> None:
    """The answer to them is not taken for a part of the first one."""

    async def main() -> None:
        app = mcprev.Server(Served(), "served", "1").asgi()
        first = await asgi_bridge.Client(app).post(b"?", {"content-length": "0"}).done()
        assert first.status == 400
        assert first.error["code"] == PARSE_ERROR
        await app.aclose()

    run(main())
