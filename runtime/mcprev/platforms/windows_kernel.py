"""What Windows itself is asked: jobs, which hold a process and all that it starts, consoles, locks, and reads that wait.

`windows.Kernel` describes it.
"""

from __future__ import annotations

import ctypes
import msvcrt
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from ctypes import wintypes
from typing import Final

assert sys.platform == "win32"

_EXTENDED_LIMITS: Final = 9
_KILL_ON_JOB_CLOSE: Final = 0x2000
_CREATE_SUSPENDED: Final = 0x4
_PROCESS_RIGHTS: Final = 0x1 | 0x100 | 0x800
"""To end a process, to put it into a job, and to let it run."""
_THREAD_TERMINATE: Final = 0x1
_MAX_PATH: Final = 1024
_FAILED: Final = 1
"""The exit code of a process that is ended."""


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("per_process_user_time", wintypes.LARGE_INTEGER),
        ("per_job_user_time", wintypes.LARGE_INTEGER),
        ("limit_flags", wintypes.DWORD),
        ("minimum_working_set", ctypes.c_size_t),
        ("maximum_working_set", ctypes.c_size_t),
        ("active_processes", wintypes.DWORD),
        ("affinity", ctypes.c_size_t),
        ("priority", wintypes.DWORD),
        ("scheduling", wintypes.DWORD),
    )


class _Limits(ctypes.Structure):
    _fields_ = (
        ("basic", _BasicLimits),
        ("io_counters", ctypes.c_ulonglong * 6),
        ("process_memory", ctypes.c_size_t),
        ("job_memory", ctypes.c_size_t),
        ("peak_process_memory", ctypes.c_size_t),
        ("peak_job_memory", ctypes.c_size_t),
    )


class WindowsKernel:
    """The functions of kernel32 and ntdll that are called."""

    ctrl_break: int = signal.SIGBREAK

    def __init__(self) -> None:
        self._kernel32 = kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
        self._resume = ctypes.WinDLL("ntdll").NtResumeProcess
        self._resume.argtypes = (wintypes.HANDLE,)
        for name, result, arguments in (
            ("CreateJobObjectW", wintypes.HANDLE, (wintypes.LPVOID, wintypes.LPCWSTR)),
            ("SetInformationJobObject", wintypes.BOOL,
             (wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD)),
            ("AssignProcessToJobObject", wintypes.BOOL, (wintypes.HANDLE, wintypes.HANDLE)),
            ("TerminateJobObject", wintypes.BOOL, (wintypes.HANDLE, wintypes.UINT)),
            ("OpenProcess", wintypes.HANDLE, (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)),
            ("TerminateProcess", wintypes.BOOL, (wintypes.HANDLE, wintypes.UINT)),
            ("OpenThread", wintypes.HANDLE, (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)),
            ("CancelSynchronousIo", wintypes.BOOL, (wintypes.HANDLE,)),
            ("CloseHandle", wintypes.BOOL, (wintypes.HANDLE,)),
            ("GetConsoleCP", wintypes.UINT, ()),
            ("GetSystemDirectoryW", wintypes.UINT, (wintypes.LPWSTR, wintypes.UINT)),
        ):  # fmt: skip
            function = getattr(kernel32, name)
            function.restype, function.argtypes = result, arguments

    # -- processes -----------------------------------------------------------------------------------------

    def group_flags(self) -> int:
        """Return the flags of a process that leads a tree: it waits for `job`, and Ctrl+C is not for it.

        Without a console of our own, no window opens for one of the process.
        """
        console = 0 if self._kernel32.GetConsoleCP() else subprocess.CREATE_NO_WINDOW
        return subprocess.CREATE_NEW_PROCESS_GROUP | _CREATE_SUSPENDED | console

    def popen(
        self,
        line: str,
        executable: str | None,
        environment: Mapping[str, str],
        folder: str | os.PathLike[str] | None,
    ) -> subprocess.Popen[bytes]:
        """Start a process with pipes, which leads a tree."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            line, 0, executable, pipe, pipe, pipe,
            cwd=folder, env=environment, creationflags=self.group_flags(),
        )  # fmt: skip

    def job(self, leader: int) -> int | None:
        """Put a process that waits into a job of its own, which the system ends with this process, and let it run.

        Returns the handle of the job; None if it has none, because the process has ended or the system makes no job.
        """
        process: int | None = self._kernel32.OpenProcess(_PROCESS_RIGHTS, False, leader)  # noqa: FBT003
        if not process:
            return None
        job: int | None = self._kernel32.CreateJobObjectW(None, None)
        try:
            if job and not self._takes(job, process):
                self._kernel32.CloseHandle(job)
                job = None
            if self._resume(process) < 0:
                self._kernel32.TerminateProcess(process, _FAILED)  # else it would wait for ever
        finally:
            self._kernel32.CloseHandle(process)
        return job or None

    def _takes(self, job: int, process: int) -> bool:
        """Let a job end with its handle, and put a process into it."""
        limits = _Limits()
        limits.basic.limit_flags = _KILL_ON_JOB_CLOSE
        size = ctypes.sizeof(limits)
        return bool(
            self._kernel32.SetInformationJobObject(job, _EXTENDED_LIMITS, ctypes.byref(limits), size)
            and self._kernel32.AssignProcessToJobObject(job, process)
        )

    def end_job(self, job: int) -> None:
        """End all processes of a job, and the job."""
        self._kernel32.TerminateJobObject(job, _FAILED)
        self._kernel32.CloseHandle(job)

    def end_process(self, process: int) -> None:
        """End one process."""
        with suppress(OSError):
            os.kill(process, signal.SIGTERM)

    def send_break(self, leader: int) -> None:
        """Send Ctrl+Break to a process and those that it has started, as far as they share our console."""
        with suppress(OSError):
            os.kill(leader, signal.CTRL_BREAK_EVENT)

    def system_folder(self) -> str:
        """Return the folder with the programs of Windows, which no variable of the environment can change."""
        text = ctypes.create_unicode_buffer(_MAX_PATH)
        self._kernel32.GetSystemDirectoryW(text, _MAX_PATH)
        return text.value

    # -- files ---------------------------------------------------------------------------------------------

    def cancel(self, thread: int) -> None:
        """End the read or write for which a thread waits."""
        handle: int | None = self._kernel32.OpenThread(_THREAD_TERMINATE, False, thread)  # noqa: FBT003
        if handle:
            self._kernel32.CancelSynchronousIo(handle)
            self._kernel32.CloseHandle(handle)

    def as_bytes(self, descriptor: int) -> None:
        """Let a descriptor pass line ends as they are."""
        msvcrt.setmode(descriptor, os.O_BINARY)

    def lock(self, descriptor: int) -> None:
        """Lock the first byte of a file."""
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def unlock(self, descriptor: int) -> None:
        """Unlock the first byte of a file."""
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
