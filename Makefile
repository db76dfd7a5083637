# Every task of the project. CI and the README call these and nothing else.
# Needs make, git and Python >= 3.11; the rest comes into .venv and the user's cache.

PYTHON ?= $(shell for one in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$one -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$one && break; done)
BIN := .venv/bin
# Further arguments for the command behind a target: make test ARGS="-k diverged"
ARGS ?=
# How long `make soak` goes on, in minutes.
MINUTES ?= 60

# Labs write and flush a lot: tests keep them in memory where 8 GB of it are free.
IN_MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 8000000 {print "/dev/shm"}')
export PYTEST_DEBUG_TEMPROOT ?= $(IN_MEMORY)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all check format docs lock bench soak

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

setup: ## Make .venv what requirements/dev.txt says (every target below does this first)
	@if [ -z "$(PYTHON)" ]; then \
		echo "Breakglass needs Python 3.11 or newer on PATH, or make PYTHON=/path/to/it." >&2; exit 1; fi
	@$(PYTHON) -m scripts.environment

demo: setup ## Break a cluster on this machine and bring it back
	@$(BIN)/breakglass demo $(ARGS)

test: setup ## Test the main job: unit tests, and real brokers
	@$(BIN)/python -m pytest -m "not slow" $(ARGS)

test-all: setup ## Test everything, the slow scenarios and older brokers too
	@$(BIN)/python -m pytest $(ARGS)

check: setup ## Format, lint, types, import contracts, docs, locked requirements
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m scripts.cli_reference --check
	$(BIN)/python -m scripts.lock --check

format: setup ## Format the code and fix what the linter can
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

docs: setup ## Write docs/cli.md from the commands' own help
	$(BIN)/python -m scripts.cli_reference

lock: setup ## Pin and hash the dependencies again (ARGS=--upgrade for the newest)
	$(BIN)/python -m scripts.lock $(ARGS)

bench: setup ## Measure against Kafka's own tools, in one run
	@$(BIN)/python -m benchmarks $(ARGS)

soak: setup ## Repeat the tests on real brokers for MINUTES, until one fails
	@end=$$(( $$(date +%s) + 60 * $(MINUTES) )); \
	while [ $$(date +%s) -lt $$end ]; do \
		$(BIN)/python -m pytest -m lab -x -q $(ARGS) || exit 1; done
