# The two commands of the README are `make quickstart` and `make test`; both make .venv first.

PYTHON ?= python3
VENV ?= .venv
PEER ?= .venv-peer
INTEROP ?= .venv-interop
OUT ?= quickstart
ARGS ?=
PY := $(VENV)/bin/python

.PHONY: help quickstart test interop check format bench clean
.DEFAULT_GOAL := help

help: ## this text
	@echo "make targets:"
	@sed -n 's/^\([a-z]*\):.*## /  \1:/p' $(MAKEFILE_LIST) | awk -F: '{printf "  %-12s %s\n", $$1, $$2}'
	@echo "variables: PYTHON=$(PYTHON) VENV=$(VENV) OUT=$(OUT) ARGS='$(ARGS)'"

quickstart: $(VENV)/installed ## train, export, index and evaluate on docstrings; writes $(OUT)/
	$(VENV)/bin/samtone quickstart --out $(OUT) --overwrite $(ARGS)

test: $(VENV)/installed ## run the tests
	$(PY) -m pytest -n 2 --dist loadfile -m "not interop" $(ARGS)

interop: $(INTEROP)/installed ## run the tests against transformers and sentence-transformers
	$(INTEROP)/bin/python -m pytest -n 2 --dist loadfile -m interop $(ARGS)

check: $(VENV)/installed ## lint and formatting, as CI sees them
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(VENV)/installed ## rewrite files the way `check` wants them
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(VENV)/installed $(PEER)/installed ## speed against a peer; set DATA and VOCABULARY
	$(PY) benchmarks/speed/compare.py --data $(DATA) --vocabulary $(VOCABULARY) --peer $(PEER)/bin/python $(ARGS)

# With torch. Where pip would fetch a CUDA build, a CPU build does as well: PIP_EXTRA_INDEX_URL.
$(INTEROP)/installed: setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -m venv $(INTEROP)
	$(INTEROP)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,interop]'
	@touch $@

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) $(PEER) $(INTEROP) .pytest_cache .ruff_cache build dist *.egg-info

$(VENV)/installed: setup.cfg pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 13) or sys.exit("samtone-tf needs Python 3.11, 3.12 or 3.13; $(PYTHON) is %d.%d. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" % v)'
	@echo "Installing into $(VENV) (about 3 GB, a few minutes) ..."
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(PEER)/installed: benchmarks/speed/requirements-peer.txt
	$(PYTHON) -m venv $(PEER)
	$(PEER)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@
