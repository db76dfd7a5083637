# Every task of the project. CI and the README call these and nothing else.
# Needs make, git and Python >= 3.11; the rest comes into .venv and the user's cache.

PYTHON ?= $(shell for one in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$one -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$one && break; done)
BIN := .venv/bin
# Further arguments for the command behind a target: make test ARGS="-k diverged"
ARGS ?=
# How often `make soak` kills what backs up and restores, and how long it goes on then, in minutes.
SOAK_KILLS ?= 120
# And how many checkpoints it takes while brokers, members and workers are killed.
SOAK_CHECKPOINTS ?= 100
# And how many transactional ones of a Kafka Streams application and of a transactional loop.
TRANSACTIONAL_CHECKPOINTS ?= 100
MINUTES ?= 60
# How many checkpoints `make ordered` takes of a chain of applications.
ORDERED_CHECKPOINTS ?= 100
# How long `make fuzz` and `make hostile` go on, in seconds.
SECONDS ?= 3600
# Of how many seeds `make drills` plays each level.
DRILLS ?= 3
# How many random incidents `make campaign` plays; and the first seed of it and of `make hostile`.
INCIDENTS ?= 10
SEED ?= 1

# Labs write and flush a lot: tests keep them in memory where 8 GB of it are free.
IN_MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 8000000 {print "/dev/shm"}')
export PYTEST_DEBUG_TEMPROOT ?= $(IN_MEMORY)

# Tests start programs thousands of times: each would compile all of its libraries again.
unexport PYTHONDONTWRITEBYTECODE

# Tests of brokers wait as long as they work, so that one worker more than there are processors keeps
# these busy. Tests that share brokers stay in one worker.
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN)
WORKERS := --numprocesses $(shell expr $(PROCESSORS) + 1) --dist loadgroup --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-pythons mutants check format docs site recording lock release installed bench \
	soak ordered soak-console soak-transactional fuzz hostile campaign drills

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

setup: ## Make .venv what requirements/dev.txt says (every target below does this first)
	@if [ -z "$(PYTHON)" ]; then \
		echo "Breakglass needs Python 3.11 or newer on PATH, or make PYTHON=/path/to/it." >&2; exit 1; fi
	@$(PYTHON) -m scripts.environment

demo: setup ## Break a cluster on this machine and bring it back, by the console on a terminal
	@$(BIN)/breakglass lab demo $(ARGS)

test: setup ## Test the main job: unit tests, and every capability on real brokers
	@$(BIN)/python -m pytest $(WORKERS) -m "not slow" $(ARGS)

test-all: setup ## Test everything, the slow scenarios and older brokers too
	@$(BIN)/python -m pytest $(WORKERS) $(ARGS)

mutants: setup ## Break each rule on purpose, and see the test that names it fail (ARGS="R8 --jobs 1")
	@$(BIN)/python -m tests.mutants $(ARGS)

test-pythons: setup ## Test without brokers, then recover a lab, on each supported Python (ARGS=3.13: on it)
	@$(BIN)/python -m scripts.pythons $(ARGS)

check: setup ## Format, lint, types, import contracts, dead code, shape, docs, locked requirements
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/vulture
	$(BIN)/python -m scripts.cli_reference --check
	$(BIN)/python -m scripts.option_table --check
	$(BIN)/python -m scripts.manual --check
	$(BIN)/python -m scripts.links
	$(BIN)/python -m scripts.site
	$(BIN)/python -m scripts.shape --check
	$(BIN)/python -m scripts.screenshots --check
	$(BIN)/python -m scripts.lock --check

format: setup ## Format the code and fix what the linter can
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

docs: setup ## Write docs/cli.md, docs/options.md, man page and completions from the commands' own help, draw screens
	$(BIN)/python -m scripts.cli_reference
	$(BIN)/python -m scripts.option_table
	$(BIN)/python -m scripts.manual
	$(BIN)/python -m scripts.screenshots

site: setup ## Build the site of the documentation in build/site: strictly, and without a network
	@$(BIN)/python -m scripts.site

recording: setup ## Play the demo in a terminal, and write docs/images/demo.cast and the SVG of it
	@$(BIN)/python -m scripts.recording

lock: setup ## Pin and hash the dependencies again (ARGS=--upgrade for the newest)
	$(BIN)/python -m scripts.lock $(ARGS)

release: setup ## Cut VERSION: changelog, wheel, sdist, SBOM and checksums in dist
	@$(BIN)/python -m scripts.release $(VERSION)

installed: setup ## Install the wheel into an empty home, by uv (ARGS="--by pipx"), and use every front door of it
	@$(BIN)/python -m tests.installed $(ARGS)

bench: setup ## Measure against Kafka's own tools, in one run
	@$(BIN)/python -m benchmarks $(ARGS)

soak: setup ## SOAK_KILLS kills of backups and restores, then MINUTES of tests on real brokers
	@SOAK_KILLS=$(SOAK_KILLS) $(BIN)/python -m pytest -x -q tests/lab/backup/test_killed.py $(ARGS)
	@$(BIN)/python -m tests.lab.checkpoint.soak --checkpoints $(SOAK_CHECKPOINTS)
	@end=$$(( $$(date +%s) + 60 * $(MINUTES) )); \
	while [ $$(date +%s) -lt $$end ]; do \
		$(BIN)/python -m pytest -m lab -x -q $(ARGS) || exit 1; done

soak-console: setup ## Console and exporter open for MINUTES on brokers that die and return: memory, freshness, failures
	@$(BIN)/python -m tests.lab.console.soak --minutes $(MINUTES) $(ARGS)

soak-transactional: setup ## Take TRANSACTIONAL_CHECKPOINTS of Kafka Streams and of a transactional loop under kill -9, restore each
	@$(BIN)/python -m tests.lab.transactional.soak --checkpoints $(TRANSACTIONAL_CHECKPOINTS) $(ARGS)

ordered: setup ## Take ORDERED_CHECKPOINTS (100) of a chain of applications at load, and lose nothing
	@ORDERED_CHECKPOINTS=$(ORDERED_CHECKPOINTS) $(BIN)/python -m pytest -q \
		tests/lab/checkpoint/test_ordered.py -k "at_load or moment_apart" $(ARGS)

fuzz: setup ## Feed every reader of untrusted bytes for SECONDS (3600), guided by what it reaches
	@$(BIN)/python -m tests.fuzz.explore --seconds $(SECONDS) $(ARGS)

hostile: setup ## Run every command against brokers that answer falsely at random, for SECONDS, from SEED on
	@$(BIN)/python -m tests.hostile --seconds $(SECONDS) --seed $(SEED) $(ARGS)

campaign: setup ## Break INCIDENTS clusters in random ways from SEED on, recover each, write docs/campaign.md
	@$(BIN)/python -m tests.campaign --incidents $(INCIDENTS) --seed $(SEED) $(ARGS)

drills: setup ## Play drills of DRILLS seeds at each level, by Breakglass and by typing the best play
	@BREAKGLASS_DRILLS=$(DRILLS) $(BIN)/python -m pytest -q tests/lab/harness/drill/many_drills.py $(ARGS)
