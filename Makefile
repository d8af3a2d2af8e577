# make setup          an environment in .venv with everything for development
# make demo           fine-tunes a model, exports it in two formats, and predicts in three ways
# make test           runs the quick tests, which takes a few minutes
# make test-portable  runs some of them without tensorflow-text and POSIX features; TESTS=tests: all
# make test-slow      runs the tests that take more than about ten seconds each
# make test-faults    kills commands, fills the disk, runs them twice, and ends fit early, TRIALS=200 times each
# make test-engines   tests building data on Spark; requires Java 17
# make test-backends  tests layers, models, and checkpoints on JAX and torch, and compares the backends
# make test-web       tests the web page in Chromium; requires npm and Chromium
# make test-site      tests every page of the documentation in Chromium; run make docs first
# make test-peers     compares with transformers, KerasHub, and MediaPipe on randomly drawn models
# make bench          compares with other libraries: Markdown, JSON, and a picture in build/bench; one hour
# make bench-runtimes runs base in each runtime that reads an export, and prints a Markdown table
# make small-model    pretrains a model of the size of `small` from BOOKS, a folder of text; or distills one
#                     from TEACHER, the folder of a BERT encoder, on SENTENCES, a file
# make mutants        checks that the quick tests catch each fault in tests/mutants; MUTANTS=names: only these;
#                     RANDOM=60: draws faults instead, and prints those that no test catches
# make fuzz           runs tests/fuzz with random texts, files, and options, for SECONDS=300
# make test-oldest    runs the quick tests with the oldest version of each package in requirements.txt
# make test-pythons   runs them with the newest versions, on each installed Python
# make coverage       measures the branches that test and test-slow cover, including child processes
# make lint           runs ruff and mypy
# make messages       writes tests/messages.txt, the wording of all errors, warnings, and help texts
# make public-api     writes tests/public_api.txt, the public names and the commands' options
# make pages          runs the blocks of README.md and docs/ with the built wheel in an empty folder, and
#                     compares their output with the pages; PAGES='README.md docs/mobile.md': only these
# make docs           runs the notebooks that changed, or all if the package changed; then make site
# make site           builds the documentation site in build/docs; a broken link is an error
# make pictures       redraws docs/pictures from their sources; requires npm
# make web-picture    draws docs/web.png from SITE, a page of `albert-tf export web`; requires Chromium
# make dist           builds the wheel and the sdist in dist, and checks them in empty environments on each
#                     installed Python; PYTHONS=3.11: only on this one
# make clean          removes .venv, builds, and caches
#
# PYTHON=…            Python (3.10 to 3.13) of .venv; default: searched for
# TRIALS=…            number of random faults in `make test-faults`
# WORKERS=…           number of test processes; 0 runs the tests in one process, which is the fastest
#                     on a busy machine (TensorFlow starts only once)
# STEPS=…             number of steps in `make small-model`
# DTYPE_POLICY=…      its precision; mixed_bfloat16 is faster on processors that support bfloat16 matmuls
# SECONDS=…           total time of `make fuzz`
# ALBERT_TF_SEED=…    repeats the random models of a run, whose log shows its seed

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := setup
.PHONY: setup demo test test-portable test-slow test-faults test-engines test-backends test-peers test-web \
  test-site test-oldest test-pythons bench bench-runtimes small-model mutants fuzz coverage lint messages public-api pages \
  docs site pictures web-picture dist clean

WORKERS ?= 2
TRIALS ?= 200
SECONDS ?= 300
STEPS ?= 60000
DTYPE_POLICY ?= float32
PYTHON ?=
VENV := .venv
RUN := $(VENV)/bin/python
# The ranges begin with the oldest version that has a wheel, so that no user needs a compiler.
PYTHONS := 3.10 3.11 3.12 3.13
PLATFORMS := x86_64-manylinux_2_28 aarch64-manylinux_2_28 macos windows
UV := $(VENV)/bin/uv
RESOLUTION_oldest := --only-binary :all: --resolution lowest-direct
RESOLUTION_newest := --only-binary :all: --resolution highest
export UV_PYTHON_DOWNLOADS ?= never
# Without .pyc files, each process would compile TensorFlow's modules, which takes longer than their
# import.
unexport PYTHONDONTWRITEBYTECODE

