"""The listening socket of a server: of an address, a Unix socket, or one that a service manager has opened (HTTP-3)."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Final, cast

from mcprev.platforms import HERE

BACKLOG: Final = 2048
UNIX: Final = "unix:"
"""How the host of a Unix socket begins; its path follows."""
EVERYWHERE: Final = "::"
"""The address of IPv6 that stands for all addresses, those of IPv4 too."""
_FIRST: Final = 3
"""The descriptor of the first socket that a service manager passes on (sd_listen_fds)."""


def listen(host: str, port: int) -> socket.socket:
    """Return the socket that the service manager of this process has opened for it, else one that listens at an address.

    Raises `OSError`.
    """
    return inherited() or bind(host, port)


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises `OSError` if the address is in use or not local."""
    if host.startswith(UNIX):
        return _bind_unix(host.removeprefix(UNIX))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == EVERYWHERE and socket.has_dualstack_ipv6()
    listening = socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=both)
    _send_at_once(listening)
    return listening


def inherited() -> socket.socket | None:
    """Return the socket that systemd, or a manager like it, has opened for this process; None without one.

    The variables that say so are removed, since other processes get none. Raises `OSError` for what cannot be served.
    """
    process, count = os.environ.get("LISTEN_PID"), os.environ.get("LISTEN_FDS")
    if process != str(os.getpid()) or count is None:
        return None
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        os.environ.pop(name, None)
    if count != "1":
        raise OSError(
            f"LISTEN_FDS is {count}: a server has one socket; `ListenStream=[::]:8000` with `BindIPv6Only=both` listens at both "
            "families"
        )
    listening = socket.socket(fileno=_FIRST)
    listening.set_inheritable(False)
    if listening.type != socket.SOCK_STREAM or not listening.getsockopt(
        socket.SOL_SOCKET, socket.SO_ACCEPTCONN
    ):
        raise OSError(
            "the socket of LISTEN_FDS does not listen: the unit needs `ListenStream=`, and no `Accept=yes`"
        )
    _send_at_once(listening)
    return listening


def described(listening: socket.socket) -> tuple[str, str, str]:
    """Return where a socket listens: the beginning of its URLs, or `unix:` and the path; the host alone; and what to say beside."""
    name = _name(listening)
    if isinstance(name, str):
        return f"{UNIX}{name} ", "localhost", ""
    host, port = name
    where = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    both = host == EVERYWHERE and not listening.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    return where, host, " (IPv6 and IPv4)" if both else ""


def port_of(listening: socket.socket) -> int:
    """Return the port of a socket; 0 for a Unix socket."""
    name = _name(listening)
    return 0 if isinstance(name, str) else name[1]


def _name(listening: socket.socket) -> tuple[str, int] | str:
    """Return the address and port of a socket, or the path of a Unix socket."""
    found: object = listening.getsockname()
    if not isinstance(found, tuple):
        return str(found)
    host, port, *_ = cast("tuple[str, int]", found)
    return host, port


def _send_at_once(listening: socket.socket) -> None:
    # Connections inherit this; asyncio sets it only for sockets that were created with IPPROTO_TCP.
    if listening.family != HERE.unix_sockets:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _bind_unix(path: str) -> socket.socket:
    """Return a listening Unix socket, in place of one that nobody listens at any more. The umask says who may connect."""
    if not path:
        raise OSError("a Unix socket needs a path, as in unix:/run/shop/shop.sock")
    if HERE.unix_sockets is None:
        raise OSError("Python has no Unix sockets on Windows: listen at an address, such as 127.0.0.1:8000")
    listening = socket.socket(HERE.unix_sockets)
    try:
        if _is_left_over(path, HERE.unix_sockets):
            Path(path).unlink(missing_ok=True)
        listening.bind(path)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"cannot listen at {UNIX}{path}: {error.strerror or error}") from error
    return listening


def _is_left_over(path: str, family: int) -> bool:
    """Return whether a path is a socket at which nobody listens."""
    if not Path(path).is_socket():
        return False
    with socket.socket(family) as asking:
        try:
            asking.connect(path)
        except OSError as error:
            return error.errno == errno.ECONNREFUSED
    return False
