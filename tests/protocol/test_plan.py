"""NEG-1 to 7, 12; LIFE-2, LIFE-4; MOD-10; AMB-2: how a client finds the revision to speak. No event loop here."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import Any, TypeAlias, get_args

import pytest
from hypothesis import given, strategies as st

from helpers.named import MEANT, ROW_A, ROW_B, ROW_C, ROW_D, ROW_DRAFT, ROW_E
from helpers.requirements import req
from mcprev.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
    NegotiationError,
    RpcError,
    UnsupportedProtocolVersion,
)
from mcprev.protocol.negotiation.machine import advance, may_ask_both, start
from mcprev.protocol.negotiation.steps import (
    HTTP,
    MAX_VERSIONS,
    STDIO,
    Both,
    BothAnswers,
    Discover,
    Discovered,
    Exited,
    Fail,
    HttpRefused,
    Initialize,
    Initialized,
    InvalidReply,
    Method,
    Outcome,
    Plan,
    Ready,
    Refused,
    Respawn,
    Silent,
    Spawned,
    Step,
    discovered,
    initialized,
)
from mcprev.protocol.negotiation.versions import (
    answer_initialize,
    check_version,
    versions,
)
from mcprev.revisions import ALL, DEFAULT, Era, Revision

A, B, C, D, E, DRAFT = ROW_A, ROW_B, ROW_C, ROW_D, ROW_E, ROW_DRAFT
ABCD = tuple(row for row in DEFAULT if row.handshake)
SETS = tuple(rows for size in range(1, len(DEFAULT) + 1) for rows in combinations(DEFAULT, size))
Server: TypeAlias = Callable[[Step, tuple[Revision, ...]], Outcome]
Answer: TypeAlias = Callable[[Any], Outcome]
"""An outcome once the step it belongs to is known."""


def name(rows: tuple[Revision, ...]) -> str:
    return "+".join(row.name for row in rows)


def found(*names: Revision | str) -> Answer:
    supported = tuple(n if isinstance(n, str) else n.version for n in names)
    return lambda _: Discovered(supported)


def told(version: Revision | str) -> Answer:
    return lambda _: Initialized(version if isinstance(version, str) else version.version)


def error(code: int, *supported: Revision | str) -> Answer:
    names = [n if isinstance(n, str) else n.version for n in supported]
    data = {"supported": names, "requested": "x"} if names else None
    return lambda _: Refused(RpcError.from_wire({"code": code, "message": "no", "data": data}))


def status(code: int) -> Answer:
    return lambda _: HttpRefused(code, "Not Found")


def silence(step: Any) -> Outcome:
    return InvalidReply("no answer in 5 s")


def noise(step: Any) -> Outcome:
    return InvalidReply("a result that names no versions")


def exits(step: Any) -> Outcome:
    return Exited("the process ended with 1")


def still(step: Any) -> Outcome:
    return Silent(1)


def answers(probe: Answer | None, session: Answer) -> Answer:
    """What came of both requests on one pipe."""
    return lambda step: BothAnswers(None if probe is None else probe(step), session(step))


def spawned(step: Any) -> Outcome:
    return Spawned()


def play(plan: Plan, *answers: Answer) -> list[Step]:
    """The steps of a plan, the first included, as it meets these answers."""
    steps: list[Step] = [plan.step]
    for answer in answers:
        plan = advance(plan, answer(plan.step))
        steps.append(plan.step)
    return steps


def failed(plan: Plan) -> NegotiationError:
    assert isinstance(plan.step, Fail), plan.step
    return plan.step.error


UNSUPPORTED = UNSUPPORTED_PROTOCOL_VERSION
FUTURE = "2099-01-01"
BOTH = Both(Discover(E), Initialize(D))
TO_D, TO_C, TO_B, TO_A, TO_E = Initialize(D), Initialize(C), Initialize(B), Initialize(A), Discover(E)
FAIL = "fail"


@req(
    "NEG-1",
    "NEG-2",
    "NEG-3",
    "NEG-4",
    "NEG-5",
    "NEG-7",
    "NEG-12",
    "LIFE-2",
    "LIFE-4",
    "MOD-10",
    "MOD-15",
    "AMB-2",
    "SEAM-8",
    everywhere=True,
)
@pytest.mark.parametrize(
    ("allowed", "answers", "steps"),
    [
        pytest.param(DEFAULT, [found(E, D)], [TO_E, Ready(E, Method.DISCOVER)], id="NEG-1 NEG-2 modern"),
        pytest.param(DEFAULT, [found(E)], [TO_E, Ready(E, Method.DISCOVER)], id="NEG-2 modern only"),
        pytest.param(DEFAULT, [found(FUTURE, E)], [TO_E, Ready(E, Method.DISCOVER)], id="NEG-13 unknown beside"),
        pytest.param(
            DEFAULT, [found(D, C), told(D)], [TO_E, TO_D, Ready(D, Method.INITIALIZE)], id="NEG-2 legacy listed"
        ),
        pytest.param(
            (A, B, E), [found(D, B), told(B)], [TO_E, TO_B, Ready(B, Method.INITIALIZE)], id="NEG-2 mutual legacy"
        ),
        pytest.param(DEFAULT, [found(FUTURE)], [TO_E, FAIL], id="NEG-2 nothing mutual"),
        pytest.param((E,), [found(D)], [TO_E, FAIL], id="NEG-2 only legacy, not allowed"),
        pytest.param((DRAFT,), [found(DRAFT)], [Discover(DRAFT), Ready(DRAFT, Method.DISCOVER)], id="SEAM-8 draft"),
        pytest.param(
            (*DEFAULT, DRAFT), [found(DRAFT)], [Discover(MEANT), Ready(MEANT, Method.DISCOVER)],
            id="SEAM-8 dated before draft",
        ),
        pytest.param(
            DEFAULT, [error(UNSUPPORTED, D, C), told(D)], [TO_E, TO_D, Ready(D, Method.INITIALIZE)],
            id="NEG-3 only legacy versions",
        ),
        pytest.param(DEFAULT, [error(UNSUPPORTED, FUTURE)], [TO_E, FAIL], id="NEG-3 never initialize"),
        pytest.param(DEFAULT, [error(UNSUPPORTED)], [TO_E, FAIL], id="NEG-3 names no version"),
        pytest.param(DEFAULT, [error(UNSUPPORTED, E)] * 2, [TO_E, TO_E, FAIL], id="MOD-10 names what it refused"),
        pytest.param(
            DEFAULT, [error(UNSUPPORTED, E), found(E)], [TO_E, TO_E, Ready(E, Method.DISCOVER)], id="MOD-10 thinks again"
        ),
        pytest.param(
            DEFAULT, [error(UNSUPPORTED, FUTURE, D)], [TO_E, TO_D], id="NEG-3 a mutual version beside an unknown one"
        ),
        pytest.param(DEFAULT, [error(METHOD_NOT_FOUND)], [TO_E, TO_D], id="NEG-4 method not found"),
        pytest.param(DEFAULT, [error(INVALID_PARAMS)], [TO_E, TO_D], id="NEG-4 invalid params"),
        pytest.param(DEFAULT, [error(0)], [TO_E, TO_D], id="NEG-4 any code"),
        pytest.param(DEFAULT, [error(-32000)], [TO_E, TO_D], id="NEG-4 server error"),
        pytest.param(DEFAULT, [error(HEADER_MISMATCH)], [TO_E, TO_D], id="NEG-3 -32020 is no verdict on stdio"),
        pytest.param(
            DEFAULT, [error(MISSING_CLIENT_CAPABILITY)], [TO_E, TO_D], id="NEG-3 -32021 is no verdict on stdio"
        ),
        pytest.param(DEFAULT, [noise, told(C)], [TO_E, TO_D, Ready(C, Method.INITIALIZE)], id="NEG-4 odd result"),
        pytest.param(DEFAULT, [silence, told(D)], [TO_E, TO_D, Ready(D, Method.INITIALIZE)], id="NEG-4 silence"),
        pytest.param(
            DEFAULT, [exits, spawned, told(A)], [TO_E, Respawn(TO_D), TO_D, Ready(A, Method.INITIALIZE)],
            id="NEG-4 exit",
        ),
        pytest.param(DEFAULT, [exits, exits], [TO_E, Respawn(TO_D), FAIL], id="NEG-4 cannot be started again"),
        pytest.param(
            DEFAULT, [exits, spawned, exits], [TO_E, Respawn(TO_D), TO_D, FAIL], id="NEG-4 respawn only once"
        ),
        pytest.param(
            DEFAULT, [silence, exits, spawned, told(D)],
            [TO_E, TO_D, Respawn(TO_D), TO_D, Ready(D, Method.INITIALIZE)], id="NEG-4 exit after the fallback",
        ),
        pytest.param(
            DEFAULT, [still, answers(None, told(C))], [TO_E, BOTH, Ready(C, Method.INITIALIZE)], id="NEG-4 ignores a probe"
        ),
        pytest.param(
            DEFAULT, [still, answers(error(METHOD_NOT_FOUND), told(D))], [TO_E, BOTH, Ready(D, Method.INITIALIZE)],
            id="NEG-4 starts slowly",
        ),
        pytest.param(
            DEFAULT, [still, answers(noise, told(D))], [TO_E, BOTH, Ready(D, Method.INITIALIZE)], id="NEG-4 odd result, late"
        ),
        pytest.param(
            DEFAULT, [still, answers(found(E), error(METHOD_NOT_FOUND))], [TO_E, BOTH, Ready(E, Method.DISCOVER)],
            id="NEG-5 starts slowly, without sessions",
        ),
        pytest.param(
            DEFAULT, [still, answers(found(E), silence)], [TO_E, BOTH, Ready(E, Method.DISCOVER)],
            id="NEG-5 starts slowly, and ignores initialize",
        ),
        pytest.param(
            DEFAULT, [still, answers(found(E, D), told(D)), found(E, D)], [TO_E, BOTH, TO_E, Ready(E, Method.DISCOVER)],
            id="NEG-5 serves both at once",
        ),
        *(
            pytest.param(
                DEFAULT, [still, answers(found(E, D), told(D)), refuses, spawned, found(E, D)],
                [TO_E, BOTH, TO_E, Respawn(TO_E), TO_E, Ready(E, Method.DISCOVER)], id=f"NEG-5 serves one alone {number}",
            )
            for number, refuses in enumerate((error(METHOD_NOT_FOUND), error(UNSUPPORTED, D), silence, noise, exits))
        ),
        pytest.param(
            DEFAULT, [still, answers(found(E, D), told(D)), silence, spawned, silence],
            [TO_E, BOTH, TO_E, Respawn(TO_E), TO_E, FAIL], id="NEG-5 started again once",
        ),
        pytest.param(
            DEFAULT, [still, answers(found(D, C), told(D))], [TO_E, BOTH, Ready(D, Method.INITIALIZE)],
            id="NEG-2 starts slowly, and lists sessions alone",
        ),
        pytest.param(
            DEFAULT, [still, answers(error(UNSUPPORTED, D), told(D))], [TO_E, BOTH, Ready(D, Method.INITIALIZE)],
            id="NEG-3 starts slowly, and refuses the revision",
        ),
        pytest.param(
            DEFAULT, [still, answers(error(UNSUPPORTED, FUTURE), error(-32600))], [TO_E, BOTH, FAIL], id="NEG-3 never both"
        ),
        pytest.param(
            DEFAULT, [still, answers(None, error(UNSUPPORTED, E)), found(E)],
            [TO_E, BOTH, TO_E, Ready(E, Method.DISCOVER)], id="NEG-5 answers initialize first",
        ),
        pytest.param(DEFAULT, [still, answers(None, error(-32603))], [TO_E, BOTH, FAIL], id="NEG-4 opens by neither"),
        pytest.param(
            DEFAULT, [still, answers(exits, exits), spawned, told(A)],
            [TO_E, BOTH, Respawn(TO_D), TO_D, Ready(A, Method.INITIALIZE)], id="NEG-4 exit after both",
        ),
        pytest.param((E,), [error(METHOD_NOT_FOUND)], [TO_E, FAIL], id="NEG-12 pinned: no fallback from an error"),
        pytest.param((E,), [silence], [TO_E, FAIL], id="NEG-12 pinned: no fallback from silence"),
        pytest.param((E,), [exits], [TO_E, FAIL], id="NEG-12 pinned: no respawn"),
        pytest.param(
            DEFAULT, [silence, error(UNSUPPORTED, E), found(E)], [TO_E, TO_D, TO_E, Ready(E, Method.DISCOVER)],
            id="NEG-5 slow modern server",
        ),
        pytest.param(
            DEFAULT, [silence, error(UNSUPPORTED), found(E)], [TO_E, TO_D, TO_E, Ready(E, Method.DISCOVER)],
            id="NEG-5 slow modern server that names no version",
        ),
        pytest.param(
            DEFAULT, [silence, error(UNSUPPORTED, E), silence], [TO_E, TO_D, TO_E, FAIL], id="NEG-5 once only"
        ),
        pytest.param(
            DEFAULT, [silence, error(UNSUPPORTED, E), error(UNSUPPORTED, D)], [TO_E, TO_D, TO_E, FAIL],
            id="NEG-5 no circles",
        ),
        pytest.param(DEFAULT, [silence, silence], [TO_E, TO_D, FAIL], id="LIFE-18 nothing is ever answered"),
        pytest.param(ABCD, [told(D)], [TO_D, Ready(D, Method.INITIALIZE)], id="LIFE-2 legacy: no probe"),
        pytest.param(ABCD, [told(B)], [TO_D, Ready(B, Method.INITIALIZE)], id="LIFE-3 another version"),
        pytest.param(ABCD, [told(E)], [TO_D, FAIL], id="LIFE-2 the handshake never yields a stateless revision"),
        pytest.param(ABCD, [told(FUTURE)], [TO_D, FAIL], id="LIFE-4 unknown version"),
        pytest.param((C, D), [told(B)], [TO_D, FAIL], id="LIFE-4 version that is not allowed"),
        pytest.param(ABCD, [noise], [TO_D, FAIL], id="LIFE-4 no version"),
        pytest.param(ABCD, [exits], [TO_D, FAIL], id="NEG-4 no probe, no respawn"),
        pytest.param(ABCD, [silence], [TO_D, FAIL], id="NEG-5 no answer to initialize"),
        pytest.param(
            (A, D), [told(B), spawned, told(A)], [TO_D, Respawn(TO_A), TO_A, Ready(A, Method.INITIALIZE)],
            id="LIFE-4 a gap in the list: ask for an older one",
        ),
        pytest.param(
            (A, D), [told(B), spawned, told(B)], [TO_D, Respawn(TO_A), TO_A, FAIL], id="LIFE-4 each version once"
        ),
        pytest.param(
            ABCD, [error(INVALID_PARAMS, C, B), told(C)], [TO_D, TO_C, Ready(C, Method.INITIALIZE)],
            id="AMB-2 error that names versions",
        ),
        pytest.param(ABCD, [error(INVALID_PARAMS, D)], [TO_D, FAIL], id="AMB-2 names what it refused"),
        pytest.param(ABCD, [error(INVALID_PARAMS)], [TO_D, FAIL], id="AMB-2 names none"),
        pytest.param(
            ABCD, [error(INVALID_PARAMS, C), error(INVALID_PARAMS, C)], [TO_D, TO_C, FAIL], id="AMB-2 once"
        ),
        pytest.param(ABCD, [error(UNSUPPORTED, E)], [TO_D, FAIL], id="MOD-15 legacy client, modern server"),
        pytest.param(
            DEFAULT, [error(METHOD_NOT_FOUND), error(INVALID_PARAMS, B, A), told(B)],
            [TO_E, TO_D, TO_B, Ready(B, Method.INITIALIZE)], id="AMB-2 after a fallback",
        ),
    ],
)  # fmt: skip
def test_plans(allowed: tuple[Revision, ...], answers: list[Answer], steps: list[Step | str]) -> None:
    went = play(start(allowed), *answers)
    assert [FAIL if isinstance(step, Fail) else step for step in went] == steps


@req("NEG-6", everywhere=True)
@pytest.mark.parametrize("code", [UNSUPPORTED, HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY])
def test_neg_6_over_http_more_errors_are_modern(code: int) -> None:
    assert isinstance(play(start(DEFAULT, HTTP), error(code))[-1], Fail)
    assert play(start(DEFAULT, HTTP), error(code, D))[-1] == TO_D
    assert play(start(DEFAULT, HTTP), error(METHOD_NOT_FOUND))[-1] == TO_D


@req("NEG-7", "NEG-12", everywhere=True)
@pytest.mark.parametrize(
    ("allowed", "era", "prior", "steps", "answers"),
    [
        pytest.param(DEFAULT, None, (E, D), [Ready(E, Method.PRIOR)], [], id="NEG-12 zero round trips"),
        pytest.param(DEFAULT, None, (D, C), [TO_D], [], id="NEG-12 prior names legacy"),
        pytest.param(ABCD, None, (E, C), [TO_C], [], id="NEG-12 prior narrowed by configuration"),
        pytest.param(DEFAULT, None, (), [TO_E], [], id="NEG-12 empty prior"),
        pytest.param((E,), None, (D,), [TO_E], [], id="NEG-12 prior without a mutual version"),
        pytest.param(DEFAULT, Era.HANDSHAKE, None, [TO_D], [], id="NEG-7 legacy verdict: no probe"),
        pytest.param(DEFAULT, Era.STATELESS, None, [TO_E], [], id="NEG-7 modern verdict"),
        pytest.param((E,), Era.HANDSHAKE, None, [TO_E], [], id="NEG-7 verdict that is not allowed"),
        pytest.param(DEFAULT, Era.HANDSHAKE, None, [TO_D, TO_E, Ready(E, Method.DISCOVER)],
                     [error(UNSUPPORTED, E), found(E)], id="NEG-7 legacy verdict contradicted"),
        pytest.param(DEFAULT, Era.HANDSHAKE, None, [TO_D, TO_E, Ready(E, Method.DISCOVER)],
                     [error(METHOD_NOT_FOUND), found(E)], id="NEG-7 legacy verdict contradicted by any error"),
        pytest.param(DEFAULT, Era.HANDSHAKE, None, [TO_D, TO_E, Ready(E, Method.DISCOVER)],
                     [silence, found(E)], id="NEG-7 legacy verdict contradicted by silence"),
        pytest.param(DEFAULT, Era.HANDSHAKE, None, [TO_D, TO_E, FAIL], [silence, silence], id="NEG-7 no circles"),
    ],
)  # fmt: skip
def test_neg_7_and_12_what_is_known_from_before(
    allowed: tuple[Revision, ...],
    era: Era | None,
    prior: tuple[Revision, ...] | None,
    steps: list[Step | str],
    answers: list[Answer],
) -> None:
    names = None if prior is None else tuple(row.version for row in prior)
    went = play(start(allowed, era=era, prior=names), *answers)
    assert [FAIL if isinstance(step, Fail) else step for step in went] == steps


@req("NEG-13", everywhere=True)
def test_neg_13_no_revision_is_no_plan() -> None:
    with pytest.raises(ValueError, match="at least one revision"):
        start(())


# -- every pair of sets ----------------------------------------------------------------------------------------


def ours(step: Step, rows: tuple[Revision, ...]) -> Outcome:
    """What our server answers."""
    answer: Revision | UnsupportedProtocolVersion
    match step:
        case Discover(revision=row):
            answer = check_version(row.version, rows)
            if isinstance(answer, Revision):
                return discovered({"supportedVersions": list(versions(rows)), "capabilities": {}})
        case Initialize(revision=row):
            answer = answer_initialize(row.version, rows)
            if isinstance(answer, Revision):
                return initialized({"protocolVersion": answer.version})
        case _:
            return Spawned()
    return Refused(RpcError.from_wire(answer.to_wire()))


def before_discovery(step: Step, rows: tuple[Revision, ...]) -> Outcome:
    """What a server of the handshake era answers that has never heard of another."""
    return error(METHOD_NOT_FOUND)(step) if isinstance(step, Discover) else ours(step, rows)


def deaf(step: Step, rows: tuple[Revision, ...]) -> Outcome:
    """A server that answers nothing before it is initialized."""
    return silence(step) if isinstance(step, Discover) else ours(step, rows)


def brittle(step: Step, rows: tuple[Revision, ...]) -> Outcome:
    """A server that an unknown request ends."""
    return exits(step) if isinstance(step, Discover) else ours(step, rows)


def wordy(step: Step, rows: tuple[Revision, ...]) -> Outcome:
    """A server that refuses a version instead of answering with another (AMB-2)."""
    if isinstance(step, Initialize) and step.revision not in rows:
        return error(INVALID_PARAMS, *rows)(step)
    return before_discovery(step, rows)


def meet(plan: Plan, rows: tuple[Revision, ...], server: Server) -> Plan:
    """A client's plan carried out against a server."""
    for _ in range(12):
        if isinstance(plan.step, Ready | Fail):
            return plan
        plan = advance(plan, server(plan.step, rows))
    raise AssertionError(plan.evidence)


