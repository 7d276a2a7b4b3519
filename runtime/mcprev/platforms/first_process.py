"""The first process of a container, which inherits every process whose parent has ended, and has to reap it.

A launcher that a tool or a bridge starts may leave such orphans; each would be a zombie until the container ends. The server
itself cannot tell them from its own children, so it goes on in a child, and the first process reaps and passes on signals, as
the inits of containers do.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Final

assert sys.platform != "win32"

FIRST: Final = 1
_SIGNALLED: Final = 128
"""What is added to the number of the signal that has ended the server, for the exit code."""


def go_on_in_child() -> None:
    """Return in a child if this is the first process of its PID namespace; that one ends with the exit code of the child.

    Call this before there are threads.
    """
    if os.getpid() != FIRST:
        return
    passed_on = {
        signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
    }  # fmt: skip
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*passed_on, signal.SIGCHLD})
    child = os.fork()
    if child:
        os._exit(_reap(child, passed_on))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _reap(child: int, passed_on: set[signal.Signals]) -> int:
    """Reap every process that ends, and return the exit code of the server."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for pipe in (0, 1):  # which end with the server
        os.dup2(nothing, pipe)
    while True:
        found = signal.sigwaitinfo({*passed_on, signal.SIGCHLD})
        if (
            found.si_signo in passed_on and found.si_code <= 0
        ):  # else of the terminal, which signals the server too
            with suppress(ProcessLookupError):
                os.kill(child, found.si_signo)
        code = _ended(child)
        if code is not None:
            return code if code >= 0 else _SIGNALLED - code


def _ended(child: int) -> int | None:
    """Reap those that have ended; return the exit code of the server if it is one of them."""
    code = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
    return code
