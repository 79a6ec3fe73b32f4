# `make demo` and `make test` are all that a newcomer needs. Everything else is for people who work here.

# The first Python that is new enough; `make PYTHON=…` takes another.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.14 python3; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null && echo $$python && break; done)
ifeq ($(PYTHON),)
$(error No Python of 3.11 or newer is on PATH: install one, or name it: make PYTHON=/path/to/python3)
endif
BIN := .venv/bin
READY := .venv/ready
DOCS := .venv/docs
PLUGINS := $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml examples/*/pyproject.toml tests/plugins/*/pyproject.toml))
FRAMEWORKS := $(shell grep -l 'entry-points."dlperf_sdk.frameworks"' plugins/*/pyproject.toml | sed 's|plugins/dlperf-\(.*\)/pyproject.toml|\1|')
# Plugins whose tests need no framework's environment.
LIGHT := $(filter-out $(FRAMEWORKS:%=plugins/dlperf-%/tests),$(wildcard plugins/*/tests))
# Plugins with models, whose tests with the markers of the core's train them in frameworks' environments.
MODELS := $(shell grep -l 'entry-points."dlperf_sdk.models"' plugins/*/pyproject.toml | sed 's|/pyproject.toml||')

# Parts of torch's conformance that `make test` leaves out.
OF_TORCH := test-torch-pairs test-torch-horovod

# Those of the parts of `make test-all` of which `.ci/run` tests one a day.
ROTATED := $(OF_TORCH) $(filter-out test-torch,$(FRAMEWORKS:%=test-%))

# What `make test-all` adds to `make test`, in this order: what fails most often and takes least comes first.
PARTS := test-plugins test-report test-trackers test-ray test-long test-torch test-together test-engines $(ROTATED)

PYTEST := $(BIN)/pytest
# The core's tests wait now and then for deadlines and for other processes: one worker more than processors.
WORKERS := $(shell processors=$$(getconf _NPROCESSORS_ONLN); echo $$((processors < 8 ? processors + 1 : 8)))

.PHONY: docs wheels demo test test-all parts rotated setup lint schemas core torch torch-environment bench clean test-frameworks test-pairs $(PARTS)

demo: $(READY)
	$(BIN)/dlperf run torch resnet50 --protocol quick --batch-size 4 --set image_size=64

# Lint, types, the core, torch's own tests, and its conformance with each declared value once. Downloading torch's
# environment overlaps with the core's tests.
test: $(READY)
	$(MAKE) --jobs 2 lint torch-environment core
	$(MAKE) torch

# Everything but `test-pairs`. `.ci/run` does the same part by part, with the frameworks in turn.
test-all: test $(PARTS)

parts:
	@echo $(PARTS)

rotated:
	@echo $(ROTATED)

setup: $(READY)

# The build backend is installed once, not into an isolated build environment for each distribution. Bytecode is made once
# for what tests start hundreds of times, also where PYTHONDONTWRITEBYTECODE is set.
$(READY): pyproject.toml $(PLUGINS:%=%/pyproject.toml)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --no-compile 'hatchling>=1.24' 'editables~=0.3'
	$(BIN)/pip install --quiet --no-compile --no-build-isolation --check-build-dependencies --editable '.[dev,report,text]' \
	  $(PLUGINS:%=--editable %)
	$(BIN)/python -m compileall -q -j 0 -x '/(altair|matplotlib|mpl_toolkits|mypy|pandas|pip|polars|pyarrow|scipy|setuptools)/' .venv/lib src \
	  $(wildcard plugins/*/src examples/*/src)
	touch $@

# The documentation site, in build/docs. Warnings and broken internal links are errors. It also writes the pages that are
# generated and committed: CI fails where `git diff --exit-code` shows a difference.
docs: $(READY) $(DOCS)/ready
	$(BIN)/python scripts/reference_tables.py
	$(BIN)/python scripts/published_documents.py
	$(BIN)/python scripts/faults_document.py
	$(BIN)/python scripts/parity_document.py
	$(DOCS)/bin/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env docs build/docs

# The generator has an environment of its own, so that `make setup` does not install it.
$(DOCS)/ready: pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/pip install --quiet --no-compile 'hatchling>=1.24' 'editables~=0.3'
	$(DOCS)/bin/pip install --quiet --no-compile --no-build-isolation --editable '.[docs]'
	touch $@

# A wheel for each distribution that is released, in dist/.
wheels: $(READY)
	set -e; for distribution in . $(wildcard plugins/*); do \
	  $(BIN)/python -m build --wheel --no-isolation --outdir dist $$distribution > /dev/null; done
	ls dist

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(MAKE) schemas
	git diff --exit-code schemas

# The schemas of documents, from the classes that they are made of.
schemas: $(READY)
	$(BIN)/python scripts/schemas.py

core: $(READY)
	$(PYTEST) --numprocesses $(WORKERS) --dist loadfile -m 'not framework and not frameworks and not browser and not long' \
	  tests examples

torch-environment: $(READY)
	$(BIN)/python scripts/test_frameworks.py --prepare --without-builds torch

torch: torch-environment
	$(BIN)/python scripts/test_frameworks.py torch -m 'not pairwise' --without-builds

# The combinations in torch's conformance, without those that need an environment with Horovod.
test-torch-pairs: torch-environment
	$(PYTEST) --numprocesses 2 --dist loadgroup -m 'pairwise and not source_build' -c plugins/dlperf-torch/pyproject.toml \
	  plugins/dlperf-torch/tests/test_conformance.py

# Torch's conformance with Horovod, alone and combined. The first time, Horovod is built from source.
test-torch-horovod: $(READY)
	$(BIN)/python scripts/test_frameworks.py --prepare torch
	$(PYTEST) --numprocesses 2 --dist loadgroup -m source_build -c plugins/dlperf-torch/pyproject.toml \
	  plugins/dlperf-torch/tests/test_conformance.py

# The plugins without a framework.
test-plugins: $(READY)
	set -e; for tests in $(LIGHT); do \
	  $(PYTEST) --numprocesses $(WORKERS) --dist loadfile -m 'not framework and not frameworks' \
	  -c $$tests/../pyproject.toml $$tests; done

# Torch through the front door.
test-torch: torch-environment
	$(PYTEST) --numprocesses 2 --dist loadgroup -m 'framework and not long' tests
	set -e; for plugin in $(MODELS); do \
	  $(PYTEST) --numprocesses 2 -m framework -c $$plugin/pyproject.toml $$plugin/tests; done

# Tests of seconds and more: commands in real processes and environments, whole pages, campaigns that are killed again and
# again, and every planted fault that conformance must catch, or parity in torch's trainers.
test-long: torch-environment
	$(PYTEST) --numprocesses 2 --dist loadgroup -m long tests

# One other framework, in its own environment: its own tests, its conformance with each declared value once, and the
# trainers that distributions of models have for it. pytest ends with 5 where one has none.
$(filter-out $(OF_TORCH),$(ROTATED)): test-%: $(READY)
	$(BIN)/python scripts/test_frameworks.py $* -m 'not pairwise'
	for plugin in $(MODELS); do \
	  $(PYTEST) -m frameworks -k '[$*- or [$*]' -c $$plugin/pyproject.toml $$plugin/tests || test $$? = 5 || exit 1; done

# The combinations in the conformance of the other frameworks, which `test-all` leaves out: with them CI takes too long.
test-pairs: $(READY)
	set -e; for framework in $(filter-out torch,$(FRAMEWORKS)); do \
	  $(PYTEST) --numprocesses 2 --dist loadgroup -m pairwise -c plugins/dlperf-$$framework/pyproject.toml \
	  plugins/dlperf-$$framework/tests/test_conformance.py; done

# All frameworks from one interpreter that has none of them.
test-together: $(READY)
	$(PYTEST) --numprocesses 2 --dist loadgroup -m frameworks tests

test-frameworks: $(FRAMEWORKS:%=test-%) test-together

# Reports in a real browser, which is installed the first time. Where that fails the tests are skipped by name.
test-report: .venv/browser
	$(PYTEST) --numprocesses 2 -m browser tests/reports/html/test_html_browser.py tests/reports/html/test_site_browser.py

.venv/browser: $(READY) scripts/browser.py
	$(BIN)/pip install --quiet --editable '.[browser]'
	if $(BIN)/python scripts/browser.py > $@.part; then mv $@.part $@; else rm $@.part; fi

# Trackers with their real libraries, in an environment over the other one: `make setup` installs none of them. MLflow is
# complete there, with its server and its database.
TRACKERS := .venv/trackers
test-trackers: $(TRACKERS)/ready torch-environment
	DLPERF_TEST_TRACKERS=1 $(TRACKERS)/bin/python -m pytest --numprocesses 2 --dist loadfile \
	  -c plugins/dlperf-trackers/pyproject.toml plugins/dlperf-trackers/tests

$(TRACKERS)/ready: $(READY) plugins/dlperf-trackers/pyproject.toml
	$(PYTHON) -m venv --clear $(TRACKERS)
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	  > $$(echo $(TRACKERS)/lib/python*/site-packages)/below.pth
	$(TRACKERS)/bin/pip install --quiet mlflow './plugins/dlperf-trackers[mlflow,prometheus,tensorboard,wandb]'
	$(TRACKERS)/bin/pip install --quiet --no-compile --no-deps --no-build-isolation --editable . \
	  --editable plugins/dlperf-trackers
	touch $@

