"""What docs/hosting.md and docs/hosts.md show for platforms, the registry and bundles: each file is read, and what it starts serves.

Each command runs as its platform runs it, with the variables that its file sets, and is asked under its public name.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement
from packaging.version import Version

import mcprev
from helpers.http_in_process import InProcess, Message
from helpers.redis_server import RedisServer
from helpers.running import run
from helpers.served_workers import LISTENS, ServedWorkers, free_port
from helpers.shell import invoke
from helpers.support import ROOT
from mcprev.revisions import DEFAULT, HttpShape, Revision

FOLDER: Final = ROOT / "examples" / "hosting"
PUBLISHING: Final = ROOT / "examples" / "publishing"
SHOP: Final = ROOT / "examples" / "deploy" / "shop.py"
PAGE: Final = (ROOT / "docs" / "hosting.md").read_text(encoding="utf-8")
HOSTS: Final = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
SHELL: Final = shutil.which("sh")


def shown(page: str) -> dict[str, str]:
    """The files that a page shows, by their names."""
    return dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL))


def text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def image() -> tuple[list[str], dict[str, str]]:
    """The command of the Dockerfile, and the variables that it sets."""
    lines = dict(line.split(" ", 1) for line in text("Dockerfile").splitlines() if line)
    return json.loads(lines["CMD"]), dict(each.split("=") for each in lines["ENV"].split())


def listed(variables: Sequence[Mapping[str, Any]], name: str = "name") -> dict[str, str]:
    """Variables as a platform lists them; those from its store of secrets are empty."""
    return {each[name]: each.get("value", "") for each in variables}


CLOUD_RUN: Final = yaml.safe_load(text("service.yaml"))["spec"]["template"]["spec"]
AZURE: Final = yaml.safe_load(text("containerapp.yaml"))["properties"]
EXPRESS: Final = json.loads(text("express.json"))
FLY: Final = tomllib.loads(text("fly.toml"))
RENDER: Final = yaml.safe_load(text("render.yaml"))["services"]
RAILWAY: Final = json.loads(text("railway.json"))["deploy"]
(PROCFILE,) = re.findall(r"^web: (.+)$", text("Procfile"), re.MULTILINE)
LOCAL, TUNNEL = re.findall(r"^mcprev serve .+$", PAGE, re.MULTILINE)
(OF_LOCAL,) = re.findall(r"^export (.+)$", PAGE, re.MULTILINE)
(CALL,) = re.findall(r"^mcprev call .+$", PAGE, re.MULTILINE)

OF_IMAGE: Final = {
    "Cloud Run": listed(CLOUD_RUN["containers"][0]["env"]),
    "Azure": listed(AZURE["template"]["containers"][0]["env"]),
    "ECS": listed(EXPRESS["primaryContainer"]["environment"] + EXPRESS["primaryContainer"]["secrets"]),
    "Fly": FLY["env"],
    "Render": listed(RENDER[0]["envVars"], "key") | {"PORT": "10000"},
    "Railway": {"PUBLIC_HOST": "shop.up.railway.app"},
}
"""The variables of the platforms that run the image."""
COMMANDS: Final = [
    *(pytest.param(image()[0], image()[1] | each, id=name) for name, each in OF_IMAGE.items()),
    pytest.param(["sh", "-c", PROCFILE], {"PUBLIC_HOST": "shop.herokuapp.com"}, id="Procfile"),
    pytest.param(shlex.split(TUNNEL), {"PUBLIC_HOST": "mcp.example"}, id="a tunnel"),
]


@pytest.fixture(scope="module")
def redis() -> Generator[RedisServer, None, None]:
    server = RedisServer().start()
    yield server
    server.end()


@asynccontextmanager
async def started(
    words: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> AsyncGenerator[ServedWorkers, None]:
    """Run a command as a platform does: at the port of PORT, or, if it names one, at another in place of that."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(word.replace("127.0.0.1:8000", f"127.0.0.1:{port}") for word in words),
        cwd=folder, stderr=asyncio.subprocess.PIPE, limit=1024 * 1024,
        env={**os.environ, **environment, "PORT": str(port), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    server = ServedWorkers(process, port)
    try:
        await server.until(LISTENS)
        yield server
    finally:
        await server.aclose()


def test_the_pages_show_what_the_folders_have() -> None:
    assert {name: each for name, each in shown(PAGE).items() if name != "shop.py"} == {
        path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir() if path.is_file()
    }
    published = {name: (PUBLISHING / name).read_text(encoding="utf-8") for name in shown(HOSTS)}
    assert shown(HOSTS) == published
    assert {*published} == {each.name for each in PUBLISHING.iterdir() if each.is_file()}


@pytest.mark.skipif(SHELL is None, reason="there is no sh here")
@pytest.mark.parametrize(("words", "environment"), COMMANDS)
def test_the_command_of_a_platform_serves_under_its_public_name_and_stops(
    words: Sequence[str], environment: Mapping[str, str], tmp_path: Path, redis: RedisServer
) -> None:
    shutil.copy(SHOP, tmp_path)
    host = environment["PUBLIC_HOST"]
    store = {"MCPREV_STORE": redis.url(host)} if "MCPREV_STORE" in environment else {}

    async def main() -> None:
        async with (
            started(words, tmp_path, {**environment, **store}) as server,
            aiohttp.ClientSession() as http,
        ):
            at = server.url.removesuffix("/mcp")
            for path in ("/ready", "/healthz"):
                async with http.get(at + path, headers={"Host": "health.internal"}) as answer:
                    assert answer.status == 200
            async with mcprev.connect(mcprev.http(server.url, headers={"Host": host})) as client:
                assert (await client.call_tool("price", {"item": "hat"}, as_=int)) == 20
            async with http.post(server.url, data=b"{}", headers={"Host": "evil.example"}) as answer:
                assert answer.status == 403
            server.send(signal.SIGTERM)
            assert await server.ended() == 0

    run(main(), limit=60)


@pytest.mark.skipif(SHELL is None, reason="there is no sh here")
def test_the_command_that_tries_the_image_at_a_terminal_answers_the_call_beside_it(tmp_path: Path) -> None:
    shutil.copy(SHOP, tmp_path)
    variables = dict(each.split("=") for each in shlex.split(OF_LOCAL))
    assert set(variables) == {*image()[1], "PUBLIC_HOST"}

    async def main() -> None:
        async with started(["sh", "-c", f"exec {LOCAL}"], tmp_path, variables) as server:
            words = shlex.split(CALL.replace(f"http://127.0.0.1:{variables['PORT']}/mcp", server.url))
            done = await asyncio.to_thread(invoke, None, *words[1:])
            assert (done.exit_code, done.stdout) == (0, "20\n")

    run(main(), limit=60)


@pytest.mark.skipif(SHELL is None, reason="there is no sh here")
def test_the_image_says_which_variable_is_missing(tmp_path: Path) -> None:
    async def main() -> None:
        words, environment = image()
        process = await asyncio.create_subprocess_exec(
            *words, cwd=tmp_path, stderr=asyncio.subprocess.PIPE, env={**os.environ, **environment}
        )
        _, said = await process.communicate()
        assert process.returncode != 0
        assert b"PUBLIC_HOST" in said

    run(main())


@pytest.mark.parametrize(
    ("drain", "killed"),
    [
        (OF_IMAGE["Azure"]["DRAIN"], AZURE["template"]["terminationGracePeriodSeconds"]),
        (FLY["env"]["DRAIN"], FLY["kill_timeout"]),
        (OF_IMAGE["Render"]["DRAIN"], RENDER[0]["maxShutdownDelaySeconds"]),
        (image()[1]["DRAIN"], RAILWAY["drainingSeconds"]),
        (image()[1]["DRAIN"], 30),  # ECS and Heroku
    ],
    ids=["Azure", "Fly", "Render", "Railway", "others"],
)
def test_a_platform_waits_longer_than_calls_may_take_to_finish(drain: str, killed: int) -> None:
    assert killed >= int(drain) + 10


def test_platforms_ask_the_probes_at_the_port_of_the_image() -> None:
    probes = {each["type"]: each["httpGet"] for each in AZURE["template"]["containers"][0]["probes"]}
    assert {name: each["path"] for name, each in probes.items()} == {
        "Liveness": "/healthz",
        "Readiness": "/ready",
    }
    assert CLOUD_RUN["containers"][0]["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert {
        CLOUD_RUN["containers"][0]["startupProbe"]["httpGet"]["path"], EXPRESS["healthCheckPath"], RAILWAY["healthcheckPath"],
        RENDER[0]["healthCheckPath"], *(each["path"] for each in FLY["http_service"]["checks"]),
    } == {"/ready"}  # fmt: skip
    assert {
        AZURE["configuration"]["ingress"]["targetPort"], EXPRESS["primaryContainer"]["containerPort"],
        FLY["http_service"]["internal_port"], *(each["port"] for each in probes.values()),
    } == {int(image()[1]["PORT"])}  # fmt: skip
    assert FLY["kill_signal"] == "SIGTERM"


def test_a_store_of_a_platform_is_one_that_drops_nothing_and_has_a_name_that_is_there() -> None:
    web, store = RENDER
    (used,) = [each["fromService"] for each in web["envVars"] if each["key"] == "MCPREV_STORE"]
    assert (used["type"], used["name"]) == (store["type"], store["name"])
    assert store["maxmemoryPolicy"] == "noeviction"
    (secret,) = AZURE["configuration"]["secrets"]
    (named,) = [
        each["secretRef"] for each in AZURE["template"]["containers"][0]["env"] if "secretRef" in each
    ]
    assert named == secret["name"]


def test_the_tunnel_leads_to_the_server_under_the_name_that_it_accepts() -> None:
    tunnel = yaml.safe_load(text("config.yml"))
    first, last = tunnel["ingress"]
    words = shlex.split(TUNNEL)
    assert first["service"] == f"http://{words[words.index('--http') + 1]}"
    assert first["hostname"] == words[words.index("--host") + 1]
    assert last == {"service": "http_status:404"}


def test_clients_are_told_the_public_url_for_their_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(shown(PAGE)["shop.py"], encoding="utf-8")
    environment = {"PUBLIC_HOST": "mcp.example", "ISSUER": "https://login.example"}

    async def main() -> None:
        words, variables = image()
        async with (
            started(words, tmp_path, {**variables, **environment}) as server,
            aiohttp.ClientSession(headers={"Host": "mcp.example"}) as http,
        ):
            async with http.post(server.url, data=b"{}") as answer:
                assert answer.status == 401
                (metadata,) = re.findall(r'resource_metadata="([^"]+)"', answer.headers["WWW-Authenticate"])
            assert metadata.startswith("https://mcp.example/.well-known/")
            async with http.get(
                metadata.replace("https://mcp.example", server.url.removesuffix("/mcp"))
            ) as answer:
                found = await answer.json()
            assert found["resource"] == "https://mcp.example/mcp"
            assert found["authorization_servers"] == ["https://login.example"]

    run(main(), limit=60)


# -- functions -----------------------------------------------------------------------------------------------------


def loaded(path: Path) -> Any:
    """A program, imported by its path."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def event(scope: Mapping[str, Any], body: bytes) -> dict[str, Any]:
    """A request as a function URL or an HTTP API tells it (payload format 2.0)."""
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    return {
        "version": "2.0", "routeKey": "$default", "rawPath": scope["path"],
        "rawQueryString": scope["query_string"].decode(), "headers": headers, "isBase64Encoded": True,
        "body": base64.b64encode(body).decode(),
        "requestContext": {
            "domainName": headers["host"], "stage": "$default", "requestId": "1",
            "http": {"method": scope["method"], "path": scope["path"], "protocol": "HTTP/1.1", "sourceIp": "203.0.113.7"},
        },
    }  # fmt: skip


class Function:
    """Lambda in front of a handler: each request is one call, in a thread with an event loop of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PUBLIC_HOST", "mcp.example")
        self._loop = asyncio.new_event_loop()
        self._thread = ThreadPoolExecutor(1, initializer=partial(asyncio.set_event_loop, self._loop))
        self._module = self._thread.submit(loaded, folder / "lambda_function.py").result()
        self.responses: list[dict[str, Any]] = []

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        running = asyncio.get_running_loop()
        found = await running.run_in_executor(self._thread, self._module.handler, event(scope, body), None)
        self.responses.append(found)
        payload = found["body"].encode()
        headers = [(name.encode(), value.encode()) for name, value in found["headers"].items()]
        await send({"type": "http.response.start", "status": found["statusCode"], "headers": headers})
        await send({"type": "http.response.body", "body": payload})

    def close(self) -> None:
        self._thread.shutdown()
        self._loop.close()


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch) -> Generator[Function, None, None]:
    made = Function(FOLDER, monkeypatch)
    yield made
    made.close()


