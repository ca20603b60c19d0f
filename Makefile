# Every verb of this repository. Each works from a bare clone: it makes .venv, fetches what it needs into ~/.cache/konverge (or
# $KONVERGE_CACHE), says what it is doing, and is quick the second time. No terminal is needed.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

BIN := .venv/bin
# Where the surroundings switch byte code off, each process of the tests would compile and rewrite all of its modules anew: 15 s of CPU for one
# that collects everything, 1 s for each command that a test starts.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help: ## List the verbs
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  ARGS=... goes to pytest (test, which uses four processes, since many tests wait: -n0 for one; test-unit) and to konverge demo; PYTHON=... chooses the interpreter of .venv."
	@echo "  KONVERGE_NO_CONTROL_PLANE=1 tests without a real kube-apiserver; KONVERGE_REQUIRE_CONTROL_PLANE=1 fails where there is none."

# --- set-up: what the verbs below call -----------------------------------------------------------------------------------------

.PHONY: venv
venv:
	@.ci/venv

.PHONY: control-plane
control-plane: venv
ifeq ($(KONVERGE_NO_CONTROL_PLANE),1)
	@echo "==> without a control plane, as asked (KONVERGE_NO_CONTROL_PLANE=1)"
else ifeq ($(KONVERGE_REQUIRE_CONTROL_PLANE),1)
	@$(BIN)/konverge control-plane install
	@$(BIN)/python tools/go_programs.py
else
	@$(BIN)/konverge control-plane install || echo "==> going on without a control plane: the tests that need it are skipped"
	@$(BIN)/python tools/go_programs.py || echo "==> going on without helm and the client-go program: their tests are skipped"
endif

.PHONY: promtool
promtool: venv
	@if ! $(BIN)/python tools/promtool.py; then echo "==> going on without promtool: what it would say of alerts and dashboards is not tested"; fi

.PHONY: prometheus
prometheus: venv
ifneq ($(KONVERGE_NO_CONTROL_PLANE),1)
	@if ! $(BIN)/python tools/go_programs.py prometheus; then echo "==> going on without Prometheus: no query of a dashboard is asked of it"; fi
endif

.PHONY: versitygw
versitygw: venv
ifneq ($(KONVERGE_NO_CONTROL_PLANE),1)
	@if ! $(BIN)/python tools/go_programs.py versitygw; then echo "==> going on without versitygw: buckets are tested on moto's server alone"; fi
endif

.PHONY: cluster-api
cluster-api: venv
ifneq ($(KONVERGE_NO_CONTROL_PLANE),1)
	@if ! $(BIN)/python tools/go_programs.py cluster-api; then echo "==> going on without Cluster API's core and clusterctl: the double alone plays them"; fi
endif

.PHONY: other-languages
other-languages: venv
ifneq ($(KONVERGE_NO_CONTROL_PLANE),1)
	@if ! $(BIN)/python tools/other_languages.py; then echo "==> going on without some examples in other languages: their tests are skipped"; fi
endif

.PHONY: browser
browser: venv
	@if ! $(BIN)/python tools/browser.py; then echo "==> going on without a browser: no page is looked at"; fi

# --- verbs ---------------------------------------------------------------------------------------------------------------------

.PHONY: demo
demo: venv ## Run the daemon on an API server in memory (CONTROL_PLANE=real: kube-apiserver) with samples of every mode, until Ctrl-C
ifeq ($(CONTROL_PLANE),real)
	@$(BIN)/konverge control-plane install
endif
	@$(BIN)/konverge demo $(if $(CONTROL_PLANE),--control-plane=$(CONTROL_PLANE)) $(ARGS)

.PHONY: test
test: control-plane promtool prometheus versitygw cluster-api other-languages browser ## Run every test, those on a real kube-apiserver too; FLAKES=folder runs failed tests again, alone
ifdef FLAKES
	TESTS=changed GOGC=400 $(BIN)/python tools/retry_failed.py $(FLAKES) --workers 4 --lab=quick $(ARGS)
else
	TESTS=changed GOGC=400 $(BIN)/pytest -n 4 --lab=quick $(ARGS)
endif

.PHONY: flakes
flakes: venv ## Run the slowest tests and those that wait most twenty times on a busy machine, and list failures; tests in ARGS, ROUNDS=5
	$(BIN)/python tools/flakes.py --rounds $(or $(ROUNDS),20) $(ARGS)

.PHONY: conformance
conformance: control-plane ## Send the conformance cases to kube-apiserver and to the server in memory; print the matrix and what differs
	CONFORMANCE_REPORT=1 KONVERGE_REQUIRE_CONTROL_PLANE=1 $(BIN)/pytest testkit/tests/conformance -q $(ARGS)

# The default budget, 900 s, leaves out a tenth of the plans of pods on demand.
.PHONY: lab
lab: venv ## Rerun the scenarios of our own reconcilers under every fault, for minutes each, and those of sharding with 100 seeds; a part with PART=1/4
	$(BIN)/pytest -k "(every and fault) or seed" --lab=full --lab-budget=1800 $(if $(PART),--lab-part=$(PART)) tests/scenarios testkit/tests/scenarios $(ARGS)