@req("NEG-2", "NEG-13", everywhere=True)
@pytest.mark.parametrize("allowed", SETS, ids=name)
@pytest.mark.parametrize("server", [ours, before_discovery, deaf, brittle, wordy])
def test_neg_2_and_13_every_pair_of_sets_agrees_or_fails(
    allowed: tuple[Revision, ...], server: Server
) -> None:
    """Each set of a client against each of a server: the newest revision both have, or an error."""
    for rows in SETS:
        if server is not ours and not set(rows) <= set(ABCD):
            continue  # such servers are of the handshake era
        common = [row for row in allowed if row in rows]
        plan = meet(start(allowed), rows, server)
        if common:
            assert isinstance(plan.step, Ready), (name(allowed), name(rows), plan.evidence)
            assert plan.step.revision is common[-1], (name(allowed), name(rows), plan.evidence)
        else:
            problem = failed(plan)
            assert problem.ours == tuple(row.name for row in reversed(allowed))
            assert all(line in str(problem) for line in problem.evidence)


@req("NEG-5", everywhere=True)
@pytest.mark.parametrize("allowed", [rows for rows in SETS if E in rows], ids=name)
def test_neg_5_a_server_that_was_too_slow_for_the_probe(allowed: tuple[Revision, ...]) -> None:
    """A handshake that succeeds stands, although the server has a newer revision."""
    for rows in (rows for rows in SETS if E in rows):
        plan = meet(advance(start(allowed), silence(TO_E)), rows, ours)
        sessions = [row for row in allowed if row.handshake]
        if not sessions:
            assert "no answer in 5 s" in str(failed(plan))  # a failure is final
            continue
        answer = answer_initialize(sessions[-1].version, rows)
        if answer in allowed:
            assert isinstance(plan.step, Ready)
            assert plan.step.revision is answer, (name(allowed), name(rows))
        elif not isinstance(answer, Revision):  # it names what it speaks, and is asked again
            assert plan.step == Ready(E, Method.DISCOVER), (name(allowed), name(rows))


