# Every target does its own set-up; `make help` lists them.
PYTHON ?= $(or $(shell command -v python3.11),python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
UV_VERSION := $(shell sed -n 's/^uv==\([0-9.]*\).*/\1/p' requirements.lock)

export TF_CPP_MIN_LOG_LEVEL ?= 3
# Importing TensorFlow without compiled bytecode takes three times as long.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help quickstart test test-slow fuzz stress benchmark lint format lock clean

help:
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 14

quickstart: $(STAMP) ## from raw text to served answers, in minutes
	$(BIN)/python -m training quickstart --run-dir runs/quickstart $(QUICKSTART_ARGS)

test: $(STAMP) ## the default tests
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" $(PYTEST_ARGS)

test-slow: $(STAMP) ## the tests that take minutes
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

fuzz: $(STAMP) ## 20,000 requests that nobody planned, against a server
	$(BIN)/python -m tests.serving.fuzz $(FUZZ_ARGS)

stress: $(STAMP) ## ten minutes of load, good and bad, on a server
	$(BIN)/python -m tests.serving.stress $(STRESS_ARGS)

benchmark: $(STAMP) ## everything in benchmarks/, as JSON and a table
	$(BIN)/python -m benchmarks $(BENCHMARK_ARGS)

lint: $(STAMP) ## ruff, mypy, import-linter, no code twice
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pylint --score=n lvbert_command.py lvbert_tf common training export serving benchmarks

format: $(STAMP) ## rewrite what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(STAMP) ## resolve requirements.lock anew, keeping what still fits
	$(BIN)/uv pip compile pyproject.toml --extra training --extra export \
	  --extra serving --extra datasets --extra beam --extra dev \
	  --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --quiet --output-file requirements.lock

clean: ## remove the environment
	rm -rf $(VENV)

# A half-made environment has no stamp, so that the next call finishes it.
$(STAMP): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { \
	  echo "Python 3.11 is missing: '$(PYTHON)' was not found." >&2; \
	  echo "Install it, or name it: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { \
	  echo "Python 3.11 is needed; $(PYTHON) is another version." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  "uv==$(UV_VERSION)" || { \
	  echo "No package registry was reached; pip's configuration names none that" \
	       "works from here." >&2; exit 1; }
	$(BIN)/uv pip sync --quiet --python $(BIN)/python requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@
