# Two commands are all that a newcomer needs: `make demo` and `make test`. Everything else is for people who work here.

PYTHON ?= python3.11
BIN := .venv/bin
READY := .venv/ready
PLUGINS := $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml examples/*/pyproject.toml tests/plugins/*/pyproject.toml))

# What torch's own tests and benchmarks need beside its environment: never in it.
BESIDE_TORCH := --with attrs --with pytest --with pytest-timeout --with pytest-xdist --with tokenizers --with transformers
IN_TORCH := $(BIN)/python scripts/in_environment.py torch $(BESIDE_TORCH) --

# The core's tests wait now and then, for deadlines and for each other's processes.
ONE_MORE := $(shell processors=$$(getconf _NPROCESSORS_ONLN); echo $$((processors < 8 ? processors + 1 : 8)))

.PHONY: demo test test-engines setup lint core torch torch-environment test-long test-report bench clean test-frameworks

demo: $(READY)
	$(BIN)/dlperf run torch resnet50 --protocol quick --batch-size 8

# While torch's environment waits for the network, the other processor is free.
test: $(READY)
	$(MAKE) --jobs 2 lint torch-environment core
	$(MAKE) torch

setup: $(READY)

# What builds our packages is installed once, not into an environment for each of them; and what is never imported need
# not be compiled.
$(READY): pyproject.toml $(PLUGINS:%=%/pyproject.toml)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --no-compile 'hatchling>=1.24' 'editables~=0.3'
	$(BIN)/pip install --quiet --no-compile --no-build-isolation --check-build-dependencies --editable '.[dev,report,text]' \
	  $(PLUGINS:%=--editable %)
	touch $@

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

core: $(READY)
	$(BIN)/pytest --numprocesses $(ONE_MORE) --dist loadfile -m 'not framework and not frameworks and not browser and not long' \
	  tests examples
	$(BIN)/pytest -c plugins/dlperf-torch/pyproject.toml plugins/dlperf-torch/tests/test_framework.py

torch-environment: $(READY)
	$(IN_TORCH) -m pytest --version

# torch's own tests run in the environment that users run in; the runs through the front door follow.
torch: torch-environment
	$(IN_TORCH) -m pytest --numprocesses 2 --dist loadfile -c plugins/dlperf-torch/pyproject.toml \
	  --ignore plugins/dlperf-torch/tests/test_framework.py --ignore plugins/dlperf-torch/tests/test_conformance.py \
	  plugins/dlperf-torch/tests
	$(BIN)/pytest --numprocesses 2 --dist loadgroup -c plugins/dlperf-torch/pyproject.toml \
	  plugins/dlperf-torch/tests/test_conformance.py
	$(BIN)/pytest --numprocesses 2 --dist loadgroup -m 'framework and not long' tests

# Campaigns and searches that are killed again and again, over torch as well, and every planted fault that conformance must
# catch, or parity in torch's trainers.
test-long: torch-environment
	$(BIN)/pytest --numprocesses 2 --dist loadgroup -m long tests

# The other frameworks, each in its own environment; half an hour where none of these is there yet. Some of them:
# make test-frameworks FRAMEWORKS="mxnet together"
test-frameworks: $(READY)
	$(BIN)/python scripts/test_frameworks.py $(FRAMEWORKS)

# Reports in a real browser. The first time it finds one, or installs one; where neither can be done the tests are
# skipped by name, and it says so.
test-report: .venv/browser
	$(BIN)/pytest --numprocesses 2 -m browser tests/reports/test_html_browser.py

.venv/browser: $(READY) scripts/browser.py
	$(BIN)/pip install --quiet --editable '.[browser]'
	if $(BIN)/python scripts/browser.py > $@.part; then mv $@.part $@; else rm $@.part; fi

# Real Slurm, OpenMPI and sshd on four nodes that are network namespaces, and podman: as root, and skipped by name
# elsewhere. Most of the time is waiting, for Slurm and for deadlines, so three clusters are at it. The containers' tests
# follow, since podman is there by then.
test-engines: $(READY)
	DLPERF_TEST_ENGINES=1 $(BIN)/pytest --numprocesses 3 --dist load --timeout 300 tests/engines
	$(BIN)/pytest tests/environments/test_containers.py

# A quarter to half an hour, on a machine with nothing else to do.
bench: $(READY)
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/launch.py
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/campaign.py
	$(BIN)/python benchmarks/report.py
	$(BIN)/python scripts/in_environment.py torch --with attrs -- benchmarks/overhead.py
	$(BIN)/python scripts/in_environment.py torch --with attrs --with transformers -- benchmarks/reference_torch.py
	$(BIN)/python scripts/in_environment.py torch --with attrs -- benchmarks/levers.py

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