@req("NEG-2", everywhere=True)
@pytest.mark.parametrize("server", [ours, before_discovery, wordy])
def test_neg_2_lists_without_gaps_agree_in_one_connection(
    server: Server,
) -> None:
    for low, high, bottom, top in product(range(len(DEFAULT)), repeat=4):
        allowed, rows = DEFAULT[low : high + 1], DEFAULT[bottom : top + 1]
        if allowed and rows and (server is ours or set(rows) <= set(ABCD)):
            plan = meet(start(allowed), rows, server)
            assert not any("connected again" in line for line in plan.evidence if set(allowed) & set(rows))


# -- every state and every outcome -------------------------------------------------------------------------------

STATES: dict[str, Plan] = {
    "discover": start(DEFAULT),
    "initialize": start(ABCD),
    "fallback": advance(start(DEFAULT), silence(TO_E)),
    "both": advance(start(DEFAULT), still(TO_E)),
    "respawn": advance(start(DEFAULT), exits(TO_E)),
    "ready": advance(start(DEFAULT), Discovered((E.version,))),
    "fail": advance(start((E,)), silence(TO_E)),
}
OUTCOMES: dict[type[Outcome], Answer] = {
    Discovered: found(E),
    Initialized: told(D),
    Refused: error(METHOD_NOT_FOUND),
    HttpRefused: status(404),
    InvalidReply: noise,
    Silent: still,
    BothAnswers: answers(None, told(D)),
    Exited: exits,
    Spawned: spawned,
}
MOVES: dict[type[Step], dict[type[Outcome], type[Step]]] = {
    Discover: {
        Discovered: Ready,
        Refused: Initialize,
        HttpRefused: Initialize,
        InvalidReply: Initialize,
        Silent: Both,
        Exited: Respawn,
    },
    Both: {BothAnswers: Ready},
    Initialize: {
        Initialized: Ready,
        Refused: Fail,
        HttpRefused: Respawn if A in DEFAULT else Fail,
        InvalidReply: Fail,
        Exited: Fail,
    },
    Respawn: {Spawned: Initialize, HttpRefused: Fail, Exited: Fail},
    Ready: {},
    Fail: {},
}


