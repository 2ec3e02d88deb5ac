# Needs python3 (3.11 or newer), git and make; everything else goes into .venv.

PYTHON ?= python3
VENV := .venv/bin
ARGS ?=

# What a hook or a shell around us says about another repository or interpreter must not reach in.
unexport $(shell git rev-parse --local-env-vars)
unexport PYTEST_ADDOPTS PYTHONHOME PYTHONPATH VIRTUAL_ENV
unexport MAKEFLAGS MFLAGS MAKELEVEL

.PHONY: help setup demo demo-layers test test-deep soak fuzz lint format bench docs lock clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile

setup: ## make .venv with everything in it, and .venv/bin/callboard
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Callboard needs Python 3.11 or newer, and $(PYTHON) is %d.%d: name another one, for example make setup PYTHON=python3.12" % sys.version_info[:2])'
	@$(PYTHON) scripts/environment.py setup

demo: setup ## watch a board's work being called, run and verified, then layers meet a goal within a goal
	@$(VENV)/python examples/demo/run.py $(ARGS)
	@$(VENV)/python examples/layers/run.py

demo-layers: setup ## watch the layers alone
	@$(VENV)/python examples/layers/run.py $(ARGS)

test: setup ## run the test suite (ARGS='-k word' narrows it)
	$(VENV)/pytest -n 2 --dist worksteal $(ARGS)

test-deep: setup ## run the exhaustive versions of the sampled tests
	CALLBOARD_DEEP=1 $(VENV)/pytest -n 2 --dist worksteal --timeout 7200 -o faulthandler_timeout=7000 $(ARGS)

soak: setup ## kill and stop a working board's processes for SOAK_SECONDS (1800), SOAK_TASKS (2000), SOAK_SEED (1)
	$(VENV)/python -m tests.system.soak

fuzz: setup ## throw bytes at the readers for FUZZ_SECONDS (600); findings are files in build/fuzz
	$(PYTHON) scripts/environment.py fuzz
	$(VENV)/python -m tests.fuzz.run

lint: setup ## formatting, rules, types and import layers
	$(VENV)/ruff format --check .
	$(VENV)/ruff check .
	$(VENV)/mypy src tests scripts
	$(VENV)/lint-imports

format: setup ## put the code into shape
	$(VENV)/ruff format .
	$(VENV)/ruff check --fix .

bench: setup ## answer the benchmarks' questions, one after the other
	@set -e; for question in benchmarks/[!_]*.py; do \
	  echo "== $$question"; $(VENV)/python "$$question"; done

docs: setup ## write the generated reference pages anew and run the commands of every page
	$(VENV)/python -m scripts.reference
	$(VENV)/pytest tests/docs $(ARGS)

lock: setup ## resolve pyproject.toml into requirements/ (ARGS=--upgrade takes newer releases)
	$(VENV)/python scripts/environment.py lock $(ARGS)

clean: ## remove .venv, caches and built files
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name .git -prune -o -type d -name __pycache__ -exec rm -rf {} +