.PHONY: test-unit
test-unit: venv ## Run what needs no server: unit and property tests (seconds)
	TESTS=changed $(BIN)/pytest tests/unit tests/property testkit/tests/unit testkit/tests/property $(ARGS)

.PHONY: pythons
pythons: venv ## Run the unit tests of library and kit on each supported Python of this machine, further ones in PYTHONS=, one version with ONLY=3.12
	PYTHONS='$(PYTHONS)' ONLY='$(ONLY)' $(BIN)/python tools/pythons.py $(ARGS)

.PHONY: check
check: venv ## Run lint and the quick unit tests side by side: the loop of work, under two minutes (two cores, warm caches)
	@echo "==> lint and unit tests side by side; each prints what it found at its end"
	@$(MAKE) --jobs=2 --keep-going --output-sync=target lint test-unit ARGS='-q -n 2 -m "not slow" $(ARGS)'

.PHONY: lint
lint: venv ## Check style, formatting, types, floors, language, and that generated files are fresh
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy konverge testkit tests conftest.py examples tools
	$(BIN)/python tools/type_errors.py
	$(BIN)/lint-imports
	$(BIN)/lint-imports --config testkit/pyproject.toml
	$(BIN)/python -m konverge.reconcilers.apps.operations.engines.generate --check
	$(BIN)/python -m konverge.crds.generate --check
	$(BIN)/python tools/readme.py --check
	PYTHONPATH=tools $(BIN)/python -m release.copies --check
	$(BIN)/python tools/chart_files.py --check
	$(BIN)/python tools/render_deploy.py --check
	$(BIN)/python tools/prose.py --check
	@$(BIN)/python tools/longest.py
	$(BIN)/python tools/fragments.py

.PHONY: fmt
fmt: venv ## Format, and mend what ruff can mend
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

.PHONY: generate
generate: readme ## Write what is generated anew: CRD manifests, the chart's files, deploy/ (helm renders it), and the examples in documents
	$(BIN)/python -m konverge.reconcilers.apps.operations.engines.generate
	$(BIN)/python -m konverge.crds.generate
	$(BIN)/python tools/openapi.py
	$(BIN)/python tools/protos.py
	PYTHONPATH=tools $(BIN)/python -m release.copies
	$(BIN)/python tools/chart_files.py
	$(BIN)/python tools/render_deploy.py

.PHONY: docs
docs: venv ## Serve the documents as a site, until Ctrl-C
	PYTHONPATH=tools $(BIN)/python -m pages.build --serve

.PHONY: readme
readme: venv ## Put the examples into README.md and docs/ anew
	$(BIN)/python tools/readme.py

.PHONY: changelog
changelog: venv ## Print the changes since the last release, which are the fragments in changes.d/
	@$(BIN)/towncrier build --draft --version Unreleased

.PHONY: bench
bench: venv ## Measure, print tables, append to build/bench.json; one alone with ONLY=informers
	$(BIN)/python tools/bench/run.py $(if $(ONLY),--only '$(ONLY)') $(ARGS)

.PHONY: guard
guard: venv ## Count what a thousand objects cost (requests, calls, bytes) and take that as the figures that tests/guard holds us to
	$(BIN)/python tools/guard/count.py --write

.PHONY: walk
walk: venv ## Show the walk of one object: the files and functions between a watch event, the status and the Event
	$(BIN)/python tools/walk.py --calls

.PHONY: mutants
mutants: venv ## Plant faults in copies of the tree, one by one, and let the lab or a named test find each; one alone with ONLY=barrier-off
	$(BIN)/python tools/mutants/by_operator.py '$(ONLY)'
	$(BIN)/python tools/mutants/plant.py $(if $(ONLY),--only '$(ONLY)') $(ARGS)

.PHONY: go-suites
go-suites: venv ## Run controller-runtime's own test suites on kube-apiserver and in memory, and print what differs; one with ONLY=client
	@$(BIN)/konverge control-plane install
	$(BIN)/python tools/suites/run.py $(if $(ONLY),--only '$(ONLY)') $(ARGS)

.PHONY: record
record: venv ## Ask a real kube-apiserver again what tests compare with; one recorder: ONLY=reading, its arguments in ARGS
	@if [ -z "$(ONLY)" ]; then echo "ONLY= names one recorder, a module of tools/record: make record ONLY=reading"; exit 2; fi
	PYTHONPATH=tools $(BIN)/python -m record.$(ONLY) $(ARGS)

.PHONY: dist
dist: venv ## Build the sdist, the wheel from the sdist, and the SBOM and licences of the image into dist/
	@.ci/dist dist
	@$(BIN)/python tools/sbom.py dist

.PHONY: release
release: venv ## Make a release up to the push: a commit, a tag, and all files in build/release; VERSION=x.y.z (docs/maintaining.md)
	@PYTHONPATH=tools $(BIN)/python -m release "$(VERSION)"

.PHONY: release-files
release-files: venv ## Build the files of the tag at HEAD into build/release: packages, chart, SBOM, checksums, provenance
	@PYTHONPATH=tools $(BIN)/python -m release.files

.PHONY: lock
lock: venv ## Resolve the versions in constraints.txt anew, and the image's lock with hashes
	@.ci/lock

.PHONY: clean
clean: ## Remove what was made in this folder; the cache in ~/.cache/konverge stays
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