@req("NEG-4", everywhere=True)
def test_the_table_is_about_every_step_and_outcome() -> None:
    assert set(MOVES) == set(get_args(Step)) == {type(plan.step) for plan in STATES.values()}
    assert set(OUTCOMES) == set(get_args(Outcome))


@req("NEG-4", "NEG-5", everywhere=True)
@pytest.mark.parametrize(
    ("state", "outcome"),
    [(state, outcome) for state in STATES for outcome in MOVES[type(STATES[state].step)]],
)
def test_every_step_meets_every_outcome_that_it_can_have(state: str, outcome: type[Outcome]) -> None:
    plan = STATES[state]
    after = advance(plan, OUTCOMES[outcome](plan.step))
    assert len(after.evidence) == len(plan.evidence) + 1
    if (state, outcome) == ("fallback", Exited):
        assert after.step == Respawn(TO_D)
    else:
        assert type(after.step) is MOVES[type(plan.step)][outcome]


picked = st.sampled_from(
    [
        *OUTCOMES.values(),
        error(UNSUPPORTED),
        error(UNSUPPORTED, E, D, FUTURE),
        told(A),
        told(E),
        answers(found(E, D), told(D)),
        answers(error(UNSUPPORTED, E, D), error(METHOD_NOT_FOUND)),
        answers(exits, exits),
        status(401),
        status(500),
    ]
)
named = st.lists(st.sampled_from([*versions(ALL), FUTURE])).map(lambda names: error(INVALID_PARAMS, *names))


