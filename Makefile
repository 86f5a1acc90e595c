# Everything runs in .venv, which is made from constraints.txt on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow test-all lint format bench-check clean
.DEFAULT_GOAL := test
# A process per core, up to four, and one thread in each.
TEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --maxprocesses=4 --dist=loadfile

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(VENV)/installed  ## train on the bundled digits, evaluate, repair, write demo/report.html
	$(BIN)/calibrant demo

test: $(VENV)/installed  ## the suite, without what is marked slow
	$(TEST) -m "not slow"

test-slow: $(VENV)/installed  ## only what is marked slow
	$(TEST) -m slow

test-all: test-slow test  ## the whole suite

lint: $(VENV)/installed  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

format: $(VENV)/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-check: $(VENV)/installed  ## hold benchmarks/results against the bars; measures nothing
	$(BIN)/python benchmarks/check.py
	$(BIN)/python benchmarks/readme_table.py --check

clean:
	rm -rf $(VENV) build dist demo .pytest_cache .ruff_cache .hypothesis
