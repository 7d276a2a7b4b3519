"""Windows. What only Windows can answer is asked of a `Kernel`; all else here runs, and is tested, everywhere."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

from mcprev.platforms.interface import GroupOptions, System
from mcprev.platforms.thread_pipes import ThreadReader, ThreadWriter
from mcprev.platforms.windows_commands import command_line, found_program, merged
from mcprev.platforms.windows_process import ThreadProcess

INHERITED: Final = (
    "ALLUSERSPROFILE", "APPDATA", "COMMONPROGRAMFILES", "COMMONPROGRAMFILES(X86)", "COMMONPROGRAMW6432", "COMPUTERNAME",
    "COMSPEC", "HOME", "HOMEDRIVE", "HOMEPATH", "LANG", "LOCALAPPDATA", "NUMBER_OF_PROCESSORS", "OS", "PATH", "PATHEXT",
    "PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "PUBLIC", "SYSTEMDRIVE",
    "SYSTEMROOT", "TEMP", "TERM", "TMP", "TZ", "USERDOMAIN", "USERNAME", "USERPROFILE", "WINDIR",
)  # fmt: skip
"""Without SYSTEMROOT no socket opens, without PATHEXT no `npx` is found, without APPDATA no package of npm."""
REPLACING: Final = 2.0
"""Seconds for which a file is waited for that another process reads: meanwhile Windows does not replace it."""
_REPLACE_INTERVAL: Final = 0.01


class Kernel(Protocol):
    """What only Windows can answer: `windows_kernel` asks it."""

    @property
    def ctrl_break(self) -> int:
        """The signal of Ctrl+Break, and of a console that is closed."""
        ...

    def group_flags(self) -> int:
        """Return the flags of a process that leads a tree and waits for `job`."""
        ...

    def popen(
        self,
        line: str,
        executable: str | None,
        environment: Mapping[str, str],
        folder: str | os.PathLike[str] | None,
    ) -> subprocess.Popen[bytes]:
        """Start a process with pipes, which leads a tree and waits for `job`."""
        ...

    def job(self, leader: int) -> int | None:
        """Put a process that waits into a job of its own, and let it run; None if there is no job."""
        ...

    def end_job(self, job: int) -> None:
        """End all processes of a job, and the job."""
        ...

    def end_process(self, process: int) -> None:
        """End one process."""
        ...

    def send_break(self, leader: int) -> None:
        """Send Ctrl+Break to a tree."""
        ...

    def system_folder(self) -> str:
        """Return the folder with the programs of Windows."""
        ...

    def cancel(self, thread: int) -> None:
        """End the read or write for which a thread waits."""
        ...

    def as_bytes(self, descriptor: int) -> None:
        """Let a descriptor pass line ends as they are."""
        ...

    def lock(self, descriptor: int) -> None:
        """Lock a file."""
        ...

    def unlock(self, descriptor: int) -> None:
        """Unlock a file."""
        ...


class JobTree:
    """The job of a process: it ends with this process, however that ends."""

    def __init__(self, kernel: Kernel, leader: int) -> None:
        self._kernel, self._leader = kernel, leader
        self._job = kernel.job(leader)

    def terminate(self) -> None:
        """Send Ctrl+Break to the processes of the tree that share our console."""
        self._kernel.send_break(self._leader)

    def kill(self) -> None:
        """End the job."""
        job, self._job = self._job, None
        if job is not None:
            self._kernel.end_job(job)
        else:
            self._kernel.end_process(self._leader)


class Windows:
    """Windows, as `interface.Platform` describes a system."""

    system: System = "windows"
    reload_signals: Sequence[int] = ()
    kill_signal: signal.Signals = signal.SIGTERM
    """With which Python ends a process at once."""
    unix_sockets: int | None = None
    shares_sockets: bool = False
    no_follow: int = 0
    fork: Callable[[], int] | None = None
    inherited: Sequence[str] = INHERITED  # STDIO-10

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.terminal_closed: int = kernel.ctrl_break
        self.ending_signals: Sequence[int] = (signal.SIGTERM, kernel.ctrl_break)

    # -- processes -----------------------------------------------------------------------------------------

    @property
    def group_options(self) -> GroupOptions:
        """A process group of its own, in which the process waits for `tree`."""
        return {"creationflags": self._kernel.group_flags()}

    def environment(self, *variables: Mapping[str, str]) -> dict[str, str]:
        """Return one environment; the case of names means nothing."""
        return merged(variables)

    def tree(self, leader: int) -> JobTree:
        """Put a process into a job, and let it run."""
        return JobTree(self._kernel, leader)

    async def start(
        self,
        protocol: Callable[[], asyncio.SubprocessProtocol],
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str | os.PathLike[str] | None,
    ) -> None:
        """Start a program, or a batch file with quoted arguments; threads read and write its pipes."""
        program = found_program(command[0], environment, folder)
        if program is None:
            raise FileNotFoundError("there is no such program in PATH, with an ending of PATHEXT")
        executable, line = command_line(program, command[1:], self._kernel.system_folder())
        popen = self._kernel.popen(line, executable, environment, folder)
        ThreadProcess(popen, protocol(), self._kernel.cancel)

    def find_program(self, name: str) -> str | None:
        """Return the path of a program, which is not looked for in the working folder."""
        return found_program(name, os.environ, None)

    def ask_to_end(self, process: asyncio.subprocess.Process) -> None:
        """Send Ctrl+Break: what Python calls SIGTERM would end the process at once."""
        if process.returncode is not None:
            raise ProcessLookupError
        self._kernel.send_break(process.pid)

    def joined(self, words: Sequence[str]) -> str:
        """Return a command line as programs read it."""
        return subprocess.list2cmdline(words)

    def go_on_in_child(self) -> None:
        """Nothing: no process inherits orphans."""

    def process_owner(self) -> int:
        """Raise `OSError`: users have no numbers."""
        raise OSError("users have no numbers")

    # -- signals -------------------------------------------------------------------------------------------

    def handle_signal(self, loop: asyncio.AbstractEventLoop, number: int, call: Callable[[], object]) -> None:
        """Set a handler of Python, which wakes the event loop; what was set before is set again once the loop is closed."""
        before = signal.getsignal(number)

        def handle(_: int, __: FrameType | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(call)
                return
            signal.signal(number, before)
            signal.raise_signal(number)

        signal.signal(number, handle)

    def keep_calls_going(self, number: int) -> None:
        """Nothing: signals interrupt no calls."""

    # -- pipes ---------------------------------------------------------------------------------------------

    async def connect_reader(
        self, protocol: Callable[[], asyncio.Protocol], descriptor: int
    ) -> tuple[asyncio.ReadTransport, None]:
        """Read a descriptor in a thread, which notices its end also while reading pauses."""
        self._kernel.as_bytes(descriptor)
        return ThreadReader(descriptor, protocol(), self._kernel.cancel), None

    async def connect_writer(
        self, protocol: Callable[[], asyncio.BaseProtocol], descriptor: int
    ) -> asyncio.WriteTransport:
        """Write a descriptor in a thread."""
        self._kernel.as_bytes(descriptor)
        return ThreadWriter(descriptor, protocol(), self._kernel.cancel)

    def blocking_of(self, descriptors: Sequence[int]) -> Callable[[], None]:
        """Nothing to restore: pipes block, whoever shares them."""
        del descriptors
        return lambda: None

    def has_input(self, transport: asyncio.BaseTransport) -> bool:
        """Ask `select`, which takes sockets of any number here."""
        connected: socket.socket | None = transport.get_extra_info("socket")
        if connected is None or connected.fileno() < 0:
            return False
        return bool(select.select([connected.fileno()], [], [], 0)[0])

    async def read_terminal(self, descriptor: int, size: int) -> bytes:
        """Read in a thread, which no exit of the process waits for."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[bytes] = loop.create_future()

        def read() -> None:
            try:
                data = os.read(descriptor, size)
            except OSError:
                data = b""
            if not loop.is_closed():
                loop.call_soon_threadsafe(give, data)

        def give(data: bytes) -> None:
            if not found.done():
                found.set_result(data)

        threading.Thread(target=read, daemon=True).start()
        return await found

    # -- files ---------------------------------------------------------------------------------------------

    def lock(self, descriptor: int) -> None:
        """Lock a file, which the system unlocks at the end of the process."""
        self._kernel.lock(descriptor)

    def unlock(self, descriptor: int) -> None:
        """Unlock a file."""
        self._kernel.unlock(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        """Replace a file; wait for those who read it, within bounded time."""
        until = time.monotonic() + REPLACING
        while True:
            try:
                source.replace(target)
            except PermissionError:
                if time.monotonic() >= until:
                    raise
                time.sleep(_REPLACE_INTERVAL)
            else:
                return

    def belongs_to_another(self, found: os.stat_result, *, except_root: bool = False) -> bool:
        """Files have lists of access, which Python does not read: those in the profile of a user are private."""
        del found, except_root
        return False

    def is_written_by(self, others: int, found: os.stat_result) -> bool:
        """Files have lists of access, as above."""
        del others, found
        return False

    def config_folder(self) -> Path:
        """Return the folder in the profile that stays on this machine, since tokens are kept there."""
        return _local() / "mcprev"

    def cache_folder(self) -> Path:
        """Return a folder in the profile that stays on this machine."""
        return _local() / "mcprev" / "Cache"

    def settings_folder(self) -> Path:
        """Return the folder in which programs keep settings that follow the user to other machines."""
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")

    def open_files_limit(self) -> int | None:
        """Return None: sockets are limited by memory only."""
        return None

    def nameless_file(self, size: int) -> int:
        """Return a temporary file, which the system deletes when it is closed."""
        with tempfile.TemporaryFile() as file:
            file.truncate(size)
            return os.dup(file.fileno())


def _local() -> Path:
    return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