# Stamps are named by a checksum, because every file in a fresh clone has a new date.
SUM := $(shell cat requirements.txt pyproject.toml | cksum | cut -d ' ' -f 1)
BASE_STAMP := $(VENV)/.installed-$(SUM)
DEV_STAMP := $(VENV)/.installed-dev-$(SUM)
BACKENDS_STAMP := $(VENV)/.installed-backends-$(SUM)
BROWSER_STAMP := $(VENV)/.installed-browser-$(SUM)
DOCS_STAMP := $(VENV)/.installed-docs-$(SUM)
PEERS_STAMP := $(VENV)/.installed-peers-$(SUM)
ENGINES_STAMP := $(VENV)/.installed-engines-$(SUM)

# CI, which sets this variable, logs the slowest tests.
DURATIONS := $(if $(CI),--durations=50)
PYTEST := $(RUN) -m pytest -n $(WORKERS) --dist loadfile $(DURATIONS)
PLAIN := not peers and not browser and not backends and not engines and not faults
QUICK := $(PLAIN) and not slow
# Run separately, so that no process grows beyond a few GB.
HEAVY := tests/models tests/pipelines tests/export tests/text
# Tests for every Keras backend: each layer, and training, saving, and checkpointing of each model.
# tests/backends compares all outputs with TensorFlow's, which other tests compare with references.
MODELS := base calls compiling gradient_checkpointing losses question_answering use
PORTABLE := tests/layers tests/test_optimizers.py \
  tests/training/test_resume.py tests/training/test_steps.py tests/training/test_finetune_parts.py \
  tests/benchmarks/test_distill_small.py $(MODELS:%=tests/models/test_%.py)

TEST_PACKAGES := $(shell sed -nE "/^test = /,/^\]/s/^ *\"(.*)\",.*/'\1'/p" pyproject.toml)

# Runs the quick tests on the Python $(1). The times of the files in the second group differ so much
# that workers take single tests.
define TEST
failed=0; \
pytest="$(1) -m pytest -n $(WORKERS) --dist loadfile $(DURATIONS)"; \
$$pytest -m "$(QUICK)" tests --ignore=tests/engines $(HEAVY:%=--ignore=%) || failed=1; \
$$pytest --dist worksteal -m "$(QUICK)" $(HEAVY) || failed=1; \
exit $$failed
endef

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
ifdef ALBERT_TF_SEED
export ALBERT_TF_SEED
endif

setup: $(DEV_STAMP)

demo: $(BASE_STAMP)
	$(RUN) -m albert_tf.demo

test: $(DEV_STAMP)
	$(call TEST,$(RUN))

# Hides what Windows lacks; the rest is still this system's.
test-portable: export PYTHONPATH = $(CURDIR)/tests/portable
test-portable: export PYTHONWARNDEFAULTENCODING = 1
test-portable: $(DEV_STAMP)
	$(PYTEST) -m "$(QUICK)" $(or $(TESTS),@tests/portable/tests.txt tests/data/jobs/test_local.py)

test-slow: $(DEV_STAMP)
	$(PYTEST) --dist load --maxschedchunk 1 -m "slow and $(PLAIN)" tests --ignore=tests/engines

test-faults: export ALBERT_TF_TRIALS = $(TRIALS)
test-faults: $(DEV_STAMP)
	$(RUN) -m pytest -n $(WORKERS) --dist load -m faults tests/faults

test-engines: $(ENGINES_STAMP)
	$(RUN) -m pytest -n 0 -m engines --packages-required tests/engines