@req("NEG-13", "LIFE-2", everywhere=True)
@given(
    st.sampled_from(SETS), st.sampled_from([STDIO, HTTP]), st.lists(picked | named, min_size=40, max_size=40),
    st.none() | st.sampled_from(Era), st.none() | st.lists(st.sampled_from(versions(ALL))),
)  # fmt: skip
def test_neg_13_whatever_happens_a_plan_ends_within_what_is_allowed(
    allowed: tuple[Revision, ...],
    probe: Any,
    answers: list[Answer],
    era: Era | None,
    prior: list[str] | None,
) -> None:
    plan, moved = start(allowed, probe, era=era, prior=prior), 0
    for answer in answers:
        match plan.step:
            case Discover(revision=row):
                assert not row.handshake
            case Initialize(revision=row):
                assert row.handshake
            case Both(probe=probed, session=session):
                row = session.revision
                assert row.handshake
                assert probed.revision in allowed
            case Respawn(then=then):
                row = then.revision
                assert row.handshake is isinstance(then, Initialize)
            case Ready(revision=row):
                pass
            case Fail():
                break
        assert row in allowed
        outcome = answer(plan.step)
        if type(outcome) not in MOVES[type(plan.step)] or (outcome == Silent(1) and not may_ask_both(plan)):
            continue
        after = advance(plan, outcome)
        moved += after.step is not plan.step
        plan = after
    assert moved <= 20