@pytest.mark.parametrize("row", [row for row in DEFAULT if row.http is not HttpShape.SSE], ids=str)
def test_the_function_serves_clients_of_each_revision_without_a_session(
    row: Revision, function: Function
) -> None:
    async def main() -> None:
        connector = InProcess(function)
        async with aiohttp.ClientSession(connector=connector) as http:
            target = mcprev.http(f"{connector.origin}/mcp", headers={"Host": "mcp.example"}, session=http)
            async with mcprev.connect(target, revisions=[row.name]) as client:
                assert client.revision == row.name
                assert [tool.name async for tool in client.tools()] == ["price"]
                assert (await client.call_tool("price", {"item": "hat"}, as_=int)) == 20
                assert (await client.call_tool("price", {"item": "cat"})).is_error
        seen = [
            {name.lower(): value for name, value in each["headers"].items()} for each in function.responses
        ]
        assert not any("mcp-session-id" in headers for headers in seen)
        assert {headers["content-type"] for headers in seen if "content-type" in headers} == {
            "application/json"
        }

    asyncio.run(asyncio.wait_for(main(), 20))  # by the clock of the thread, which `run` would not see


def test_the_function_refuses_other_names_and_streams(function: Function) -> None:
    async def main() -> None:
        async with aiohttp.ClientSession(connector=(connector := InProcess(function))) as http:
            url = f"{connector.origin}/mcp"
            async with http.post(url, data=b"{}", headers={"Host": "evil.example"}) as answer:
                assert answer.status == 403
            headers = {"Host": "mcp.example", "Accept": "text/event-stream"}
            async with http.get(url, headers=headers) as answer:
                assert answer.status == 405

    asyncio.run(asyncio.wait_for(main(), 20))  # by the clock of the thread, which `run` would not see