# With models this small, torch takes three times as long on several threads, and JAX spends half of
# its time on optimizing code that runs once. The processes share a cache of compiled code.
test-backends: export OMP_NUM_THREADS = 1
test-backends: export XLA_FLAGS = --xla_backend_optimization_level=0
test-backends: export JAX_COMPILATION_CACHE_DIR = $(CURDIR)/$(VENV)/jax
test-backends: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS = 0
test-backends: export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES = -1
test-backends: $(BACKENDS_STAMP)
	for backend in jax torch; do \
	  echo "== KERAS_BACKEND=$$backend"; \
	  KERAS_BACKEND=$$backend $(PYTEST) -m "not peers and not tensorflow and not slow" $(PORTABLE); \
	done
	$(PYTEST) -m backends --packages-required tests/backends tests/training

test-peers: $(PEERS_STAMP)
	$(PYTEST) -m peers --packages-required tests --ignore=tests/engines

test-web: $(BROWSER_STAMP)
	$(PYTEST) -m browser --packages-required tests/export/test_browser.py

test-site: $(BROWSER_STAMP) docs
	$(PYTEST) -m browser --packages-required tests/test_site.py

bench: $(PEERS_STAMP)
	$(RUN) -m benchmarks.peers
	$(RUN) -m benchmarks.pretraining_step
	$(RUN) -m benchmarks.startup

bench-runtimes: $(PEERS_STAMP) $(BROWSER_STAMP)
	$(RUN) -m benchmarks.runtimes

small-model: $(if $(TEACHER),$(PEERS_STAMP),$(BASE_STAMP))
ifdef TEACHER
	KERAS_BACKEND=torch $(RUN) -m benchmarks.distill_small --teacher $(TEACHER) \
	  --sentences $(or $(SENTENCES),$(error Name the text: make small-model SENTENCES=sentences.txt)) \
	  --steps $(STEPS) --dtype-policy $(DTYPE_POLICY)
else
	$(RUN) -m benchmarks.small_model --steps $(STEPS) --dtype-policy $(DTYPE_POLICY) \
	  --books $(or $(BOOKS),$(error Name a folder of books: make small-model BOOKS=books))
endif

mutants: $(DEV_STAMP)
	$(RUN) tests/mutants "$(QUICK)" $(if $(RANDOM),--random $(RANDOM),$(MUTANTS))

fuzz: export ALBERT_TF_FUZZ_SECONDS = $(SECONDS)
fuzz: $(DEV_STAMP)
	$(RUN) -m pytest -n 0 tests/fuzz

test-oldest: $(DEV_STAMP)
	$(MAKE) test-on-$$($(RUN) -c 'import sys; print("%d.%d" % sys.version_info[:2])')-oldest

# pyenv shows uv only the versions named here. sentencex has no wheel for Python 3.10 on macOS.
test-pythons dist: export PYENV_VERSION = $(shell pyenv versions --bare 2>/dev/null | sort -rV | paste -sd:)
test-pythons: $(DEV_STAMP)
	failed=0; \
	for version in $(PYTHONS); do \
	  for end in lowest-direct highest; do \
	    for platform in $(PLATFORMS); do \
	      [ $$version-$$platform = 3.10-macos ] && continue; \
	      $(UV) pip compile --quiet --python-version $$version --python-platform $$platform \
	        --only-binary :all: --resolution $$end requirements.txt > /dev/null; \
	    done; \
	  done; \
	  if $(UV) python find $$version > /dev/null 2>&1; then \
	    $(MAKE) test-on-$$version-newest || failed=1; \
	  else \
	    echo "Python $$version is not installed: its packages are resolved, no test runs."; \
	  fi; \
	done; \
	exit $$failed

test-on-%: .venv-%/.installed-$(SUM)
	$(call TEST,.venv-$*/bin/python)

coverage: export PYTEST_ADDOPTS = --cov --cov-append --cov-report=
coverage: $(DEV_STAMP)
	rm -f .coverage .coverage.*
	$(MAKE) test test-slow
	$(RUN) -m coverage report --skip-covered --sort=cover

