"""The timer of an HTTP server: long requests, silent streams, slow clients, idle sessions (HTTPM-5, HTTPM-9, HTTP-27).

Each request is an entry in a table. After `defer` seconds its client is watched for disconnecting, and its response may
become a stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mcprev.transports.http.server.response_stream import ResponseStream


class Timers:
    """Runs all timeouts of an HTTP server with one timer of the event loop."""

    def __init__(
        self,
        expire: Callable[[float], float | None],
        *,
        defer: float,
        keep_alive: float,
        stall: float,
        body_timeout: float,
    ) -> None:
        """`expire` ends idle sessions and returns the time of its next run. Times are in seconds."""
        self._loop = asyncio.get_running_loop()
        self._expire = expire
        self._defer, self._keep_alive, self._stall = defer, keep_alive, stall
        self._body_timeout = body_timeout
        self._pace = min(1.0, keep_alive / 2, stall / 2, body_timeout / 2)
        self._recent: dict[ResponseStream, None] = {}
        self._long: set[ResponseStream] = set()
        self.reading: dict[asyncio.Task[object], float] = {}
        """The tasks that read a request body, and their start times; a task removes itself."""
        self.late: set[asyncio.Task[object]] = set()
        """The tasks that were cancelled because their clients sent a body too slowly."""
        self._timer: asyncio.TimerHandle | None = None
        self._due = float("inf")

    def begin(self, response_stream: ResponseStream) -> None:
        """Start watching a request."""
        self._recent[response_stream] = None
        if response_stream.began + self._defer < self._due:
            self.at(response_stream.began + self._defer)

    def end(self, response_stream: ResponseStream) -> None:
        """Stop watching a request."""
        if response_stream in self._recent:
            del self._recent[response_stream]
        else:
            self._long.discard(response_stream)

    def reads(self, task: asyncio.Task[object]) -> None:
        """Start the timeout of a task that reads a request body."""
        now = self.reading[task] = self._loop.time()
        if now + self._body_timeout < self._due:
            self.at(now + self._body_timeout)

    def at(self, when: float) -> None:
        """Run the timer at a time at the latest."""
        if when >= self._due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = when
        self._timer = self._loop.call_at(when, self._tick)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due = None, float("inf")

    def _tick(self) -> None:
        self._timer, self._due = None, float("inf")
        now = self._loop.time()
        next_times = [self._watch_long(now)]
        for response_stream in tuple(self._long):
            response_stream.tick(now, self._keep_alive, self._stall)
        if self._long:
            next_times.append(now + self._pace)
        for task, since in self.reading.items():
            if now - since >= self._body_timeout and task not in self.late:
                self.late.add(task)
                task.cancel()
        if self.reading:
            next_times.append(min(self.reading.values()) + self._body_timeout)
        next_times.append(self._expire(now))
        for when in next_times:
            if when is not None:
                self.at(max(when, now + self._defer / 4))

    def _watch_long(self, now: float) -> float | None:
        """Watch the clients of requests that run longer than `defer`; return the time of the next one."""
        for response_stream in tuple(self._recent):
            if now - response_stream.began < self._defer:
                return response_stream.began + self._defer
            del self._recent[response_stream]
            self._long.add(response_stream)
            response_stream.watch_client()
        return None
