"""What runs on Windows, as far as Linux can run it: programs found and quoted, pipes by threads, a process without POSIX."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from typing_extensions import override

from helpers.requirements import req
from helpers.running import run, until
from mcprev.platforms.thread_pipes import HIGH, MAX_AHEAD, ThreadReader, ThreadWriter
from mcprev.platforms.windows import Windows
from mcprev.platforms.windows_commands import command_line, found_program, merged
from platforms.command_lines import read_by_cmd, words_of
from platforms.linux_kernel import LinuxKernel

PROGRAM = str(Path(__file__).parent / "as_windows.py")
SYSTEM = r"C:\Windows\System32"
VARIABLES = {"PATH": r"C:\secret", "CD": r"C:\work", "X": '" & calc & "'}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it takes away from Linux what Windows lacks")


# -- commands ----------------------------------------------------------------------------------------------


def files(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


@req("STDIO-10", everywhere=True)
def test_a_program_is_found_by_its_ending_in_path_and_never_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = files(tmp_path / "one", "npx", "npx.cmd", "uv.exe", "uv.cmd", "odd.vbs", "server.py")
    two = files(tmp_path / "two", "npx.exe", "late.bat", "planted.exe")
    monkeypatch.chdir(two)
    environment = {"Path": f'{one}{os.pathsep}"{two}"{os.pathsep}.', "pathext": ".VBS;.EXE;.CMD"}
    others = {**environment, "Path": str(one)}
    rows: Sequence[tuple[str, dict[str, str], Path | None, Path | None]] = (
        ("npx", environment, None, one / "npx.cmd"),
        ("npx.cmd", environment, None, one / "npx.cmd"),
        ("uv", environment, None, one / "uv.exe"),
        ("uv", {**environment, "pathext": ".CMD"}, None, one / "uv.cmd"),
        ("uv", {"PATH": str(one)}, None, one / "uv.exe"),
        ("odd", environment, None, None),
        ("server.py", environment, None, one / "server.py"),
        ("late", {**environment, "pathext": ""}, None, two / "late.bat"),
        ("planted", others, None, None),
        ("planted", {**others, "Path": "."}, None, None),
        ("./planted", others, None, two / "planted.exe"),
        ("./planted", others, one, None),
        ("./uv", others, one, one / "uv.exe"),
        (str(two / "planted"), others, one, two / "planted.exe"),
        ("C:planted", others, None, None),
        ("npx.cmd::$DATA", others, None, None),
        ("", others, None, None),
    )
    for name, variables, folder, wanted in rows:
        found = found_program(name, variables, folder)
        assert found == (None if wanted is None else str(wanted)), name


@req("STDIO-10", everywhere=True)
def test_names_of_variables_differ_in_more_than_their_case() -> None:
    assert merged([{"PATH": "a", "TEMP": "t"}, {"Path": "b"}]) == {"Path": "b", "TEMP": "t"}


ARGUMENTS = (
    "plain", "", "a b", 'a"b', '"', '""', "a\\", "a\\\\", 'a\\"b', "a b\\", "%PATH%", "%X%", "100%", "%%PATH%%", "%cd:~,%",
    "& calc", '" & calc & "', "a|b", "a>b", "^&", "!PATH!", "(x)", "a,b;c=d", "é", "a\tb", '"%X%', "%PATH:~0,1%", "~`'",
)  # fmt: skip


@req("STDIO-10", everywhere=True)
@pytest.mark.parametrize(
    "script", [r"C:\Program Files\nodejs\npx.cmd", r"C:\100%\R&D\run.BAT", "C:\\x\\run.cmd. "]
)
def test_an_argument_of_a_batch_file_stays_an_argument(script: str) -> None:
    """For `cmd.exe`, for a program that the file passes its arguments to, and beside each other argument."""
    for argument in ARGUMENTS:
        words = [argument, "between", argument]
        program, line = command_line(script, words, SYSTEM)
        assert program == rf"{SYSTEM}\cmd.exe"
        assert words_of(read_by_cmd(line, VARIABLES)) == [script, *words], argument


@req("STDIO-10", everywhere=True)
def test_programs_and_what_no_program_can_be_given() -> None:
    for argument in ARGUMENTS:
        assert words_of(command_line(r"C:\a b\x.exe", [argument, "b"], SYSTEM)[1])[1:] == [argument, "b"]
    assert command_line("x.exe", ["a\nb"], SYSTEM)[1].endswith("a\nb")
    for program, argument, said in (
        ("x.cmd", "a\nb", "several lines"),
        ("x.cmd", "a\rb", "several lines"),
        ("x.exe", "a\0b", "null character"),
        ("server.py", "a", "pass the program that runs it first"),
    ):
        with pytest.raises(ValueError, match=said):
            command_line(program, [argument], SYSTEM)


# -- pipes -------------------------------------------------------------------------------------------------


class Told(asyncio.Protocol):
    """What a protocol was told."""

    def __init__(self) -> None:
        self.data, self.events = b"", list[str]()
        self.lost: Exception | None = None

    @override
    def data_received(self, data: bytes) -> None:
        self.data += data

    @override
    def eof_received(self) -> None:
        self.events.append("end")

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.lost = exc

    @override
    def pause_writing(self) -> None:
        self.events.append("pause")

    @override
    def resume_writing(self) -> None:
        self.events.append("resume")


@req("STDIO-9", everywhere=True)
def test_a_reader_reads_ahead_by_a_bounded_number_of_bytes_and_notices_the_end_while_it_pauses() -> None:
    async def main() -> None:
        kernel, told, (incoming, outgoing) = LinuxKernel(), Told(), os.pipe()
        reader = ThreadReader(incoming, told, kernel.cancel)
        os.write(outgoing, b"one")
        await until(lambda: told.data == b"one")
        reader.pause_reading()
        os.set_blocking(outgoing, False)
        sent = 0
        for _ in range(1000):
            try:
                sent += os.write(outgoing, b"x" * 65536)
            except BlockingIOError:
                await asyncio.sleep(0)
        assert sent < MAX_AHEAD + 4 * 65536
        assert told.data == b"one"
        reader.resume_reading()
        await until(lambda: len(told.data) == 3 + sent)
        reader.pause_reading()
        os.write(outgoing, b"last")
        os.close(outgoing)
        await until(lambda: told.events == ["end", "lost"])
        assert told.data.endswith(b"xlast")
        assert told.lost is None

    run(main())


@req("STDIO-9", everywhere=True)
def test_a_reader_that_is_closed_says_nothing_more_and_its_thread_is_told_to_end() -> None:
    async def main() -> None:
        kernel, told, (incoming, outgoing) = LinuxKernel(), Told(), os.pipe()
        reader = ThreadReader(incoming, told, kernel.cancel)
        reader.close()
        await until(lambda: told.events == ["lost"])
        assert kernel.cancelled
        os.write(outgoing, b"late")
        os.close(outgoing)
        await asyncio.sleep(0)
        assert (told.data, told.events) == (b"", ["lost"])

    run(main())


@req("STDIO-9", everywhere=True)
def test_a_writer_pauses_its_protocol_writes_all_before_it_closes_and_tells_of_a_broken_pipe() -> None:
    async def main() -> None:
        kernel, told, (incoming, outgoing) = LinuxKernel(), Told(), os.pipe()
        writer = ThreadWriter(outgoing, told, kernel.cancel)
        writer.write(b"x" * (HIGH + 1))
        assert told.events == ["pause"]
        writer.close()
        writer.write(b"after the end")
        heard = b""
        while data := await asyncio.to_thread(os.read, incoming, 65536):
            heard += data
        assert heard == b"x" * (HIGH + 1)
        await until(lambda: told.events == ["pause", "resume", "lost"])
        assert told.lost is None
        os.close(incoming)

        told, (incoming, outgoing) = Told(), os.pipe()
        writer = ThreadWriter(outgoing, told, kernel.cancel)
        os.close(incoming)
        writer.write(b"x")
        await until(lambda: told.events == ["lost"])
        assert isinstance(told.lost, BrokenPipeError)

    run(main())


# -- files -------------------------------------------------------------------------------------------------


def test_a_file_that_is_read_is_replaced_when_it_is_read_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, refused, usual = Windows(LinuxKernel()), iter([True, True]), Path.replace
    (tmp_path / "new").write_text("new")

    def replace(self: Path, target: Path) -> Path:
        if next(refused, False):
            raise PermissionError(13, "another process reads it")
        return usual(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    system.replace(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old").read_text() == "new"
    monkeypatch.setattr("mcprev.platforms.windows.REPLACING", 0.0)
    refused = iter([True])
    with pytest.raises(PermissionError):
        system.replace(tmp_path / "old", tmp_path / "new")


def test_folders_are_those_of_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    system = Windows(LinuxKernel())
    monkeypatch.setenv("LOCALAPPDATA", "/profile/Local")
    monkeypatch.setenv("APPDATA", "/profile/Roaming")
    assert [*map(str, (system.config_folder(), system.cache_folder(), system.settings_folder()))] == [
        "/profile/Local/mcprev", "/profile/Local/mcprev/Cache", "/profile/Roaming",
    ]  # fmt: skip


# -- processes ---------------------------------------------------------------------------------------------


def as_windows(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-W", "error", PROGRAM, *arguments]
    done: subprocess.CompletedProcess[bytes] = cast("Any", subprocess).run(
        command, check=False, capture_output=True, timeout=120, **options
    )
    return done


@pytest.mark.slow
def test_every_module_is_imported_without_what_windows_lacks() -> None:
    done = as_windows("import")
    assert (done.stdout, done.returncode) == (b"imported\n", 0), done.stderr.decode()


@pytest.mark.slow
@req("STDIO-4", "STDIO-7", "STDIO-10", "AUTH-22", everywhere=True)
def test_a_client_starts_uses_and_ends_servers(tmp_path: Path) -> None:
    """Through a batch file in PATH, with arguments that are none of its commands; no process is left behind."""
    done = as_windows("use", str(tmp_path))
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert found.pop("crash")[:2] == [7, "the last words\n"]
    assert "cannot start 'nowhere': there is no such program in PATH" in found.pop("none")[2]
    assert found == {
        "platform": "windows",
        "words": ['a"b', "%PATH%", "& calc", "x\\", "", "a b"],
        "echoed": True,
        "trees": 1,
        "child is gone": True,
        "trees left": 0,
        "locked": True,
    }


@req("STDIO-1", "STDIO-6", everywhere=True)
def test_a_server_reads_crlf_writes_lf_and_ends_with_0_at_the_end_of_input_and_at_a_signal() -> None:
    line = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\r\n'
    done = as_windows("serve", input=line + b"\r\n" + line.replace(b"1,", b"2,"))
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\r" not in done.stdout
    assert [json.loads(each)["id"] for each in done.stdout.splitlines()] == [1, 2]
    for number in (signal.SIGINT, signal.SIGHUP):  # the latter stands for Ctrl+Break
        process = subprocess.Popen(
            [sys.executable, "-W", "error", PROGRAM, "serve"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line)
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(number)
        assert process.wait(60) == 0
        assert process.communicate() == (b"", b"")