lint: $(DEV_STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy --platform win32 --cache-dir .mypy_cache/win32

messages: $(DEV_STAMP)
	$(RUN) .ci/messages.py

public-api: $(DEV_STAMP)
	$(RUN) .ci/public_api.py

# uv can install this environment, because it has no torch (see INSTALL).
pages: $(DEV_STAMP)
	rm -rf build/pages
	$(RUN) -m build --wheel --outdir build/pages .
	$(UV) venv --quiet --python $(RUN) build/pages/venv
	$(UV) pip install --quiet --python build/pages/venv "$$(echo build/pages/*.whl)[onnx,serving,http,tuner]"
	$(RUN) .ci/pages.py --python build/pages/venv/bin/python $(PAGES)

docs: $(DOCS_STAMP)
	$(RUN) .ci/notebooks.py
	$(MAKE) site

# The theme warns about MkDocs 2, which the version range of the extra excludes.
site: export NO_MKDOCS_2_WARNING = 1
site: $(DOCS_STAMP)
	$(RUN) -m mkdocs build

pictures: $(DOCS_STAMP)
	$(RUN) .ci/pictures.py
	$(RUN) .ci/notebooks.py --draw

web-picture: $(BROWSER_STAMP)
	$(RUN) .ci/web_picture.py $(or $(SITE),$(error Name a page of `albert-tf export web`: make web-picture SITE=build/reviews))

dist: $(DEV_STAMP)
	rm -rf dist
	$(RUN) -m build --outdir dist .
	$(RUN) .ci/check_dist.py dist $(PYTHONS)

clean:
	rm -rf $(VENV) $(VENV)-* build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .coverage .coverage.*

# uv takes seconds and pip minutes, but only pip reads pip.conf, which may name an index with torch for
# CPUs. pip installs torch, because its CUDA build crashes in a process that has loaded TensorFlow.
INSTALL = $(UV) pip install --quiet --python $(VENV) --editable $(1) || \
  $(RUN) -m pip install --quiet --editable $(1)

# Replaces an environment that no longer runs (its Python was removed, or the folder was moved).
$(BASE_STAMP):
	@$(FIND_PYTHON); \
	if ! $(RUN) -c 'import pip' 2>/dev/null; then \
	  echo "Making $(VENV) with $$found"; \
	  "$$found" -m venv --clear $(VENV); \
	fi
	$(RUN) -m pip install --quiet $(shell sed -nE "s/^ *\"(uv>[^\"]*)\".*/'\1'/p" pyproject.toml)
	$(call INSTALL,.)
	@touch $@

$(DEV_STAMP): $(BASE_STAMP)
	$(call INSTALL,'.[dev]')
	@touch $@

$(BACKENDS_STAMP): $(DEV_STAMP)
	$(RUN) -m pip install --quiet --editable '.[jax,torch]'
	@touch $@

$(BROWSER_STAMP): $(DEV_STAMP)
	$(call INSTALL,'.[browser]')
	@touch $@

$(DOCS_STAMP): $(DEV_STAMP)
	$(call INSTALL,'.[docs]')
	@touch $@

$(PEERS_STAMP): $(DEV_STAMP)
	$(RUN) -m pip install --quiet --editable '.[peers]'
	@touch $@

$(ENGINES_STAMP): $(DEV_STAMP)
	$(call INSTALL,'.[spark]')
	@touch $@

# .venv-3.11-oldest: the Python version, and which end of the version ranges.
.PRECIOUS: .venv-%/.installed-$(SUM)
.venv-%/.installed-$(SUM): $(DEV_STAMP)
	$(UV) venv --quiet --clear --python $(firstword $(subst -, ,$*)) $(@D)
	$(UV) pip install --quiet --python $(@D) $(RESOLUTION_$(lastword $(subst -, ,$*))) \
	  -r requirements.txt $(TEST_PACKAGES)
	$(UV) pip install --quiet --python $(@D) --no-deps --editable .
	@touch $@
