"""A process that is Windows as far as Linux can be: what Windows lacks is taken away, then everything is imported again.

as_windows.py JOB [ARGUMENT...]

On Windows itself, as under Wine, nothing is taken away.
"""

from __future__ import annotations

import asyncio
import builtins
import importlib
import json
import os
import pkgutil
import select
import selectors
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGES = ("mcprev", "mcprev_codegen")
OURS = (*PACKAGES, "mcprev_types", "__main__")
ONLY_POSIX = {"mcprev.platforms.posix", "mcprev.platforms.posix_pipes", "mcprev.platforms.first_process"}
LACKING: dict[ModuleType, tuple[str, ...]] = {
    os: (
        "fork", "forkpty", "killpg", "getpgid", "getpgrp", "setsid", "setpgid", "getuid", "geteuid", "getgid", "getegid",
        "get_blocking", "set_blocking", "mkfifo", "memfd_create", "MFD_CLOEXEC", "chown", "fchmod", "O_NOFOLLOW",
        "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "WNOHANG", "uname",
    ),
    signal: (
        "SIGKILL", "SIGHUP", "SIGQUIT", "SIGCHLD", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGALRM", "siginterrupt",
        "pthread_sigmask", "sigwaitinfo", "alarm", "setitimer",
    ),
    select: ("poll", "epoll", "POLLIN", "POLLRDHUP"),
    socket: ("AF_UNIX",),
}  # fmt: skip
"""What those modules lack on Windows."""
REAL = sys.platform == "win32"
"""Whether this is Windows, or Wine."""
LISTENS = """
import socket, time
with socket.create_server(("127.0.0.1", 0)) as listening:
    print(listening.getsockname()[1], flush=True)
    time.sleep(60)
"""
NOT_THERE = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty")


class ProactorLike(asyncio.SelectorEventLoop):
    """A loop that refuses what that of Windows refuses."""

    def __init__(self) -> None:
        super().__init__(selectors.SelectSelector())


def _refused(*_: Any, **__: Any) -> None:
    raise NotImplementedError


for refused in (
    "add_signal_handler", "remove_signal_handler", "add_reader", "remove_reader", "add_writer", "remove_writer",
    "connect_read_pipe", "connect_write_pipe", "subprocess_exec", "subprocess_shell",
):  # fmt: skip
    setattr(ProactorLike, refused, _refused)


def modules() -> Iterator[str]:
    for package in map(importlib.import_module, PACKAGES):
        yield package.__name__
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if (
                not found.name.endswith("__main__") and ".support" not in found.name
            ):  # parts of generated packages
                yield found.name


