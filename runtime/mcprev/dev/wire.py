"""Turns what the tap of a client reports into events of the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mcprev.client.recording.tap import HttpExchange, WireEvent, WireKind
from mcprev.dev.event_log import EventLog
from mcprev.dev.events import IN, OUT, Seen, SeenExchange
from mcprev.errors import Json
from mcprev_types import Direction

EXCHANGES: Final = 10_000
"""How many HTTP exchanges of one client may still change."""
_KINDS: Final = {
    WireKind.OPENED: "opened",
    WireKind.MESSAGE: "message",
    WireKind.REQUEST: "exchange",
    WireKind.EVENT: "exchange",
    WireKind.ENDED: "exchange",
    WireKind.LOST: "lost",
    WireKind.FAILED: "lost",
    WireKind.STDERR: "stderr",
    WireKind.LOGIN: "login",
    WireKind.CLOSED: "closed",
}
"""The kind of event for each kind of report; a response only adds to its exchange."""
_TEXTS: Final = {WireKind.ENDED: "the stream ended", WireKind.EVENT: "an event without a message"}
Answered = Callable[[SeenExchange, bool], None]


class WireEvents:
    """The events of one client."""

    def __init__(
        self,
        log: EventLog,
        name: str,
        revision: str | None,
        answered: Answered,
        stderr: Callable[[bytes], None],
    ) -> None:
        """`answered` is told of each response that begins, and whether it is one of a login; `stderr` of what a process
        writes there.
        """
        self._log, self._name, self._revision = log, name, revision
        self._answered, self._stderr = answered, stderr
        self._exchanges: dict[int, SeenExchange] = {}
        self._logins: set[int] = set()
        """The exchanges of logins, which are few."""

    def __call__(self, report: WireEvent) -> None:
        """Add what was reported to the session."""
        exchange = None if report.exchange is None else self._exchange(report.exchange)
        at = max(report.at - self._log.began, 0.0)
        if report.kind is WireKind.RESPONSE:
            if exchange is not None and report.exchange is not None:
                _complete(exchange, report.exchange, at)
                self._answered(exchange, exchange.n in self._logins)
            return
        if report.kind is WireKind.LOGIN and exchange is not None:
            self._logins.add(exchange.n)
        if report.kind is WireKind.STDERR:
            self._stderr(report.data)
        text = report.text or _TEXTS.get(report.kind, "")
        self._log.add(
            Seen(
                _KINDS[report.kind],
                OUT if report.direction is Direction.CLIENT_TO_SERVER else IN,
                f"{self._name}.{report.connection}",
                report.data or text.encode(errors="replace"),
                exchange,
                report.event_id,
                report.event_name,
                at,
                own=report.kind is not WireKind.MESSAGE,
                revision=self._revision,
            )
        )

    def _exchange(self, found: HttpExchange) -> SeenExchange:
        exchange = self._exchanges.get(found.number)
        if exchange is None:
            if len(self._exchanges) >= EXCHANGES:
                del self._exchanges[next(iter(self._exchanges))]
            exchange = self._log.exchange(found.verb, found.url, tuple(found.sent))
            self._exchanges[found.number] = exchange
        return exchange


def _complete(exchange: SeenExchange, found: HttpExchange, at: float) -> None:
    exchange.status, exchange.reason, exchange.answered = found.status, found.reason, round(at, 6)
    exchange.sent, exchange.received = tuple(found.sent), tuple(found.received)


def as_json(exchange: SeenExchange) -> Json:
    """Return what the page is told when a response begins."""
    return {"exchange": exchange.n, "status": exchange.status, "answered": exchange.answered}
