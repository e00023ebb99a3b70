# Two commands: `make reproduce` and `make test`. Both make .venv from the pinned constraints first.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
CORES ?= all
SCALE ?= mini
export MLFLOW_DISABLE_TELEMETRY = true

.PHONY: reproduce test ui check format benchmark publish clean

reproduce: $(READY)  ## the whole pipeline at the scale that params.yaml names (mini)
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --cores $(CORES)

test: $(READY)  ## the tests, and which took longest
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -q -n auto --dist worksteal --durations=30

ui: $(READY)  ## imports what is not imported yet, then the MLflow UI on 127.0.0.1
	PATH="$(CURDIR)/$(BIN):$$PATH" relearn ui

check: $(READY)  ## style, types, workflow, fast tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --lint
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --dry-run --quiet all
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -q -n auto --dist worksteal -x

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/snakefmt Snakefile workflow

benchmark: $(READY)  ## speed and memory, each against its reference in the same run
	for script in benchmarks/[a-z]*.py; do case $$script in */timing.py) ;; *) $(BIN)/python $$script || exit 1;; esac; done

publish:  ## copy what the project stands by (SCALE=mini) to results/published: report, tables, figures, claims, records and what renders them; no weights
	mkdir -p results/published/$(SCALE) && find results/published/$(SCALE) -mindepth 1 -maxdepth 1 ! -name README.md -exec rm -rf {} +
	cd results/$(SCALE) && cp -r tables figures claims.md claims.json coverage.csv deviations.md settings.md metrics.json report.html ../published/$(SCALE)/
	cd results/$(SCALE) && find runs '(' -name '*.json' -o -name '*.csv' -o -name gallery.safetensors ')' | tar -cf - -T - | tar -xf - -C ../published/$(SCALE)

clean:  ## what the pipeline made, not what is published
	rm -rf results/mini results/small results/medium results/paper

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "relearn needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,slurm]'
	touch $(READY)
