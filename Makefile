# Everything runs in .venv, which is made from constraints.txt on first use.
PYTHON ?= python3
VENV := .venv
# Windows keeps an environment's programs in a folder of another name.
PROGRAMS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(PROGRAMS)

.PHONY: demo fuzz test test-slow test-all lint lint-style lint-types format bench-check docs docs-serve docs-output docs-check mutants wheel wheel-check wheel-test package-check sbom release-notes clean
.DEFAULT_GOAL := test
# A process per core, up to four, and one thread in each.
TEST := $(BIN)/python -m pytest -q -n auto --maxprocesses=4 --dist=worksteal
test test-slow test-all docs-output docs-check mutants wheel-test: export OMP_NUM_THREADS := 1
# Hundreds of fresh processes read what the first one compiled.
unexport PYTHONDONTWRITEBYTECODE

# uv does pip's work in a third of the time and, as most of what the dependencies bring is never imported, compiles
# nothing ahead. pip, which knows the settings of this machine's pip, takes over if uv finds no packages.
$(VENV)/installed: pyproject.toml lab/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/python -m uv pip install --quiet --python $(BIN)/python -c constraints.txt -e ./lab -e '.[dev]' || \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e ./lab -e '.[dev]'
	touch $@

demo: $(VENV)/installed  ## train on the bundled digits, evaluate, repair, write demo/report.html
	$(BIN)/calibrant demo

fuzz: $(VENV)/installed  ## damaged files of every format, read beside strict readers
	$(BIN)/python tools/fuzz.py --files 5000

test: $(VENV)/installed  ## the suite, without what is marked slow
	$(TEST) -m "not slow"

test-slow: $(VENV)/installed  ## only what is marked slow
	$(TEST) -m slow

test-all: $(VENV)/installed  ## the whole suite
	$(TEST)

lint: lint-style lint-types  ## style and types

lint-style: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-types: $(VENV)/installed
	$(BIN)/basedpyright

format: $(VENV)/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-check: $(VENV)/installed  ## hold benchmarks/results against the bars; measures nothing
	$(BIN)/python benchmarks/check.py
	$(BIN)/python benchmarks/page_table.py --check

docs: $(VENV)/installed  ## build the site into build/site; a dead link fails it
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

docs-serve: $(VENV)/installed  ## show the site at http://localhost:8000 and build it anew at every change
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

docs-output: $(VENV)/installed  ## fill in what the commands of the pages print
	$(BIN)/python tools/output_blocks.py

docs-check: bench-check  ## run what the pages show, and look that their links and paths lead somewhere
	$(BIN)/python tools/output_blocks.py --check
	$(BIN)/python -m pytest -q $(wildcard tests/test_readme.py tests/test_output_blocks.py tests/test_how_to.py tests/test_explanation.py tests/test_contributing.py tests/test_site.py)

mutants: $(VENV)/installed  ## change 500 places of the source and see whether a test notices; takes hours, resumes
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'cosmic-ray>=8.4' 'coverage>=7.6'
	for step in cover run widen report; do $(BIN)/python tools/mutants $$step || exit 1; done

wheel: $(VENV)/installed  ## the wheels of calibrant and calibrant-lab, in dist
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist . ./lab

wheel-check: wheel  ## install the wheels into an environment of their own, one after the other, and use them there
	$(PYTHON) -m venv --clear build/wheel
	build/wheel/$(PROGRAMS)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/calibrant-*.whl
	build/wheel/$(PROGRAMS)/python .ci/use_wheel.py
	build/wheel/$(PROGRAMS)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/calibrant_lab-*.whl
	build/wheel/$(PROGRAMS)/python .ci/use_wheel.py lab

wheel-test: wheel  ## run the tests against the installed wheel, in a folder without the repository
	$(PYTHON) -m venv --clear build/wheel-test
	build/wheel-test/$(PROGRAMS)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/calibrant_lab-*.whl "$$(ls dist/calibrant-*.whl)[test]"
	rm -rf build/away && mkdir -p build/away && cp -r tests conftest.py pyproject.toml build/away
	cd build/away && ../wheel-test/$(PROGRAMS)/python -m pytest -q -n auto --maxprocesses=4 --dist=worksteal -m "not slow" tests

package-check: $(VENV)/installed  ## build sdist and wheel as for a release, and look at what is in them
	rm -rf dist
	$(PYTHON) -m venv --clear build/tools
	build/tools/$(PROGRAMS)/python -m pip install --quiet --disable-pip-version-check build twine pyroma check-wheel-contents
	build/tools/$(PROGRAMS)/python -m build --outdir dist .
	build/tools/$(PROGRAMS)/python -m build --outdir dist lab
	build/tools/$(PROGRAMS)/twine check --strict dist/*
	build/tools/$(PROGRAMS)/check-wheel-contents dist/*.whl
	build/tools/$(PROGRAMS)/pyroma --min 10 dist/calibrant-*.tar.gz
	@! grep -q '^[^#]*://calibrant\.example' pyproject.toml || \
		{ echo 'Not to be uploaded yet: the addresses in pyproject.toml are placeholders (CONTRIBUTING.md).'; test -z "$(TAG)"; }
	test -z "$(TAG)" || ls dist/calibrant-$(TAG:v%=%).tar.gz dist/calibrant_lab-$(TAG:v%=%).tar.gz  # the tag's version

sbom: wheel-check  ## list everything that an installation of both wheels brings, as CycloneDX JSON
	$(PYTHON) -m venv --clear build/sbom
	build/sbom/$(PROGRAMS)/python -m pip install --quiet --disable-pip-version-check 'cyclonedx-bom>=7,<8'
	build/sbom/$(PROGRAMS)/cyclonedx-py environment --output-reproducible --output-file build/calibrant.cdx.json build/wheel/$(PROGRAMS)/python

release-notes:  ## the newest entry of the changelog
	mkdir -p build
	sed -e '1,/^## /d' -e '/^## /,$$d' CHANGELOG.md > build/notes.md

clean:
	rm -rf $(VENV) build dist demo .pytest_cache .ruff_cache .hypothesis
