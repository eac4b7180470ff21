# `make demo` and `make test` need Python 3.11 or newer and a C++ compiler; they do the rest.

PYTHON ?= python3
VENV ?= .venv
# Its own package index serves PyTorch's CPU build; where pip does not know of one this
# version is not found, nothing is downloaded, and the tests that need PyTorch skip.
TORCH ?= torch==2.13.0+cpu

BIN := $(abspath $(VENV))/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
SOURCES := $(shell find src -type f ! -path '*/__pycache__/*') \
           CMakeLists.txt README.md LICENSE

.NOTPARALLEL: # two pips must not meet in one environment
.PHONY: help demo test test-all lint types sanitize wheel docs clean

help: ## this list
	@awk -F ': .*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/installed ## rectifier, tanh and softplus on handwritten digits, with and without pre-training
	$(BIN)/hardzero compare --labels 100 --pretraining --picture digits.svg

test: $(VENV)/test-ready $(VENV)/installed ## the tests, on the installed package
	$(BIN)/pytest $(PYTEST_ARGS)

test-all: $(VENV)/test-ready $(VENV)/installed ## the slow tests too
	$(BIN)/pytest -m "not gpu and not reproduction" $(PYTEST_ARGS)

lint: $(VENV)/lint-ready ## format, style, import directions, docstrings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	PYTHONPATH=src $(BIN)/lint-imports
	$(BIN)/numpydoc lint $(filter src/%.py,$(SOURCES))

types: $(VENV)/lint-ready $(VENV)/installed ## mypy, strict
	$(BIN)/mypy

sanitize: $(VENV)/build-ready ## the C++ core under the address and undefined-behaviour sanitizers
	PATH="$(BIN):$$PATH" cmake -G Ninja -S . -B $(VENV)/sanitize -DHARDZERO_SANITIZE=ON
	PATH="$(BIN):$$PATH" cmake --build $(VENV)/sanitize
	$(VENV)/sanitize/sanitize

wheel: $(VENV)/lint-ready ## build the wheel from the source archive, try it in a clean environment
	rm -rf dist $(VENV)/clean
	$(BIN)/python -m build --outdir dist
	$(PYTHON) -m venv $(VENV)/clean
	$(VENV)/clean/bin/python -m pip -qq install dist/*.whl
	cd / && $(BIN)/../clean/bin/hardzero --help > /dev/null
	cd / && $(BIN)/../clean/bin/hardzero info

docs: $(VENV)/docs-ready $(VENV)/installed ## the documentation, in docs/_build
	$(BIN)/sphinx-build -W -q docs docs/_build

clean: ## remove everything that the targets above made
	rm -rf $(VENV) dist docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis \
	    .import_linter_cache

# Each set-up step leaves a file behind, so that it runs again only when its inputs change.

$(VENV)/build-ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo 'hardzero needs Python 3.11 or newer, and "$(PYTHON)" is not.'; \
	    echo 'Install one, or name it: make PYTHON=python3.12'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
	    echo '"$(PYTHON)" cannot make virtual environments.'; \
	    echo 'Debian, Ubuntu: apt install python3-venv'; exit 1; }
	@for compiler in $(firstword $(CXX)) c++ g++ clang++; do \
	    command -v $$compiler > /dev/null && exit 0; done; \
	    echo 'hardzero needs a C++17 compiler and found none. Install one'; \
	    echo '(Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++;'; \
	    echo 'macOS: xcode-select --install), or name yours: make CXX=...'; exit 1
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.1'
	$(PIP) install --group build
	@touch $@

$(VENV)/installed: $(VENV)/build-ready $(SOURCES)
	PATH="$(BIN):$$PATH" $(PIP) install --no-build-isolation \
	    --config-settings build-dir=$(abspath $(VENV))/build '.[plots]'
	@touch $@

$(VENV)/test-ready: $(VENV)/build-ready
	$(PIP) install --group test
	@$(PIP) install '$(TORCH)' 2> /dev/null || \
	    echo 'No CPU build of PyTorch to be had: the tests that need it skip.' \
	         'To run them: $(BIN)/pip install torch'
	@touch $@

$(VENV)/lint-ready: $(VENV)/build-ready
	$(PIP) install --group lint
	@touch $@

$(VENV)/docs-ready: $(VENV)/build-ready
	$(PIP) install --group docs
	@touch $@
