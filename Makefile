# Two commands: `make reproduce` and `make test`. Both make .venv from the pinned constraints first.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
CORES ?= all
DEMO := kim2020.fig2 claim:l2_bound_holds claim:bound_is_tight claim:untied_not_lipschitz
export MLFLOW_DISABLE_TELEMETRY = true
.DEFAULT_GOAL := help

.PHONY: help demo reproduce report test ui docs check format benchmark publish clean

help:  ## this list
	@sed -nE 's/^([a-z]+):[^#]*## (.*)/make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

demo: $(READY)  ## kim2020's bound against optimised inputs, and a counter-example: no data, no training
	PATH="$(CURDIR)/$(BIN):$$PATH" relearn reproduce --cores $(CORES) $(DEMO)

reproduce: $(READY)  ## the whole pipeline at the scale that params.yaml names, or with SCALE=small at that one
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --cores $(CORES)$(if $(SCALE), --config scale=$(SCALE))

report: $(READY)  ## open the report, of the scale that params.yaml names or of SCALE=small
	PATH="$(CURDIR)/$(BIN):$$PATH" relearn open$(if $(SCALE), --scale $(SCALE))

test: $(READY)  ## the tests, and which took longest
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -q -n auto --dist worksteal --durations=30

ui: $(READY)  ## import the runs that MLflow does not have, then open its pages on 127.0.0.1
	PATH="$(CURDIR)/$(BIN):$$PATH" relearn ui

docs: $(READY)  ## the documentation as a static site, build/docs/site/index.html
	$(BIN)/relearn docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --config-file build/docs/mkdocs.yml
	@echo "site: build/docs/site/index.html; to search it, serve it: python -m http.server -d build/docs/site"

check: $(READY)  ## style, types, workflow, fast tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --lint
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --dry-run --quiet all
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -q -n auto --dist worksteal -x

format: $(READY)  ## the code, in place
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/snakefmt Snakefile workflow

benchmark: $(READY)  ## speed and memory, each against its reference in the same run
	for script in benchmarks/[a-z]*.py; do case $$script in */timing.py|*/peak.py) ;; *) $(BIN)/python $$script || exit 1;; esac; done

publish: $(READY)  ## put what was measured into results/published; SCALE=small, FLAGS=--allow-mixed
	PATH="$(CURDIR)/$(BIN):$$PATH" relearn publish$(if $(SCALE), --scale $(SCALE))$(if $(FLAGS), $(FLAGS))
	$(BIN)/relearn scoreboard --pages README.md src/relearn/studies/*/README.md

clean:  ## remove what the pipeline made, not what is published
	rm -rf results/mini results/small results/medium results/paper

.DEFAULT:
	@echo "make: no target '$@'; make help lists all" >&2; exit 2

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "relearn needs Python 3.11 or newer")'
	@echo 'installing into .venv: about 2.5 GB, some minutes without output' >&2
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,slurm,docs]'
	touch $(READY)
