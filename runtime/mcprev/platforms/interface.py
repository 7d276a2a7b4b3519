"""What the rest of the runtime asks of the system it runs on. `posix` and `windows` implement it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, TypedDict

System: TypeAlias = Literal["posix", "macos", "windows"]


class GroupOptions(TypedDict, total=False):
    """The options of `asyncio.create_subprocess_exec` for a process that leads a tree of its own."""

    start_new_session: bool
    creationflags: int


class ProcessTree(Protocol):
    """A process that this process has started, and all that it starts."""

    def terminate(self) -> None:
        """Ask all processes of the tree to end; those that are gone already are no error."""
        ...

    def kill(self) -> None:
        """End what is left of the tree at once, and release what this object holds of the system."""
        ...


class Platform(Protocol):
    """A kind of operating system."""

    @property
    def system(self) -> System:
        """Which one it is, for tables of file names."""
        ...

    @property
    def terminal_closed(self) -> int:
        """The signal that comes when the terminal of a process is closed."""
        ...

    @property
    def ending_signals(self) -> Sequence[int]:
        """The signals that end a process beside the interrupt of its terminal."""
        ...

    @property
    def reload_signals(self) -> Sequence[int]:
        """The signals that ask a process to read its configuration again."""
        ...

    @property
    def kill_signal(self) -> signal.Signals:
        """The signal that ends another process at once."""
        ...

    @property
    def unix_sockets(self) -> int | None:
        """The address family of Unix sockets; None if Python has none here."""
        ...

    @property
    def shares_sockets(self) -> bool:
        """Whether several processes can accept the connections of one listening socket."""
        ...

    @property
    def no_follow(self) -> int:
        """The flag of `os.open` that refuses a symbolic link; 0 if there is none."""
        ...

    @property
    def fork(self) -> Callable[[], int] | None:
        """`os.fork`; None if there is none."""
        ...

    # -- processes -----------------------------------------------------------------------------------------

    @property
    def inherited(self) -> Sequence[str]:
        """The environment variables that a server inherits by default."""
        ...

    def environment(self, *variables: Mapping[str, str]) -> dict[str, str]:
        """Return one environment; a later value of a variable replaces an earlier one."""
        ...

    @property
    def group_options(self) -> GroupOptions:
        """The options by which a process that is started leads a tree of its own: pass its id to `tree` at once."""
        ...

    def tree(self, leader: int) -> ProcessTree:
        """Return the tree of a process that was started with `group_options`; on Windows it does not run before."""
        ...

    async def start(
        self,
        protocol: Callable[[], asyncio.SubprocessProtocol],
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str | os.PathLike[str] | None,
    ) -> None:
        """Start a program with pipes as its stdin, stdout and stderr, and tell the protocol what happens to it.

        The process leads a tree; the protocol passes its id to `tree` in `connection_made`. Raises `OSError` if it cannot be
        started, and `ValueError` for what no program can be given.
        """
        ...

    def find_program(self, name: str) -> str | None:
        """Return the path of a program in PATH, or of one that is named by its path; None if there is none."""
        ...

    def ask_to_end(self, process: asyncio.subprocess.Process) -> None:
        """Ask the leader of a tree to end. Raises `ProcessLookupError` if it has ended."""
        ...

    def joined(self, words: Sequence[str]) -> str:
        """Return a command line as the user's shell reads it."""
        ...

    def go_on_in_child(self) -> None:
        """Return in a child if this is the first process of a container, which has to wait for orphans."""
        ...

    def process_owner(self) -> int:
        """Return the id of the user whom this process belongs to. Raises `OSError` where users have none."""
        ...

    # -- signals -------------------------------------------------------------------------------------------

    def handle_signal(self, loop: asyncio.AbstractEventLoop, number: int, call: Callable[[], object]) -> None:
        """Call a function in the event loop when a signal arrives, as long as the loop is open.

        Raises `NotImplementedError`, `RuntimeError` or `ValueError` where that cannot be, as outside of the main thread.
        """
        ...

    def keep_calls_going(self, number: int) -> None:
        """Let a signal that has a handler interrupt no call of the system."""
        ...

    # -- pipes ---------------------------------------------------------------------------------------------

    async def connect_reader(
        self, protocol: Callable[[], asyncio.Protocol], descriptor: int
    ) -> tuple[asyncio.ReadTransport, Callable[[], bool] | None]:
        """Read a descriptor of any kind: a pipe, a socket, a terminal, a file. The transport owns it.

        Also returns a function that says whether its writer has closed it, for the time in which it is not read; None if the
        transport notices that by itself.
        """
        ...

    async def connect_writer(
        self, protocol: Callable[[], asyncio.BaseProtocol], descriptor: int
    ) -> asyncio.WriteTransport:
        """Write a descriptor of any kind. The transport owns it."""
        ...

    def blocking_of(self, descriptors: Sequence[int]) -> Callable[[], None]:
        """Return a function that lets calls on descriptors block again as they do now."""
        ...

    def has_input(self, transport: asyncio.BaseTransport) -> bool:
        """Return whether bytes have arrived at the socket of a transport that the event loop has not read yet."""
        ...

    async def read_terminal(self, descriptor: int, size: int) -> bytes:
        """Wait for what the user types at a terminal, without blocking the event loop."""
        ...

    # -- files ---------------------------------------------------------------------------------------------

    def lock(self, descriptor: int) -> None:
        """Lock a file for this process. Raises `BlockingIOError` or `PermissionError` if another one has locked it."""
        ...

    def unlock(self, descriptor: int) -> None:
        """Unlock a file."""
        ...

    def replace(self, source: Path, target: Path) -> None:
        """Put a file in the place of another one, which a process may be reading."""
        ...

    def belongs_to_another(self, found: os.stat_result, *, except_root: bool = False) -> bool:
        """Return whether a file belongs to another user, for certain."""
        ...

    def is_written_by(self, others: int, found: os.stat_result) -> bool:
        """Return whether a file can be written by others than its owner: by those of these bits of its mode."""
        ...

    def config_folder(self) -> Path:
        """Return the folder with what `mcprev` keeps for the user."""
        ...

    def cache_folder(self) -> Path:
        """Return the folder with what `mcprev` can make again."""
        ...

    def settings_folder(self) -> Path:
        """Return the folder in which programs keep the settings of the user."""
        ...

    def open_files_limit(self) -> int | None:
        """Return how many file descriptors this process may have open; None if no limit is known."""
        ...

    def nameless_file(self, size: int) -> int:
        """Return the descriptor of a file of zeros that has no name, for memory that processes share."""
        ...
