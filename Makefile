# The one command surface; CI runs the same targets. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
QUESTION ?= What is photosynthesis? Answer in one sentence.

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo 'Options: ARGS="…" goes to `stagemesh up` (run) or pytest (test); PYTHON=python3.12 chooses an interpreter.'

.PHONY: run
run: setup ## start the mesh, ask it one question, watch it until Ctrl-C
	@exec $(BIN)/stagemesh up --ask '$(QUESTION)' $(ARGS)

.PHONY: setup
setup: ## install what `make run` needs
	@$(PYTHON) tools/setup_venv.py mesh

.PHONY: setup-dev
setup-dev: ## install what tests and checks need as well
	@$(PYTHON) tools/setup_venv.py dev

.PHONY: test
test: setup-dev ## run the whole suite, e.g. make test ARGS="tests/unit -k config"
	@$(BIN)/stagemesh model pull
ifdef ARGS
	@$(BIN)/python -m pytest $(ARGS)
else
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile tests/unit
	@$(BIN)/python -m pytest tests/contract tests/e2e tests/chaos
endif

.PHONY: chaos
chaos: setup-dev ## let everything fail, and see that nothing is lost (40 minutes), e.g. ARGS="--parts streams"
	@$(BIN)/stagemesh model pull
	@$(BIN)/python -m benchmarks.chaos $(ARGS)

.PHONY: kernels-sanitize
kernels-sanitize: setup-dev ## run the native kernels' tests under AddressSanitizer and UBSan, e.g. ARGS="-k attention"
	@$(BIN)/stagemesh model pull
	@$(BIN)/python tools/sanitize_kernels.py $(ARGS)

.PHONY: check
check: setup-dev ## format, lint, types, import contracts, protos
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd protos && ../$(BIN)/buf format --diff --exit-code && ../$(BIN)/buf lint
	$(BIN)/python tools/generate_protos.py --check
	$(BIN)/python tools/check_breaking.py
	$(BIN)/python tools/generate_config_docs.py --check

.PHONY: format
format: setup-dev ## format code and protos, apply safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cd protos && ../$(BIN)/buf format -w

.PHONY: protos
protos: setup-dev ## generate stagemesh/api from protos/
	$(BIN)/python tools/generate_protos.py

.PHONY: docs
docs: setup-dev ## write docs/configuration.md and the example file from the configuration models
	$(BIN)/python tools/generate_config_docs.py

.PHONY: clean
clean: ## remove what these targets made (not the models, not the state of a mesh)
	rm -rf $(VENV) build dist services/engine/kernels/native/prebuilt .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
