# The few things one does with this project. `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE :=
# tests keep their files in memory where there is room (4 GiB): the disk costs a fifth of their time
MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 >= 4194304 {print "TMPDIR=/dev/shm"}')

MCP_CLIENTS := $(foreach one,conformance inspector old_client,tests/mcp_server/test_$(one).py)

.DEFAULT_GOAL := help
.PHONY: help demo test quick check format bench recall month crash race hub fuzz conformance clients mutants docs screenshots site dist clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-8s %s\n", $$1, $$2}'

demo: $(VENV)/.base ## walk through the main job on a temporary store (no key, no server)
	@$(BIN)/memsheaf demo

# Six processes on two cores, since many tests wait; no more, since each imports what it needs anew.
PARTS := hub servers pages surfaces core rest
hub := $(wildcard tests/hub/test_[a-o]*.py)
servers := $(wildcard tests/hub/test_[p-z]*.py)
alone := tests/chat/test_repl.py tests/chat/test_shell.py
pages := tests/web tests/chat tests/llm tests/adapters tests/test_examples.py $(addprefix --ignore=,$(alone))
surfaces := tests/cli tests/hosts tests/mcp_server tests/encode
core := $(foreach room,crash distribution fuzz guard index learn race work,tests/$(room))
rest := tests $(addprefix --ignore=,tests/hub $(filter tests/%,$(pages)) $(surfaces) $(core) tests/test_layers.py)  # in `make check`
test: $(VENV)/.dev tools ## run the tests, with short versions of the crash, race and fuzz suites
	@running=; $(foreach part,$(PARTS),$(MEMORY) $(BIN)/pytest $($(part)) > $(VENV)/$(part).log 2>&1 & running="$$running $(part):$$!";) \
	for one in $$running; do wait $${one#*:} || failed=1; echo "== $${one%:*}"; cat $(VENV)/$${one%:*}.log; done; exit $${failed:-0}
	$(MEMORY) $(BIN)/pytest $(alone)  # keys and signals, which a busy machine delays

quick: $(VENV)/.dev ## the inner loop: the tests of the core, in under a minute
	$(MEMORY) $(BIN)/pytest -n 2 --dist worksteal tests/text tests/guard tests/store tests/recall tests/index/test_catalog.py tests/test_memory.py \
	  tests/test_frontmatter.py tests/test_sheaf.py tests/test_tools.py tests/test_layers.py

check: $(VENV)/.dev ## ruff, mypy --strict, import order between layers, the faults of `make mutants`
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_layers.py
	$(BIN)/python tests/mutation/mutants.py --check

format: $(VENV)/.dev ## lay the code out
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.bench ## measure speed, beside other memory servers; table and plots go to benchmarks/results/
	$(BIN)/python -m benchmarks.run --peers
	$(BIN)/python -m benchmarks.hooks --peers --out benchmarks/results/hooks.md
	$(BIN)/python -m benchmarks.web --out benchmarks/results/web.md
	$(BIN)/python -m benchmarks.hub --out benchmarks/results/hub.md

recall: $(VENV)/.bench ## measure how well recall finds, ours against baselines (public sets in DATA=; HALF=test once)
	$(BIN)/python -m benchmarks.recall_quality $(if $(DATA),--data $(DATA)) $(if $(HALF),--half $(HALF))

month: $(VENV)/.dev ## replay a month of conversations and tell what is learned (MODEL=, URL=)
	$(BIN)/python -m benchmarks.month $(if $(MODEL),--model $(MODEL)) $(if $(URL),--url $(URL))

crash: $(VENV)/.dev tools ## kill a commit at every system call; fail its disk; cut its power (10 minutes)
	$(BIN)/python tests/crash/strike.py
	$(BIN)/python tests/crash/power.py
	$(BIN)/python tests/hosts/faults.py

race: $(VENV)/.dev ## many writers, editors alongside, long random stories (10 minutes)
	MEMSHEAF_LONG=1 $(BIN)/pytest -s -m long tests --ignore=tests/crash --ignore=tests/adapters \
	  $(MCP_CLIENTS:%=--ignore=%) --ignore=tests/hosts/test_claude_code.py --ignore=tests/hosts/test_other_clients.py
	MEMSHEAF_LONG=1 $(BIN)/pytest -s tests/store/test_state_machine.py tests/store/test_confinement.py tests/chat/test_offline.py

hub: $(VENV)/.dev tools ## kill, cut, fill and set back hubs and their machines; long random stories (30 minutes)
	cd tests && $(MEMORY) ../$(BIN)/python -m hub.strikes
	MEMSHEAF_LONG=1 $(MEMORY) $(BIN)/pytest -s -m '' tests/hub/test_state_machine.py

fuzz: $(VENV)/.fuzz ## atheris on the header reader, the name policy and the catalog (minutes)
	$(BIN)/python tests/fuzz/fuzz_frontmatter.py -runs=200000
	$(BIN)/python tests/fuzz/fuzz_names.py -runs=200000
	$(BIN)/python tests/fuzz/fuzz_catalog.py -runs=3000

conformance: $(VENV)/.dev ## the test suites of LangGraph's store and of the Anthropic SDK's memory tool against ours
	$(BIN)/pytest -m long tests/adapters

clients: $(VENV)/.dev ## MCP's conformance suite and inspector, an old client, six coding agents (needs npm; 2 GB, minutes)
	$(BIN)/pytest -m long $(MCP_CLIENTS) tests/hosts

mutants: $(VENV)/.dev ## introduce 87 faults, one at a time; the tests that are named with each must notice (minutes)
	$(BIN)/python tests/mutation/mutants.py

docs: $(VENV)/.dev ## write anew what is made from the code: docs/cli.md, docs/cli/, and what the MCP server lists
	$(BIN)/python tests/cli/generate.py
	$(BIN)/python tests/mcp_server/generate.py

screenshots: $(VENV)/.dev tools ## take the pictures of the page for README and docs/web.md, from made-up memories
	PYTHONPATH=tests $(BIN)/python tests/web/screenshots.py docs/images

site: $(VENV)/.docs ## build the documentation site into site/; `python -m http.server -d site` shows it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # not --quiet: that silences what --strict counts

dist: $(VENV)/.dist ## build sdist and wheel, check them, and try the wheel alone in a fresh environment
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tests/distribution/check_dist.py dist

clean: ## remove what the other targets made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site

# strace kills and fails the store at chosen system calls; a browser opens the pages of `memsheaf web`
.PHONY: tools
tools:
	@wanted=; command -v strace >/dev/null || wanted=strace; \
	{ command -v chromium-headless-shell || command -v chromium || command -v google-chrome; } >/dev/null || \
	  wanted="$$wanted chromium-headless-shell"; \
	test -z "$$wanted" || { install="$$(command -v sudo) apt-get install -y -qq --no-install-recommends"; \
	  $$(command -v sudo) apt-get update -qq && { $$install $$wanted || $$install strace chromium; }; } || \
	  { echo "the tests need strace and chromium: install them and run this again" >&2; exit 1; }

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "memsheaf needs Python 3.11 or later: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(VENV)/bin/python pyproject.toml
	@$(BIN)/pip install -q --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/pip install -q --disable-pip-version-check -e '.[dev,models,chat,web,server,adapters]'
	@touch $@ $(VENV)/.base

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/pip install -q --disable-pip-version-check -e '.[bench]'
	@touch $@

$(VENV)/.fuzz: $(VENV)/.dev
	$(BIN)/pip install -q --disable-pip-version-check -e '.[fuzz]'
	@touch $@

$(VENV)/.dist: $(VENV)/bin/python pyproject.toml
	$(BIN)/pip install -q --disable-pip-version-check -e '.[dist]'
	@touch $@ $(VENV)/.base

$(VENV)/.docs: $(VENV)/bin/python pyproject.toml
	$(BIN)/pip install -q --disable-pip-version-check -e '.[docs]'
	@touch $@ $(VENV)/.base
