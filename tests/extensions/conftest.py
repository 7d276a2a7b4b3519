"""The package of the extension on docs/extensions.md, generated once."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Final

import pytest
from click.testing import CliRunner

from helpers.support import ROOT
from mcprev.cli import main

MORE: Final = """
export interface AgreeRequest extends Request { method: "acme/agree"; params: { text: string } }
export interface AgreeResult extends Result { agreed: boolean }
export interface WatchNotification extends Notification { method: "notifications/acme/watch"; params: { city: string } }
export interface PingRequest extends Request { method: "ping" }
export interface PingResult extends Result {}
export interface WhoRequest extends Request {
  method: "acme/who";
  params: { _meta: { "io.modelcontextprotocol/clientInfo": { name: string }; own?: number } };
}
export interface WhoResult extends Result { name: string }
export type ServerRequest = AgreeRequest | PingRequest;
export type ClientResult = AgreeResult | PingResult;
export type ClientNotification = WatchNotification;
"""
"""Messages in the other directions, and one that MCP has too."""


@pytest.fixture(scope="session")
def types(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The package that the page's commands generate from the page's schema."""
    page = (ROOT / "docs" / "extensions.md").read_text(encoding="utf-8")
    schema, commands = (
        re.findall(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0]
        for kind in ("typescript", "sh")
    )
    folder = tmp_path_factory.mktemp("extension")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "forecast.ts").write_text(
            schema.replace("= ForecastRequest", "= WhoRequest | ForecastRequest") + MORE, encoding="utf-8"
        )
        generate, install = commands.splitlines()
        result = CliRunner().invoke(main, shlex.split(generate)[1:])
        assert (result.exit_code, result.stderr) == (0, "")
        assert f"install it with: {install}\n" in result.stdout
        patch.setattr(sys, "path", [str(folder / "forecast-types"), *sys.path])
        yield import_module("forecast_types.latest")