# -- what people and programs are told ------------------------------------------------------------------------


@req("MOD-10", everywhere=True)
def test_mod_10_a_revision_that_is_refused_and_named_is_told_as_that() -> None:
    plan = start((D, E))
    for _ in range(2):
        plan = advance(plan, error(UNSUPPORTED, E)(plan.step))
    assert "the server refuses a revision that it names" in str(failed(plan))


@req("LIFE-4", everywhere=True)
def test_life_4_a_failure_names_both_lists_and_each_step() -> None:
    plan = start((D, E))
    for answer in (error(METHOD_NOT_FOUND), told(B)):
        plan = advance(plan, answer(plan.step))
    problem = failed(plan)
    assert (problem.ours, problem.theirs) == ((E.name, D.name), (B.version,))
    assert problem.evidence == (
        f"server/discover at {E.name}: error -32601 (no)",
        f"initialize at {D.name}: responded with {B.name}",
    )
    assert isinstance(plan.step, Fail)
    assert plan.step.last == Initialized(B.version)


@req("NEG-4", everywhere=True)
def test_neg_4_evidence_of_what_was_no_answer() -> None:
    plan = start(DEFAULT)
    for answer in (silence, exits, spawned, noise):
        plan = advance(plan, answer(plan.step))
    assert failed(plan).evidence == (
        f"server/discover at {E.name}: no answer in 5 s",
        "the process ended with 1",
        "connected again",
        f"initialize at {D.name}: a result that names no versions",
    )


