"""Builds the wheel and the sdist, and tries each in clean environments: without an extra, and with each one alone.

`make distributions` runs it. For each extra there is a program that does what README.md says of it; one without it must be
told by its error which extra to install. The sdist is built into a wheel by pip, as it is where no wheel fits.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from helpers.support import ROOT

MOST: Final = 2_500_000
"""Bytes of the wheel: its contents of today, the packages of extensions among them, and room for a revision more."""
LINK: Final = re.compile(r"\]\((?!#)([^)\s]+)")
SERVER: Final = """
import mcprev
app = mcprev.App("greeter", "1")
@app.tool
def greet(name: str) -> str:
    return "hi " + name
"""
PLAIN: Final = f"""{SERVER}
import asyncio, pathlib
from mcprev_types.v2025_06_18 import CallToolResult, TextContent
assert CallToolResult(content=[TextContent(text="hi")]).to_json() == b'{{"content":[{{"type":"text","text":"hi"}}]}}'
pathlib.Path("server.py").write_text({SERVER!r})
async def main():
    for target in (app, mcprev.stdio("mcprev", "serve", "server.py")):
        async with mcprev.connect(target) as client:
            assert (await client.call_tool("greet", {{"name": "Ann"}})).text == "hi Ann"
asyncio.run(main())
"""
PROGRAMS: Final = {
    "": PLAIN,
    "http": f"""{SERVER}
import asyncio
async def main():
    ready = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(app.server.serve_http(port=0, ready=ready.set_result))
    async with mcprev.connect(f"http://127.0.0.1:{{await ready}}/mcp") as client:
        assert (await client.call_tool("greet", {{"name": "Ann"}})).text == "hi Ann"
    serving.cancel()
    await asyncio.wait([serving])
asyncio.run(main())
""",
    "codegen": """
import pathlib, subprocess, sys
pathlib.Path("schema.ts").write_text("export interface Point { x: number; y?: string }")
subprocess.run(["mcprev", "generate", "1.0", "--no-overlay", "--schema", "schema.ts", "--out", "mine-types"], check=True)
sys.path.insert(0, "mine-types")
from mine_types.v1_0.models import Point
assert Point(x=1).to_wire() == {"x": 1}
""",
    "diff": """
import subprocess
said = subprocess.run(["mcprev", "diff", "2025-06-18", "2025-11-25"], check=True, capture_output=True, text=True).stdout
assert "breaking" in said
""",
    "jwt": """
import mcprev
from joserfc.jwk import ECKey
key = ECKey.generate_key("P-256").as_pem(private=True).decode()
mcprev.ClientCredentials("id", private_key=key, issuer="https://login.example")
""",
    "limits": """
import mcprev
mcprev.RateLimit("5/minute")
""",
    "keyring": """
import mcprev
mcprev.KeyringTokens("mine")
""",
    "metrics": """
import prometheus_client, mcprev
from mcprev.middleware import Metrics
mcprev.App("numbers", "1", middleware=[Metrics()])
""",
    "redis": """
import asyncio, mcprev
async def main():
    store = mcprev.open_store("redis://127.0.0.1:1/0")
    try:
        await store.read("x")
    except mcprev.StoreError as error:
        print(error)
    else:
        raise AssertionError("no Redis is there")
    finally:
        await store.aclose()
asyncio.run(main())
""",
    "otel": """
import mcprev
mcprev.Telemetry()
""",
    "sandbox": """
import asyncio, mcprev
from mcprev.transforms import tools_by_code
app = tools_by_code(mcprev.App("office", "1"))
@app.tool
def greet(name: str) -> str:
    return "hi " + name
async def main():
    async with mcprev.connect(app) as client:
        code = "await call_tool('greet', {'name': 'Ann'})"
        assert (await client.call_tool("run_code", {"code": code})).text == "hi Ann"
asyncio.run(main())
""",
    "skills": """
import asyncio, pathlib, mcprev
folder = pathlib.Path("skills", "greeting")
folder.mkdir(parents=True)
(folder / "SKILL.md").write_text("---\\nname: greeting\\ndescription: How to greet.\\n---\\nSay hi.\\n")
app = mcprev.App("office", "1")
app.add_skills("skills")
async def main():
    async with mcprev.connect(app) as client:
        assert [skill.name async for skill in client.skills()] == ["greeting"]
asyncio.run(main())
""",
    "schema": """
import mcprev
app = mcprev.App("odd", "1")
import asyncio
from mcprev_types.latest import models as m
class Handler(mcprev.ServerHandler):
    async def list_tools(self, ctx, params):
        schema = {"type": "object", "not": {"required": ["bad"]}}  # a keyword beyond types, bounds and enums
        return m.ListToolsResult(tools=[m.Tool.from_wire({"name": "t", "inputSchema": schema})])
    async def call_tool(self, ctx, params):
        return m.CallToolResult(content=[])
async def main():
    async with mcprev.connect(mcprev.Server(Handler(), "odd", "1")) as client:
        await client.list_tools()
        await client.call_tool("t", {})
asyncio.run(main())
""",
}


def main() -> None:
    """Build, measure and try; the exit code says whether everything was right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extra", help="try this one alone; `none` for the wheel without an extra")
    options = parser.parse_args()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    if missing := extras.keys() ^ (PROGRAMS.keys() - {""}):
        sys.exit(f"these extras have no program here, or no longer exist: {', '.join(sorted(missing))}")
    dist = ROOT / "dist"
    for old in dist.glob("mcprev-*"):
        old.unlink()
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", dist, ROOT], check=True, stdout=subprocess.DEVNULL
    )
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    problems = look_at(wheel)
    only = options.extra
    trials = [(file, each) for file in (wheel, sdist) for each in PROGRAMS if only in {None, each or "none"}]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (file, extra), problem in zip(trials, pool.map(tried, *zip(*trials, strict=True)), strict=True):
            print(f"{file.name}{f'[{extra}]' if extra else ''}: {'fails' if problem else 'ok'}", flush=True)
            problems += problem
    sys.exit("\n".join(problems) or 0)


def look_at(wheel: Path) -> list[str]:
    """What is wrong with the wheel itself."""
    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size:,} bytes, {len(names)} files")
    problems = [f"the wheel has {size:,} bytes, more than {MOST:,}"] if size > MOST else []
    for needed in (
        "mcprev/py.typed",
        "mcprev_types/py.typed",
        "mcprev_codegen/py.typed",
        "mcprev_explore/py.typed",
    ):
        problems += [] if needed in names else [f"the wheel lacks {needed}"]
    (metadata,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    dead = [target for target in LINK.findall(metadata) if not target.startswith("https://")]
    return problems + [
        f"an index of packages shows README.md with a dead link to {target}" for target in dead
    ]


def tried(file: Path, extra: str) -> list[str]:
    """Install a file with an extra in a new environment, and run the program of that extra."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "env"
        # Links, as a copy of python that is open for writing when another thread forks cannot be started.
        venv.create(home, symlinks=True, with_pip=True)
        path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MCPREV"))
        }
        environment["PATH"] = path
        python = str(home / "bin/python")
        for command in (
            [
                python,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                f"{file}{f'[{extra}]' if extra else ''}",
            ],
            [python, "-W", "error", "-c", PROGRAMS[extra]],
        ):
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                return [f"{file.name}[{extra}]: {done.stderr.strip()[-2000:]}"]
    return []


if __name__ == "__main__":
    main()
