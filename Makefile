# make setup   an environment in .venv with everything for development
# make demo    fine-tune, export twice, predict three ways
# make test    all tests; PEERS=1 adds torch and transformers for those that compare with them
# make lint    ruff and mypy
# make clean   removes .venv, builds and caches
#
# PYTHON=…     the Python (3.10 to 3.13) that .venv is made with; found by itself otherwise
# WORKERS=…    processes that run tests side by side; 0, none beside the first, was the fastest on
#              two busy cores (TensorFlow starts once), 2 or more may win on an idle machine

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := setup
.PHONY: setup demo test lint clean

WORKERS ?= 0
PYTHON ?=
VENV := .venv
RUN := $(VENV)/bin/python

# The stamps' names hold a checksum, since a fresh clone gives every file a new date.
SUM := $(shell cat requirements.txt pyproject.toml | cksum | cut -d ' ' -f 1)
BASE_STAMP := $(VENV)/.installed-$(SUM)
DEV_STAMP := $(VENV)/.installed-dev-$(SUM)
PEERS_STAMP := $(VENV)/.installed-peers-$(SUM)

# CI is "true" on the usual hosts.
WITH_PEERS := $(filter-out 0 no false,$(PEERS) $(CI))

define FIND_PYTHON
tried=""; \
for candidate in $${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10 python}; do \
  version=$$("$$candidate" -c 'import sys, ensurepip, venv; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || version="does not run"; \
  tried="$$tried"$$'\n'"  $$candidate: $$version"; \
  case "$$version" in 3.10|3.11|3.12|3.13) found="$$candidate"; break;; esac; \
done; \
if [ -z "$${found:-}" ]; then \
  echo "albert_tf needs Python 3.10, 3.11, 3.12 or 3.13. Received:$$tried" >&2; \
  echo "Install one of these, or name it: make PYTHON=/path/to/python3.12" >&2; \
  exit 1; \
fi
endef

export PYTHON

setup: $(DEV_STAMP)

demo: $(BASE_STAMP)
	$(RUN) -m albert_tf.demo

test: $(DEV_STAMP) $(if $(WITH_PEERS),$(PEERS_STAMP))
	$(RUN) -m pytest -n $(WORKERS) --dist loadfile

lint: $(DEV_STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache

# An environment that no longer runs (its Python was removed, the folder was moved) is made anew.
$(BASE_STAMP):
	@$(FIND_PYTHON); \
	if ! $(RUN) -c 'import pip' 2>/dev/null; then \
	  echo "Making $(VENV) with $$found"; \
	  "$$found" -m venv --clear $(VENV); \
	fi
	$(RUN) -m pip install --quiet --editable .
	@touch $@

$(DEV_STAMP): $(BASE_STAMP)
	$(RUN) -m pip install --quiet --editable '.[dev]'
	@touch $@

$(PEERS_STAMP): $(DEV_STAMP)
	$(RUN) -m pip install --quiet --editable '.[peers]'
	@touch $@
