"""Settings for the whole suite: the same examples in every run, and no deadline on a shared machine.

Also the plugin behind `requirements.req`: it runs a marked test at each revision of its requirements, and can
write down which test checks what (`--requirements-to`), which `test_requirements.py` reads. Tests that compare with
upstream's files are marked `upstream` and skipped where those files are not.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from unittest import mock

import pytest
import uvicorn.server
from _pytest.python import importtestmodule
from _pytest.runner import runtestprotocol
from _pytest.skipping import evaluate_skip_marks
from hypothesis import HealthCheck, settings

from fuzz.fuzzing import sampled
from helpers import drawing, ordering, parts, requirements, running, shuffling, support

LISTED: Final = 0.005
"""Seconds from which on `--durations` lists a setup or a teardown."""

gc.set_threshold(10_000)
gc.disable()
"""Tens of thousands of collected tests are not to be looked at again and again; `running.run` collects after each."""

settings.register_profile(
    "mcprev",
    deadline=None,
    derandomize="MCPREV_FUZZ_SECONDS" not in os.environ,
    database=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("mcprev")


class _OftenPolling(ModuleType):
    """asyncio for uvicorn's server, which waits 100 ms at a time for its end: 5 ms here."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds / 20)


mock.patch.object(uvicorn.server, "asyncio", _OftenPolling("asyncio")).start()


@pytest.fixture(scope="session", autouse=True)
def _no_settings_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commands find no configuration, token or list of the user's, and leave none; and they look for no plugins of pydantic."""
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        os.environ[name] = str(tmp_path_factory.mktemp(name.lower()))


@pytest.fixture(scope="session", autouse=True)
def _no_server_is_started_twice_because_the_machine_is_slow() -> Generator[None, None, None]:
    """Tests of what is done about a server that says nothing to a probe set the time themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mcprev.client.probing.SOON", 15.0)
        yield


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    parser.addoption(
        "--requirements-to", metavar="FILE", help="write down which test checks which requirement"
    )
    parser.addoption(
        "--not-again",
        metavar="FILE",
        help="leave out tests whose names the file has, a line each, but for those that draw their cases",
    )
    parser.addoption(
        "--part", choices=(parts.QUICK, parts.REST), help="run what `make test` or what `make rest` runs"
    )
    pluginmanager.register(shuffling, "shuffling")  # in time for its options


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "req(*ids, everywhere, at): the requirements that the test checks")
    config.addinivalue_line("markers", "each_once: some combinations of the parameters are enough")
    config.addinivalue_line("markers", "slow: the test takes seconds; `make rest` runs it, not `make test`")
    config.addinivalue_line("markers", "upstream: the test compares with upstream's files")
    config.addinivalue_line(
        "markers", "unjudged: what a bridge costs is counted, without judging what it sends"
    )
    config.addinivalue_line(
        "markers", "passes_wrong: peers of one revision send what is no message of it through a bridge"
    )
    config.pluginmanager.register(ordering, "ordering")


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None]:
    requirements.parametrize(metafunc)
    yield
    if metafunc.config.getoption("--part") == parts.QUICK:
        parts.trim(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import a share of the files first, another one in each process of several.

    All collect all files, in the same order: in a clone in which none is compiled, each would compile each of them.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    folders = [session.config.invocation_params.dir / arg for arg in session.config.args]
    left_out = session.config.getini("norecursedirs")
    files = sorted(
        file
        for folder in folders
        for file in folder.rglob("test_*.py")
        if not any(fnmatch(part, each) for part in file.relative_to(folder).parts for each in left_out)
    )
    for file in files[number::count]:
        with suppress(Exception, pytest.skip.Exception):  # raised again where the file is collected
            importtestmodule(file, session.config)
            continue
        for name in [name for name, module in sys.modules.items() if _file_of(module) == str(file)]:
            del sys.modules[name]


def _place_of(item: pytest.Item) -> tuple[Path, str]:
    return item.path, str(getattr(item, "originalname", item.name))


def _file_of(module: ModuleType) -> str | None:
    return getattr(module, "__file__", None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("upstream"):
            item.add_marker(support.skip_without_upstream)
    left_out = set[pytest.Item]()
    part = config.getoption("--part")
    if sampled(1) == 1 and part != parts.QUICK:  # whose tests are trimmed already
        left_out |= {*parts.combined_again(items)}
    if part is not None:
        left_out |= {*parts.left_out([item for item in items if item not in left_out], str(part))}
    left_out |= {item for item in items if requirements.is_left_out(item)}
    left_out |= {*_skipped_again([item for item in items if item not in left_out])}
    if (known := config.getoption("--not-again")) is not None:
        names = set(Path(str(known)).read_text(encoding="utf-8").splitlines())
        left_out |= {item for item in items if item.nodeid in names and not drawing.draws(*_place_of(item))}
    if left_out:
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        requirements.refuse_skipped(item)
    target = config.getoption("--requirements-to")
    if target is not None:
        Path(str(target)).write_text(
            json.dumps([requirements.checks(item) for item in items]), encoding="utf-8"
        )


def _skipped_again(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Tests that are skipped for the same reason as one before them in their file, which tells it for all."""
    told: set[tuple[Path, str]] = set()
    for item in items:
        if item.get_closest_marker("skipif") and (skipped := evaluate_skip_marks(item)):
            if (item.path, skipped.reason) in told:
                yield item
            told.add((item.path, skipped.reason))


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Commands, and programs of the guides, set the level at which this process logs; each test begins without one."""
    ours = logging.getLogger("mcprev")
    if ours.level:
        ours.setLevel(logging.NOTSET)


def _make_sendable(report: pytest.TestReport) -> None:
    """Replace lone surrogates, of which a process of several cannot report: the whole run would end."""
    report.sections = [(name, _readable(text)) for name, text in report.sections]
    if report.longrepr is not None and (text := str(report.longrepr)) != _readable(text):
        report.longrepr = _readable(text)


def _readable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test as pytest does; a process of several reports no setup and teardown that passed.

    Where tests are short, sending three reports of each takes as long as running them.
    """
    is_alone = not hasattr(item.config, "workerinput")
    if is_alone:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if not is_alone:
            _make_sendable(report)
        if is_alone or report.when == "call" or not report.passed or report.duration > LISTED:
            item.ihook.pytest_runtest_logreport(report=report)
    if is_alone:
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    # Freeze what outlives a test; not before its log is gone, which holds tasks and all that they refer to.
    gc.collect()
    gc.freeze()
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two workers more than cores: a worker waits two fifths of its time, for processes and for time limits."""
    return (os.cpu_count() or 1) + 2


@pytest.fixture(params=["asyncio", "uvloop"])
def event_loop_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test once on each event loop."""
    if request.param == "uvloop":
        uvloop = pytest.importorskip("uvloop")
        monkeypatch.setattr(running, "new_loop", uvloop.new_event_loop)
