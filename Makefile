# `make help` lists the targets. Everything happens in .venv, made on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= data

.PHONY: help setup demo test lint type browser bench models clean

help: ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

setup: $(VENV)/.installed ## a virtual environment with attrcert and its development tools

demo: setup ## bound, prove and attack the bundled sample with the bundled models
	$(BIN)/attrcert bound --eps 0.1 --eps 0.25
	$(BIN)/attrcert bound fashion-adversarial --eps 0.1 --eps 0.25
	$(BIN)/attrcert bound fashion-certifiable --proved --eps 0.1 --eps 0.25 --limit 2
	$(BIN)/attrcert attack fashion-adversarial --eps 0.1 --eps 0.25

test: export PYTHONDONTWRITEBYTECODE :=
test: setup lint type browser ## lint, types and all tests
	$(BIN)/pytest -n 2 --dist worksteal

browser: ## Chromium and its driver for the tests of the HTML report, where the system can install them
	@{ command -v chromium && command -v chromedriver; } >/dev/null || \
	{ apt-get update && apt-get install -y --no-install-recommends chromium chromium-driver; } >/dev/null 2>&1 || \
	echo "no Chromium with chromedriver, and apt-get cannot install them: the browser tests will be skipped"

lint: setup ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: setup ## types
	$(BIN)/mypy

bench: setup ## against scipy, power iteration, dense and Captum; growth and rates; ten minutes
	$(BIN)/python -m benchmarks.run

models: setup ## train the bundled models again from DATA
	$(BIN)/python models/sample.py $(DATA)
	$(BIN)/python models/train.py models/fashion-natural/recipe.toml $(DATA)
	$(BIN)/python models/train.py models/fashion-adversarial/recipe.toml $(DATA)
	$(BIN)/python models/train.py models/fashion-certifiable/recipe.toml $(DATA)
	$(BIN)/python models/train.py models/wine/recipe.toml $(DATA)

clean: ## remove what the targets made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
