"""A bound that clients share, of which each has a share (SEC-6)."""

from __future__ import annotations

import pytest

from helpers.requirements import req
from mcprev.core.shares import Shares, share_of


@pytest.mark.parametrize(
    ("most", "least", "share"),
    [(64, 1, 16), (16, 1, 4), (4, 1, 1), (3, 1, 1), (1, 1, 1), (0, 1, 0), (8, 4, 4), (2, 4, 2), (100, 4, 25)],
)
def test_a_share_is_a_quarter_and_never_nothing(most: int, least: int, share: int) -> None:
    assert share_of(most, least) == share


@req("SEC-6")
def test_no_client_takes_more_than_its_share_and_all_together_no_more_than_the_bound() -> None:
    shares = Shares(8, 3)
    assert [shares.take("a") for _ in range(4)] == [True, True, True, False]
    assert shares.exceeds_share("a")
    assert not shares.exceeds_share("b")
    assert [shares.take(name) for name in ("b", "b", "c", "c", "c", "d")] == [True] * 5 + [False]
    assert shares.held == 8
    assert not shares.exceeds_share("d"), "the bound, not the share, has refused it"
    shares.give("a")
    assert shares.of("a") == 2
    assert shares.take("d")


@req("SEC-6")
def test_a_size_that_is_refused_reserves_nothing() -> None:
    shares = Shares(100, 60)
    assert shares.take("a", 50)
    assert not shares.take("a", 11)
    assert not shares.take("b", 51)
    assert (shares.of("a"), shares.of("b"), shares.held) == (50, 0, 50)
    shares.give("a", 50)
    assert (shares.of("a"), shares.held) == (0, 0)
    held = shares._held  # pyright: ignore[reportPrivateUsage]
    assert not held, "who holds nothing is forgotten"


@req("SEC-6")
def test_clients_that_nothing_tells_apart_share_the_bound() -> None:
    shares = Shares(4, 1)
    assert [shares.take(None) for _ in range(5)] == [True] * 4 + [False]
    shares.give(None)
    assert shares.take("a")
