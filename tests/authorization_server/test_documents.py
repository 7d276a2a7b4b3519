"""The metadata documents of clients: fetched within bounds, and kept for a time (AUTH-12, SEC-1)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import pytest

from authorization_server.test_attacks import Slow
from authorization_server.town import REDIRECT, SECRET, Clock, Town
from helpers.requirements import req
from helpers.running import run, until
from mcprev.auth.authorization_server import documents
from mcprev.auth.authorization_server.documents import ClientDocuments
from mcprev.auth.authorization_server.keys import ServerKeys
from mcprev.auth.authorization_server.options import LoginSettings
from mcprev.auth.authorization_server.requests import PageError
from mcprev.auth.authorization_server.vault import Vault
from mcprev.core.store import Records
from mcprev.stores.memory import MemoryRecords

URL: Final = "https://app.example/client.json"
GONE: Final = "https://app.example/gone.json"


class Publisher:
    """Serves a document at every path, and counts the requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.running = self.most = 0
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        self.asked.append(path)
        self.running += 1
        self.most = max(self.most, self.running)
        await self.go.wait()
        self.running -= 1
        found = {"client_id": f"https://app.example{path}", "client_name": path, "redirect_uris": [REDIRECT]}
        status = 404 if path == "/gone.json" else 200
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(found).encode()})


@asynccontextmanager
async def looking_up(
    records: Records | None = None, **options: Any
) -> AsyncIterator[tuple[Publisher, ClientDocuments]]:
    """The documents of a server, and where they are published: at app.example, and at port 8109 of every host."""
    publisher = Publisher()
    async with Town({}) as town:
        town.apps["app.example"] = town.apps["8109"] = publisher
        settings = LoginSettings(session=town.session, **options)
        vault = Vault(records or MemoryRecords(), ServerKeys(SECRET), "as", Clock())
        yield publisher, ClientDocuments(vault, settings)


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that is never set."""
    clock = Clock()
    monkeypatch.setattr(documents, "monotonic", clock)
    return clock


async def refused(known: ClientDocuments, url: str, address: str = "a") -> int:
    """The status of the page with which a client is refused."""
    with pytest.raises(PageError) as caught:
        await known.client(url, address)
    return caught.value.status


@req("AUTH-12")
def test_a_document_is_kept_for_an_hour_and_a_failure_for_a_minute(steady: Clock) -> None:
    async def main() -> None:
        async with looking_up(registrations=4) as (publisher, known):
            for seconds, asked in ((0, 1), (3599, 1), (2, 2), (1, 2)):
                steady.now += seconds
                assert (await known.client(URL, "a")).name == "/client.json"
                assert len(publisher.asked) == asked
            for seconds, asked in ((0, 3), (59, 3), (2, 4), (1, 4)):
                steady.now += seconds
                assert await refused(known, GONE) == 400
                assert len(publisher.asked) == asked
            assert await refused(known, URL + "2") == 429, "four were fetched for this address"
            assert (await known.client(URL, "a")).is_document, "what is kept costs nothing"

    run(main())


@req("SEC-1")
def test_the_server_fetches_few_documents_at_a_time_and_each_once() -> None:
    async def main() -> None:
        async with looking_up() as (publisher, known):
            publisher.go.clear()
            same = [asyncio.ensure_future(known.client(URL, f"b{at}")) for at in range(20)]
            await until(lambda: publisher.running == 1)
            same[0].cancel()
            others = [asyncio.ensure_future(known.client(f"{URL}{at}", "a")) for at in range(40)]
            await until(lambda: publisher.running == documents.PARALLEL)
            publisher.go.set()
            found = await asyncio.gather(*same[1:], *others, return_exceptions=True)
            assert [getattr(each, "name", None) for each in found[:19]] == ["/client.json"] * 19
            wrong = [each for each in found[19:] if isinstance(each, BaseException)]
            assert len(wrong) == 40 - documents.PARALLEL + 1
            assert all(isinstance(each, PageError) and each.status == 429 for each in wrong)
            assert publisher.asked.count("/client.json") == 1
            assert publisher.most == documents.PARALLEL

    run(main())


@req("SEC-1")
def test_requests_that_wait_for_the_store_start_one_fetch() -> None:
    async def main() -> None:
        async with looking_up(Slow()) as (publisher, known):
            found = await asyncio.gather(*(known.client(URL, f"b{at}") for at in range(4)))
            assert [each.name for each in found] == ["/client.json"] * 4
            assert len(publisher.asked) == 1

    run(main())


@req("SEC-1")
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "10.0.0.1", "2130706433", "localhost", "[::1]", "169.254.169.254"]
)
def test_nothing_is_asked_of_a_private_network(host: str) -> None:
    async def main() -> None:
        async with looking_up() as (publisher, known):
            assert await refused(known, f"https://{host}:8109/client.json") == 400
            assert publisher.asked == []
            assert await refused(known, "https://app.example:8109/client.json") == 400, "it names another URL"
            assert publisher.asked == ["/client.json"], "this one is asked"

    run(main())


@req("SEC-1")
def test_one_address_does_not_use_up_what_all_may_have_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "FETCHES", 5)

    async def main() -> None:
        async with looking_up(registrations=2) as (publisher, known):
            for address, asked in (("a", 2), ("b", 4), ("c", 5), ("d", 5)):
                for at in range(4):
                    with suppress(PageError):
                        await known.client(f"{URL}{address}{at}", address)
                assert len(publisher.asked) == asked, "two for an address, five for all"

    run(main())


def test_as_many_documents_are_kept_as_the_limit(monkeypatch: pytest.MonkeyPatch, steady: Clock) -> None:
    monkeypatch.setattr(documents, "KEPT", 3)

    async def main() -> None:
        async with looking_up() as (publisher, known):
            for at in (1, 2, 3, 1, 4, 1, 3, 2):  # the second one was used the longest time ago
                await known.client(f"{URL}{at}", "a")
            assert [path[-1] for path in publisher.asked] == ["1", "2", "3", "4", "2"]
            assert await refused(known, GONE) == 400
            await known.client(f"{URL}2", "a")
            assert len(publisher.asked) == 6, "failures push out no documents"
            steady.now += 3601
            publisher.asked.clear()
            for at in (1, 5, 6, 1):  # 1 was known, and is new again
                await known.client(f"{URL}{at}", "a")
            assert [path[-1] for path in publisher.asked] == ["1", "5", "6"]

    run(main())


@req("SEC-6")
def test_one_address_takes_a_quarter_of_what_everybody_may_store() -> None:
    async def main() -> None:
        vault = Vault(MemoryRecords(), ServerKeys(SECRET), "as", Clock())

        async def write(name: str, address: str) -> bool:
            return await vault.write_within(20_000, "attempt", name, "x" * 1_000, ttl=60, address=address)

        flood = [await write(f"flood {number}", "address 203.0.113.1") for number in range(20)]
        assert 0 < sum(flood) < 5
        assert [await write(f"honest {number}", "address 198.51.100.1") for number in range(2)] == [
            True,
            True,
        ]

    run(main())