@req("LIFE-4", "SEC-6", everywhere=True)
def test_what_a_peer_sends_is_bounded_and_printable() -> None:
    message = "\x1b[31m" + "x" * 100_000
    data = {"supported": ["\x07" * 1000, 7, None, *(f"{n}" for n in range(10_000))]}
    refused = Refused(RpcError.from_wire({"code": -1, "message": message, "data": data}))
    text = str(failed(advance(start((E,)), refused)))
    assert len(text) < 2000
    assert "\x1b" not in text
    assert "\x07" not in text
    assert len(failed(advance(start((E,)), refused)).theirs) <= MAX_VERSIONS


@req("NEG-4", everywhere=True)
@pytest.mark.parametrize(
    "result",
    [None, [], "x", {}, {"supportedVersions": None}, {"supportedVersions": []}, {"supportedVersions": [1]},
     {"supportedVersions": "2026"}, {"content": []}],
)  # fmt: skip
def test_neg_4_a_result_that_is_no_discovery(result: object) -> None:
    assert isinstance(discovered(result), InvalidReply)
    assert isinstance(initialized(result), InvalidReply)


@req("NEG-2", everywhere=True)
def test_neg_2_results_are_read() -> None:
    assert discovered({"supportedVersions": ["a", 1, "b"]}) == Discovered(("a", "b"))
    assert initialized({"protocolVersion": "a"}) == Initialized("a")
    assert isinstance(initialized({"protocolVersion": 1}), InvalidReply)


@req("NEG-1", "AMB-2", everywhere=True)
@pytest.mark.parametrize("row", ABCD, ids=lambda row: row.name)
def test_a_preferred_revision_is_asked_for_first(row: Revision) -> None:
    plan = start(DEFAULT, prefer=row)
    assert plan.step == Initialize(row)
    assert advance(plan, Initialized(row.version)).step == Ready(row, Method.INITIALIZE)
    other = next(found for found in reversed(ABCD) if found is not row)
    assert advance(plan, Initialized(other.version)).step == Ready(other, Method.INITIALIZE)
    refused = advance(plan, Refused(RpcError("no", code=METHOD_NOT_FOUND), None))
    assert refused.step == Discover(E), "a server without sessions is found too"
    known = start(DEFAULT, prefer=row, era=Era.HANDSHAKE)
    assert known.step == Initialize(row)
    assert start(DEFAULT, prefer=row, era=Era.STATELESS).step == Discover(E)
    assert start((E,), prefer=row).step == Discover(E)
    assert start(DEFAULT, prefer=E).step == Discover(E)