class Lent:
    """Linux, for as long as modules of others are imported, which the system itself has made."""

    def __init__(self) -> None:
        self._taken = [
            (module, name, getattr(module, name))
            for module, names in LACKING.items()
            for name in names
            if hasattr(module, name)
        ]
        self._usual = builtins.__import__
        self._depth = 0

    def take_away(self) -> None:
        for module, name, _ in self._taken:
            delattr(module, name)
        sys.platform = "win32"

    def import_(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - as the usual one has it
        locals: Any = None,  # noqa: A002
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        """`__import__`, as Windows for our modules, and as Linux for all others."""
        ours = str((globals or {}).get("__name__", "")).partition(".")[0] in OURS
        wanted = name.partition(".")[0]
        if self._depth or (ours if level else wanted in PACKAGES):
            return self._usual(name, globals, locals, fromlist, level)
        if ours and wanted in NOT_THERE:
            raise ModuleNotFoundError(name)
        self._depth += 1
        sys.platform = "linux"
        for module, each, value in self._taken:
            setattr(module, each, value)
        try:
            return self._usual(name, globals, locals, fromlist, level)
        finally:
            self._depth -= 1
            self.take_away()


def become_windows() -> None:
    """Takes away what Windows lacks."""
    from platforms import linux_kernel

    socket.socketpair = partial(socket.socketpair, socket.AF_UNIX)
    kernel: Any = ModuleType("mcprev.platforms.windows_kernel")
    kernel.WindowsKernel = linux_kernel.LinuxKernel
    sys.modules[kernel.__name__] = kernel
    asyncio.new_event_loop = asyncio.events.new_event_loop = ProactorLike
    lent = Lent()
    lent.take_away()
    builtins.__import__ = lent.import_


def import_all() -> None:
    for name in modules():
        if name not in ONLY_POSIX:
            __import__(name)
    assert not ONLY_POSIX & {*sys.modules}


# -- the jobs ----------------------------------------------------------------------------------------------


def app() -> Any:
    """An app with the tools that the jobs call."""
    import mcprev

    app = mcprev.App("windows", "1")

    @app.tool
    def echo(text: str) -> str:
        return text

    @app.tool
    def words() -> list[str]:
        return sys.argv[2:]

    @app.tool
    def launch() -> int:
        """Start a process that listens and would outlive everything, and sleep on at the end of input."""
        import atexit
        import subprocess

        child = subprocess.Popen(
            [sys.executable, "-c", LISTENS], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        atexit.register(time.sleep, 60)
        assert child.stdout is not None
        return int(child.stdout.readline())

    @app.tool
    def crash() -> None:
        os.write(2, b"the last words\n")
        os._exit(7)

    return app


def text_of(result: Any) -> str:
    return str(result.content[0].text)


def batch_file(folder: Path) -> None:
    """Writes a batch file that runs this program; on Linux a script stands for it."""
    script = folder / "runner.cmd"
    command = f'"{sys.executable}" "{__file__}" serve'
    script.write_text(f"@{command} %*\n" if REAL else f'#!/bin/sh\nexec {command} "$@"\n')
    script.chmod(0o700)


async def use(folder: Path) -> dict[str, object]:
    """What a client finds out about servers that are processes as Windows, too."""
    import mcprev
    from mcprev.platforms import HERE
    from mcprev.transports import process_groups

    trees: dict[object, object] = vars(process_groups)["_running"]
    found: dict[str, object] = {"platform": HERE.system}
    batch_file(folder)
    search = {"Path": f"{folder}{os.pathsep}{os.environ['PATH']}", "PathExt": ".VBS;.CMD"}
    search["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    hostile = ['a"b', "100%" if REAL else "%PATH%", "& calc", "x\\", "", "a b"]
    async with mcprev.connect(mcprev.stdio("runner", *hostile, env=search, stderr=lambda _: None)) as client:
        found["words"] = (await client.call_tool("words")).structured_content
        assert found["words"] == hostile
        tricky = "é \u2028 \r\n \x00 \U0001f600" + "x" * 1_000_000
        found["echoed"] = text_of(await client.call_tool("echo", {"text": tricky})) == tricky
        port = int(text_of(await client.call_tool("launch")))
        found["trees"] = len(trees)
    with socket.socket() as asking:
        found["child is gone"] = asking.connect_ex(("127.0.0.1", port)) != 0
    found["trees left"] = len(trees)
    assert found["echoed"]
    assert found["child is gone"]
    for command, name in (("runner", "crash"), ("nowhere", "none")):
        try:
            async with mcprev.connect(mcprev.stdio(command, env=search), restart=False) as client:
                await client.call_tool(name)
        except mcprev.ProcessExited as error:
            found[name] = [error.returncode, error.stderr.replace("\r", ""), str(error)]
    async with mcprev.DiskTokens(folder / "tokens").lock("https://issuer"):
        found["locked"] = True
    return found


async def use_http() -> dict[str, object]:
    """What a client finds out about a server over HTTP that is another process."""
    import subprocess

    import mcprev

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, "serve-http", str(port)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: ASYNC220 - it takes no time
    try:
        for _ in range(600):
            with socket.socket() as asking:
                if not asking.connect_ex(("127.0.0.1", port)):
                    break
            await asyncio.sleep(0.1)
        async with mcprev.connect(mcprev.http(f"http://127.0.0.1:{port}/mcp")) as client:
            return {"over http": text_of(await client.call_tool("echo", {"text": "é"}))}
    finally:
        process.kill()
        process.wait()


def main(job: str, *arguments: str) -> None:
    if not REAL:
        become_windows()
    if job == "import":
        import_all()
        sys.stdout.write("imported\n")
    elif job == "serve":
        app().run_stdio()
    elif job == "serve-http":
        app().run_http(port=int(arguments[0]))
    else:
        work = use_http() if job == "use-http" else use(Path(arguments[0]))
        sys.stdout.write(json.dumps(asyncio.run(work)))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main(*sys.argv[1:])
