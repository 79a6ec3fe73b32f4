# Two commands are all that a newcomer needs: `make demo` and `make test`. Everything else is for people who work here.

PYTHON ?= python3.11
BIN := .venv/bin
READY := .venv/ready
PROJECTS := pyproject.toml $(wildcard plugins/*/pyproject.toml tests/plugins/*/pyproject.toml)

.PHONY: demo test setup lint types core torch frameworks bench clean

demo: $(READY)
	$(BIN)/dlperf run torch resnet50 --protocol quick --batch-size 8 --warmup 2 --steps 6

test: lint types core torch

setup: $(READY)

$(READY): $(PROJECTS)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev,text]' $(patsubst %/pyproject.toml,--editable %,$(filter-out pyproject.toml,$(PROJECTS)))
	touch $@

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY)
	$(BIN)/mypy

core: $(READY)
	$(BIN)/pytest -m 'not framework'

# torch's own tests run in the environment that users run in; the runs through the front door follow.
torch: $(READY)
	$(BIN)/python scripts/in_environment.py torch --with pytest --with pytest-timeout --with transformers -- -m pytest plugins/dlperf-torch/tests
	$(BIN)/pytest -m framework

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