def test_the_event_of_the_page_gets_the_price_from_the_line_that_tries_it() -> None:
    (line,) = re.findall(r"^PUBLIC_HOST=.+ python -c .+$", PAGE, re.MULTILINE)
    assignment, python, *words = shlex.split(line)
    assert python == "python"
    name, _, value = assignment.partition("=")
    done = subprocess.run(
        [sys.executable, *words], cwd=FOLDER, env={**os.environ, name: value}, capture_output=True, text=True, check=True
    )  # fmt: skip
    answer = ast.literal_eval(done.stdout)
    assert answer["statusCode"] == 200
    assert json.loads(answer["body"])["result"]["content"] == [{"type": "text", "text": "20"}]


def test_the_archive_of_the_function_has_what_the_function_imports() -> None:
    (words,) = re.findall(r"^pip install (.+)$", PAGE, re.MULTILINE)
    needed = {
        each.names[0].name if isinstance(each, ast.Import) else each.module
        for each in ast.parse(text("lambda_function.py")).body
        if isinstance(each, ast.Import | ast.ImportFrom)
    } - {"__future__", "os"}
    assert {*shlex.split(words)[-2:]} == needed
    created = re.search(r"^aws lambda create-function .+$", PAGE, re.MULTILINE)
    assert created is not None
    assert "--handler lambda_function.handler" in created[0]
    assert re.findall(r"python-version (\S+)", words) == re.findall(r"--runtime python(\S+)", created[0])


