# make run   install, label the sample, serve on loopback
# make test  install, run every quick test
# Everything happens in .venv inside the checkout; remove it to start over.

PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 8000
# Extra arguments for pip, for example `--extra-index-url` with the address of PyTorch's own index of CPU builds.
PIP_ARGS ?=
# Test processes side by side, one thread each.
JOBS ?= 2
KILLS ?= 200
FUZZ ?= 1000000
MINUTES ?= 5
AUDIO_FUZZ ?= 20000
SEED ?= 1
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --progress-bar on -c constraints.txt $(PIP_ARGS)
STAMP := .venv/.installed

.PHONY: help install run test docs reference test-slow test-page screenshots attack storm fuzz e2e audit lint format bench load clean

help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(STAMP): pyproject.toml constraints.txt
	@echo "phonechain: installing into .venv (torch is the largest part; a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@PIP='$(PIP)' scripts/install_torch.sh
	@$(PIP) -e '.[dev]'
	@touch $@

install: $(STAMP)  ## build .venv from pyproject.toml and constraints.txt

run: $(STAMP)  ## label the sample utterance, then serve on http://127.0.0.1:8000
	@$(BIN)/phonechain serve --demo --host $(HOST) --port $(PORT)

test: $(STAMP)  ## run every quick test
	@echo "phonechain: running the quick tests"
	@PYTHONHASHSEED=0 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n $(JOBS) --dist worksteal

docs: $(STAMP)  ## build the documentation in build/docs; a warning is an error
	@$(PIP) -q -e '.[docs]'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "phonechain: build/docs/index.html"

reference: $(STAMP)  ## regenerate the reference pages of the guide from the code
	@$(BIN)/python scripts/reference.py

test-slow: $(STAMP)  ## run the tests marked slow
	@$(PIP) -q -e '.[dev,docs,s3,s3-test]'
	@$(BIN)/python -m pytest -m slow

test-page: $(STAMP)  ## test the page in Chromium: flows, axe, types; needs Chromium and npm
	@$(PIP) -q -e '.[dev,page]'
	@scripts/vendor_page.sh tools
	@PATH="$$PWD/.venv/page/node_modules/.bin:$$PATH" AXE=.venv/page/node_modules/axe-core/axe.min.js \
		$(BIN)/python -m pytest -m "slow or not slow" -n 0 tests/page tests/app/http/test_page.py

screenshots: $(STAMP)  ## screenshots of every view of the page at 1440 and 375 px, light and dark, in docs/screenshots
	@$(PIP) -q -e '.[dev,page,plot]'
	@scripts/vendor_page.sh tools
	@AXE=.venv/page/node_modules/axe-core/axe.min.js $(BIN)/python -m tests.page.screenshots

storm: $(STAMP)  ## kill KILLS (200) processes of running jobs; nothing may be lost
	@KILLS=$(KILLS) $(BIN)/python -m tests.storm

fuzz: $(STAMP)  ## FUZZ (1000000) mutated annotations and AUDIO_FUZZ (20000) mutated sound files, from SEED (1)
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.features.test_audio_fuzz $(SEED) $(AUDIO_FUZZ)
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.features.annotation.test_fuzz $(SEED) $(FUZZ)

e2e:  ## test both container set-ups from build to removal; needs docker and python3
	@tests/e2e/compose.sh

audit: $(STAMP)  ## security scan: bandit over the source, pip-audit over the pinned dependencies
	@$(PIP) -e '.[audit]'
	@scripts/audit.sh

lint: $(STAMP)  ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(STAMP)  ## let ruff fix what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(STAMP)  ## run the benchmarks, each next to its peers, into benchmarks/RESULTS.md
	@$(PIP) -e '.[bench]'
	@$(BIN)/python -m benchmarks

attack: $(STAMP)  ## attack a live service and measure memory and latency; exit 1 if an attack succeeds
	@$(BIN)/python -m benchmarks.attack

load: $(STAMP)  ## 64 clients for MINUTES (5) minutes, overload, stopping under load; memory and latency
	@$(BIN)/python benchmarks/load.py --minutes $(MINUTES)

clean:  ## remove .venv and caches
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
