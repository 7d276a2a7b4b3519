"""NEG-8, 9, 12, 13; LIFE-3; MOD-4, 15; SEAM-8; AMB-2: what a server makes of the revision it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest

from engine.fakes import FakeServer
from helpers.named import MEANT, ROW_A, ROW_B, ROW_C, ROW_D, ROW_DRAFT, ROW_E
from helpers.requirements import req
from mcprev.errors import UNSUPPORTED_PROTOCOL_VERSION, RpcError, UnsupportedProtocolVersion
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.protocol.negotiation.versions import (
    allow,
    answer_initialize,
    check_version,
    mutual,
    of_era,
    versions,
)
from mcprev.revisions import ALL, DEFAULT, Era, Revision
from mcprev.wire.jsonrpc import Request
from mcprev.wire.meta_keys import VERSION

A, B, C, D, E, DRAFT = ROW_A, ROW_B, ROW_C, ROW_D, ROW_E, ROW_DRAFT
SETS = tuple(rows for size in range(1, len(DEFAULT) + 1) for rows in combinations(DEFAULT, size))
UNKNOWN = ("1999-01-01", "2025-06-19", "2099-12-31", "draft", "", "2025-11-25 ")
each_set = pytest.mark.parametrize("allowed", SETS, ids=lambda rows: "+".join(row.name for row in rows))


def modern(version: object) -> dict[str, object]:
    return {"_meta": {VERSION: version}}


def refused(answer: object, requested: str, allowed: tuple[Revision, ...]) -> bool:
    """Whether a version was refused with all that are served, of which it is none."""
    return isinstance(answer, UnsupportedProtocolVersion) and answer.data == {
        "supported": [name for name in versions(allowed) if name != requested], "requested": requested,
    }  # fmt: skip


@req("LIFE-3", "AMB-2", everywhere=True)
@each_set
def test_life_3_an_initialize_gets_what_it_asks_for_or_the_latest_of_its_era(
    allowed: tuple[Revision, ...],
) -> None:
    rows = of_era(allowed, Era.HANDSHAKE)
    for requested in (*(row.version for row in DEFAULT), *UNKNOWN):
        answer = answer_initialize(requested, allowed)
        if not rows:
            assert refused(answer, requested, allowed)
        else:
            assert isinstance(answer, Revision)
            assert answer.handshake
            assert answer in allowed
            assert answer.version == (requested if requested in versions(rows) else rows[-1].version)


@req("MOD-4")
@each_set
def test_mod_4_a_stateless_request_is_served_at_its_own_version_or_not_at_all(
    allowed: tuple[Revision, ...],
) -> None:
    for requested in (*(row.version for row in DEFAULT), *UNKNOWN):
        answer = check_version(requested, allowed)
        wanted = next((row for row in allowed if row.version == requested), None)
        if wanted is not None and not wanted.handshake:
            assert answer is wanted
        else:
            assert refused(answer, requested, allowed)


@req("MOD-4")
def test_mod_4_a_refusal_names_every_version_newest_first() -> None:
    refusal = check_version("1999-01-01", ALL)
    assert isinstance(refusal, UnsupportedProtocolVersion)
    wire = refusal.to_wire()
    names = list(dict.fromkeys(row.version for row in reversed(ALL)))
    assert wire["code"] == UNSUPPORTED_PROTOCOL_VERSION
    assert wire["data"] == {"supported": names, "requested": "1999-01-01"}
    read = RpcError.from_wire(wire)
    assert isinstance(read, UnsupportedProtocolVersion)
    assert read.supported == tuple(names)


@req("NEG-8", "NEG-9", everywhere=True)
@pytest.mark.parametrize(
    ("params", "allowed", "era"),
    [
        pytest.param(modern(E.version), DEFAULT, Era.STATELESS, id="NEG-8 modern"),
        pytest.param(modern("1999-01-01"), DEFAULT, Era.STATELESS, id="NEG-8 the key decides, not the version"),
        pytest.param(modern(None), DEFAULT, Era.STATELESS, id="NEG-8 nor whether it is one"),
        pytest.param({**modern(E.version), "protocolVersion": "x"}, DEFAULT, Era.STATELESS, id="MOD-14 initialize"),
        pytest.param({"protocolVersion": D.version}, DEFAULT, Era.HANDSHAKE, id="NEG-8 initialize"),
        pytest.param({"_meta": {"progressToken": 1}}, DEFAULT, Era.HANDSHAKE, id="NEG-8 other _meta"),
        pytest.param({"_meta": None}, DEFAULT, Era.HANDSHAKE, id="NEG-8 null _meta"),
        pytest.param({"_meta": [VERSION]}, DEFAULT, Era.HANDSHAKE, id="NEG-8 array as _meta"),
        pytest.param({"_meta": VERSION}, DEFAULT, Era.HANDSHAKE, id="NEG-8 text as _meta"),
        pytest.param(None, DEFAULT, Era.HANDSHAKE, id="LIFE-8 no params"),
        pytest.param(None, (E,), Era.STATELESS, id="MOD-3 modern-only server"),
        pytest.param({"protocolVersion": D.version}, (E,), Era.STATELESS, id="MOD-15 modern-only server"),
        pytest.param(modern(E.version), (A, D), Era.HANDSHAKE, id="LIFE-8 legacy-only server, modern request"),
        pytest.param({}, (A,), Era.HANDSHAKE, id="LIFE-8 legacy-only server"),
    ],
)  # fmt: skip
def test_neg_8_an_opener_picks_its_engine(
    params: dict[str, object] | None,
    allowed: tuple[Revision, ...],
    era: Era,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    side = ServerProtocol(FakeServer(*(row.name for row in allowed)))
    taken: list[Era] = []

    def take(by: Era) -> Callable[[Request], None]:
        return lambda _: taken.append(by)

    monkeypatch.setattr(side.session, "request", take(Era.HANDSHAKE))
    monkeypatch.setattr(side.stateless, "request", take(Era.STATELESS))
    side.receive(Request(1, "initialize", params), 0)
    assert taken == [era]


@req("NEG-12", "NEG-13", everywhere=True)
@pytest.mark.parametrize(
    ("names", "mode", "allowed"),
    [
        pytest.param(None, "auto", DEFAULT, id="NEG-12 auto"),
        pytest.param(None, "legacy", (A, B, C, D), id="NEG-12 legacy"),
        pytest.param(None, C.name, (C,), id="NEG-12 pin"),
        pytest.param(None, "draft", (DRAFT,), id="SEAM-8 the draft by name"),
        pytest.param((E.name, A.name), "auto", (A, E), id="NEG-13 a list"),
        pytest.param((E.name, A.name), "legacy", (A,), id="NEG-12 a list, legacy"),
        pytest.param((E.name, A.name), E.name, (E,), id="NEG-12 a list, pinned"),
    ],
)
def test_neg_12_modes(names: tuple[str, ...] | None, mode: str, allowed: tuple[Revision, ...]) -> None:
    assert allow(names, mode) == allowed


@req("NEG-12", "NEG-13", everywhere=True)
@pytest.mark.parametrize(
    ("names", "mode", "message"),
    [
        (None, "modern", "unknown revision 'modern'"),
        (("2024",), "auto", "unknown revision '2024'"),
        ((), "auto", "at least one revision"),
        ((E.name,), "legacy", "mode 'legacy' excludes all of the revisions"),
        ((E.name,), A.name, f"mode '{A.name}' excludes all of the revisions {E.name}"),
    ],
)
def test_neg_12_modes_that_make_no_sense(names: tuple[str, ...] | None, mode: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        allow(names, mode)


@req("SEAM-8")
def test_seam_8_a_version_means_the_dated_revision_before_the_draft() -> None:
    assert mutual((E.version,), (E, DRAFT)) is E
    assert mutual((DRAFT.version,), (*DEFAULT, DRAFT)) is MEANT
    assert mutual((DRAFT.version,), (DRAFT,)) is DRAFT
    assert check_version(E.version, (E, DRAFT)) is E
    assert check_version(DRAFT.version, (*DEFAULT, DRAFT)) is MEANT
    assert check_version(DRAFT.version, (D, DRAFT)) is DRAFT
    assert versions((D, MEANT, DRAFT)) == (MEANT.version, D.version)


@req("NEG-13", everywhere=True)
def test_neg_13_an_unknown_version_is_never_near_a_known_one() -> None:
    for version in UNKNOWN:
        assert mutual((version,), ALL) is None
    assert mutual((*UNKNOWN, B.version, A.version), DEFAULT) is B