# -- the registry, and bundles -------------------------------------------------------------------------------------

PROJECT: Final = tomllib.loads((PUBLISHING / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SERVER: Final = json.loads((PUBLISHING / "server.json").read_text(encoding="utf-8"))
MANIFEST: Final = json.loads((PUBLISHING / "manifest.json").read_text(encoding="utf-8"))
(TRIED,) = re.findall(r"^mcprev call .* -- uv run .+$", HOSTS, re.MULTILINE)


def test_the_entry_of_the_registry_is_the_package_and_keeps_to_its_rules() -> None:
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", SERVER["name"])
    assert len(SERVER["description"]) <= 100
    (package,) = SERVER["packages"]
    assert (package["identifier"], package["version"]) == (PROJECT["name"], PROJECT["version"])
    assert SERVER["version"] == PROJECT["version"]
    assert {each["type"] for each in SERVER["remotes"]} <= {"streamable-http", "sse"}
    readme = (PUBLISHING / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"^<!-- mcp-name: {re.escape(SERVER['name'])} -->$", readme, re.MULTILINE)
    assert PROJECT["readme"] == "README.md"


def test_the_package_takes_patches_of_this_release_and_no_other_minor_one() -> None:
    (requirement,) = map(Requirement, PROJECT["dependencies"])
    version = Version(mcprev.__version__)
    assert requirement.name == "mcprev"
    assert version in requirement.specifier
    assert f"{version.major}.{version.minor}.{version.micro + 1}" in requirement.specifier
    assert f"{version.major}.{version.minor + 1}.0" not in requirement.specifier
    assert f"`{PROJECT['dependencies'][0]}`" in HOSTS


def test_the_command_of_the_package_serves_a_client_with_the_variables_of_the_entry() -> None:
    ((command, entry),) = PROJECT["scripts"].items()
    assert command == SERVER["packages"][0]["identifier"]
    module, _, function = entry.partition(":")
    (variable,) = SERVER["packages"][0]["environmentVariables"]

    async def main() -> None:
        words = [sys.executable, "-c", f"from {module} import {function}; {function}()"]
        target = mcprev.stdio(*words, env={variable["name"]: "USD"}, cwd=PUBLISHING)
        async with mcprev.connect(target) as client:
            assert client.server_info is not None
            assert client.server_info.version == PROJECT["version"]
            assert (await client.call_tool("price", {"item": "hat"})).text == "20 USD"

    run(main(), limit=30)


def test_the_bundle_starts_the_server_with_what_the_user_enters() -> None:
    config = MANIFEST["server"]["mcp_config"]
    folder, asked = str(PUBLISHING), MANIFEST["user_config"]["currency"]["default"]
    words = [word.replace("${__dirname}", folder) for word in config["args"]]
    assert [config["command"], *words[:3]] == ["uv", "run", "--directory", folder]
    environment = {
        name: value.replace("${user_config.currency}", asked) for name, value in config["env"].items()
    }

    async def main() -> None:
        target = mcprev.stdio(sys.executable, *words[3:], env=environment, cwd=PUBLISHING)
        async with mcprev.connect(target) as client:
            tools = [{"name": tool.name, "description": tool.description} async for tool in client.tools()]
            assert tools == MANIFEST["tools"]
            assert (await client.call_tool("price", {"item": "hat"})).text == "20 EUR"

    run(main(), limit=30)
    tried = shlex.split(TRIED)
    assert tried[tried.index("--") + 1 :] == [config["command"], *(w.replace(folder, ".") for w in words)]
    assert (PUBLISHING / MANIFEST["server"]["entry_point"]).exists()
    assert MANIFEST["version"] == PROJECT["version"]


def test_the_command_that_tries_the_bundle_prints_what_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(TRIED)
    assert words[:2] == ["mcprev", "call"]
    at = words.index("uv")
    assert words[at + 1 : at + 4] == ["run", "--directory", "."]
    monkeypatch.chdir(PUBLISHING)
    done = invoke(None, *words[1:at], sys.executable, *words[at + 4 :])
    assert done.exit_code == 0
    assert f"It prints `{done.stdout.splitlines()[-1]}`." in HOSTS
