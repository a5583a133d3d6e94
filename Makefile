# Tasks, grouped. `make help` lists them; each works on a fresh machine with python3 and make.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
# Tests of clusters wait more than they compute: more workers than cores, each with clusters of its own. A file
# stays on one worker, because its tests share what it has started; tests/conftest.py says which come first.
WORKERS ?= 5
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# Bytecode is kept, whatever the environment says: tests start hundreds of processes, and without it each of
# them compiles all sources again, and each worker rewrites every test.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The virtual environment is updated when its declared contents change.
.venv/.ready: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "setting up .venv (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	@touch $@

.PHONY: setup
setup: .venv/.ready

##@ Use it
.PHONY: demo
demo: setup ## the main job on the embedded cluster (ARGS="--help" for more)
	@$(BIN)/fairlead demo $(ARGS)

##@ Test it
.PHONY: test
test: setup ## everything, at reduced, seeded counts (what CI runs)
	@$(BIN)/python -m fairlead.rig.build --optional
	@$(BIN)/python -m tools.browser --optional >/dev/null
	@$(PYTEST) $(ARGS)

.PHONY: check
check: setup ## ruff, mypy strict, import-linter, fast tests
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(PYTEST) -q -m "not real and not slow" $(ARGS)

.PHONY: test-faults
test-faults: setup ## components that die at every single write, on the real control plane; prints how many there were
	@$(BIN)/python -m fairlead.rig.build
	@FAIRLEAD_COUNTS=verify $(PYTEST) -q tests/faults $(ARGS)

.PHONY: verify
verify: setup ## the full counts and sizes, and the benchmarks; prints one table (ARGS="engine kubernetes-1.37" for some)
	@$(BIN)/python -m fairlead.rig.build
	@$(BIN)/python -m benchmarks.verify $(ARGS)

.PHONY: pythons
pythons: setup ## the fast tests and the demo on every supported Python found here (ARGS="3.13 3.14" for some)
	@$(BIN)/python -m tools.pythons $(ARGS)

.PHONY: coverage
coverage: setup ## HTML coverage of the fast tests, in htmlcov/
	@$(BIN)/python -m pytest -q -m "not real and not slow" --cov --cov-report=html --cov-report=term:skip-covered
	@echo "htmlcov/index.html"

.PHONY: mutants
mutants: setup ## break the code in small ways and see whether a test notices (ARGS="--help" for more)
	@$(BIN)/python tools/mutants.py $(ARGS)

.PHONY: bench
bench: setup ## the benchmarks, each with its target beside it (ARGS="bench_watch" for some)
	@$(BIN)/python -m fairlead.rig.build
	@$(BIN)/python -m benchmarks.verify --benchmarks-only $(ARGS)

.PHONY: soak
soak: setup ## random load and faults, checked from outside (MINUTES=30 SEED=…; ARGS="--help" for more)
	@$(BIN)/python -m fairlead.rig.build
	@$(BIN)/python -m tools.soak --minutes $(or $(MINUTES),30) $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: e2e
e2e: setup ## Kubernetes' own scheduling specs, kube-scheduler and Fairlead side by side (about 40 minutes)
	@$(BIN)/python -m tools.e2e $(ARGS)

.PHONY: controlplane
controlplane: setup ## build the real control plane once (ARGS="kubectl etcd" for some); prints its folder
	@$(BIN)/python -m fairlead.rig.build $(ARGS)

##@ Read it
.PHONY: docs
docs: setup ## the documentation as a site, in docs/_site; a warning is an error
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env docs docs/_site $(ARGS)
	@echo "docs/_site/index.html"

##@ Keep it tidy
.PHONY: format
format: setup ## ruff's formatter and its safe fixes
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

.PHONY: clean
clean: ## remove what can be made again (not the control plane's cache)
	@rm -rf .venv htmlcov dist build docs/_site .mypy_cache .ruff_cache .pytest_cache .hypothesis .mutants.tsv

##@ Release it
.PHONY: release
release: setup ## packages, charts, image, bill of materials and checksums in dist/ (ARGS="--twice" compares two builds)
	@$(BIN)/python -m tools.release $(ARGS)

.PHONY: release-test
release-test: setup ## every component from the released image's file tree, under its manifest's constraints and rights
	@$(BIN)/python -m fairlead.rig.build
	@image=$$(ls dist/*.oci.tar 2>/dev/null) || { echo "error: there is no image in dist/; run: make release" >&2; exit 1; }; \
	FAIRLEAD_IMAGE=$$image $(BIN)/python -m pytest -q tests/deploy/test_as_shipped.py $(ARGS)