# The launcher `ray` on a real cluster of several nodes on this machine. Ray has an environment of its own.
RAY := .venv/ray
test-ray: $(RAY)/ready
	DLPERF_TEST_RAY=$(abspath $(RAY)/bin/python) $(PYTEST) --numprocesses 2 --dist load \
	  -c plugins/dlperf-ray/pyproject.toml plugins/dlperf-ray/tests

$(RAY)/ready: $(READY) plugins/dlperf-ray/pyproject.toml
	$(PYTHON) -m venv --clear $(RAY)
	$(RAY)/bin/pip install --quiet 'ray>=2.40'
	touch $@

# Real Slurm, OpenMPI and sshd on four nodes that are network namespaces, and podman: as root, and skipped by name
# elsewhere. Most of the time is waiting, for Slurm and for deadlines, so three clusters run at once. The containers'
# tests come second, when podman is installed.
test-engines: $(READY)
	DLPERF_TEST_ENGINES=1 $(PYTEST) --numprocesses 3 --dist load --timeout 300 tests/engines
	$(PYTEST) tests/environments/test_container.py
	$(PYTEST) -c plugins/dlperf-kubernetes/pyproject.toml plugins/dlperf-kubernetes/tests/test_pods.py

# A quarter to half an hour, on a machine with nothing else to do.
bench: $(READY)
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/launch.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/campaign.py
	$(BIN)/python benchmarks/attribution.py
	$(BIN)/python benchmarks/report.py
	$(BIN)/python benchmarks/site.py
	$(BIN)/python benchmarks/index.py
	$(BIN)/python benchmarks/database.py
	$(BIN)/python scripts/in_environment.py torch --with attrs -- benchmarks/overhead.py
	$(BIN)/python scripts/in_environment.py torch --with attrs --with transformers -- benchmarks/reference_torch.py
	$(BIN)/python scripts/in_environment.py torch --with attrs -- benchmarks/levers.py

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
