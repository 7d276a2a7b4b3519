"""Linux, macOS and other POSIX systems."""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import shlex
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from mcprev.platforms.interface import GroupOptions, System
from mcprev.platforms.posix_pipes import FileWriter, is_watchable, pipe_from

assert sys.platform != "win32"

_MACOS: Final = sys.platform == "darwin"
_INHERITED: Final = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
)  # fmt: skip


class ProcessGroup:
    """A process group, by its leader."""

    def __init__(self, leader: int) -> None:
        self._leader = leader

    def terminate(self) -> None:
        """Send SIGTERM to all processes of the group that are left."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to all processes of the group that are left."""
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._leader, number)


def _is_closed(descriptor: int) -> bool:
    """Return whether the other end of a pipe is closed."""
    poll = select.poll()
    poll.register(descriptor, getattr(select, "POLLRDHUP", 0))
    return bool(poll.poll(0))


class Posix:
    """A POSIX system, as `interface.Platform` describes it."""

    system: System = "macos" if _MACOS else "posix"
    terminal_closed: int = signal.SIGHUP
    ending_signals: Sequence[int] = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    reload_signals: Sequence[int] = (signal.SIGHUP,)
    kill_signal: signal.Signals = signal.SIGKILL
    unix_sockets: int | None = socket.AF_UNIX
    shares_sockets: bool = True
    no_follow: int = os.O_NOFOLLOW
    fork: Callable[[], int] | None = staticmethod(os.fork)
    inherited: Sequence[str] = _INHERITED  # STDIO-10

    # -- processes -----------------------------------------------------------------------------------------

    @property
    def group_options(self) -> GroupOptions:
        """A session of its own: signals of the terminal are for this process, which tells those that it has started."""
        return {"start_new_session": True}

    def environment(self, *variables: Mapping[str, str]) -> dict[str, str]:
        """Return one environment."""
        return {name: value for each in variables for name, value in each.items()}

    def tree(self, leader: int) -> ProcessGroup:
        """Return the process group of a leader."""
        return ProcessGroup(leader)

    async def start(
        self,
        protocol: Callable[[], asyncio.SubprocessProtocol],
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str | os.PathLike[str] | None,
    ) -> None:
        """Start a program in a session of its own."""
        await asyncio.get_running_loop().subprocess_exec(
            protocol, *command, env=environment, cwd=folder, start_new_session=True
        )

    def find_program(self, name: str) -> str | None:
        """Return the path of a program."""
        return shutil.which(name)

    def ask_to_end(self, process: asyncio.subprocess.Process) -> None:
        """Send SIGTERM."""
        process.terminate()

    def joined(self, words: Sequence[str]) -> str:
        """Return a command line for a POSIX shell."""
        return shlex.join(words)

    def go_on_in_child(self) -> None:
        """Return in a child if this process has to reap."""
        from mcprev.platforms.first_process import go_on_in_child

        go_on_in_child()

    def process_owner(self) -> int:
        """Return the real user id."""
        return os.getuid()

    # -- signals -------------------------------------------------------------------------------------------

    def handle_signal(self, loop: asyncio.AbstractEventLoop, number: int, call: Callable[[], object]) -> None:
        """Let the event loop handle a signal."""
        loop.add_signal_handler(number, call)

    def keep_calls_going(self, number: int) -> None:
        """Restart system calls."""
        signal.siginterrupt(number, False)  # noqa: FBT003 - the name of the parameter is not public

    # -- pipes ---------------------------------------------------------------------------------------------

    async def connect_reader(
        self, protocol: Callable[[], asyncio.Protocol], descriptor: int
    ) -> tuple[asyncio.ReadTransport, Callable[[], bool]]:
        """Let the event loop watch a pipe; a thread copies into one what it cannot watch."""
        watched = descriptor if is_watchable(descriptor) else pipe_from(descriptor)
        source = os.fdopen(watched, "rb", buffering=0)
        reader, _ = await asyncio.get_running_loop().connect_read_pipe(protocol, source)
        return reader, partial(_is_closed, watched)

    async def connect_writer(
        self, protocol: Callable[[], asyncio.BaseProtocol], descriptor: int
    ) -> asyncio.WriteTransport:
        """Let the event loop watch a pipe; what it cannot watch is written directly."""
        if not is_watchable(descriptor):
            return FileWriter(descriptor, protocol())
        target = os.fdopen(descriptor, "wb", buffering=0)
        writer, _ = await asyncio.get_running_loop().connect_write_pipe(protocol, target)
        return writer

    def blocking_of(self, descriptors: Sequence[int]) -> Callable[[], None]:
        """Keep the mode for other processes that share a terminal or pipe."""
        kept = [(each, os.get_blocking(each)) for each in descriptors]

        def restore() -> None:
            for descriptor, blocking in kept:
                with suppress(OSError):
                    os.set_blocking(descriptor, blocking)

        return restore

    def has_input(self, transport: asyncio.BaseTransport) -> bool:
        """Ask the system, whatever the number of the descriptor."""
        connected: socket.socket | None = transport.get_extra_info("socket")
        if connected is None or connected.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(connected.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    async def read_terminal(self, descriptor: int, size: int) -> bytes:
        """Let the event loop watch the terminal."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(descriptor)
        return os.read(descriptor, size)

    # -- files ---------------------------------------------------------------------------------------------

    def lock(self, descriptor: int) -> None:
        """Lock a file, which the system unlocks at the end of the process."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(self, descriptor: int) -> None:
        """Unlock a file; closing alone would not while a child process has a copy of the descriptor."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file; those who read the other one go on with it."""
        source.replace(target)

    def belongs_to_another(self, found: os.stat_result, *, except_root: bool = False) -> bool:
        """Return whether the owner is neither the user nor, if that counts, root."""
        return found.st_uid != os.geteuid() and not (except_root and found.st_uid == 0)

    def is_written_by(self, others: int, found: os.stat_result) -> bool:
        """Look at the mode."""
        return bool(found.st_mode & others)

    def config_folder(self) -> Path:
        """Return the folder in XDG_CONFIG_HOME, or in the library of macOS."""
        return self.settings_folder() / "mcprev"

    def cache_folder(self) -> Path:
        """Return the folder in XDG_CACHE_HOME, or in the library of macOS."""
        if _MACOS:
            return Path.home() / "Library" / "Caches" / "mcprev"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcprev"

    def settings_folder(self) -> Path:
        """Return XDG_CONFIG_HOME, or the library of macOS."""
        if _MACOS:
            return Path.home() / "Library" / "Application Support"
        return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")

    def open_files_limit(self) -> int | None:
        """Return the soft limit."""
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return None if soft == resource.RLIM_INFINITY else soft

    def nameless_file(self, size: int) -> int:
        """Return a file in memory on Linux, where it needs no folder; elsewhere a temporary one."""
        if sys.platform == "linux":
            descriptor = os.memfd_create("mcprev", os.MFD_CLOEXEC)
            os.truncate(descriptor, size)
            return descriptor
        with tempfile.TemporaryFile() as file:
            file.truncate(size)
            return os.dup(file.fileno())
