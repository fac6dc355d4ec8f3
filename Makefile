# The project's commands. `make` alone lists them.

PYTHON ?= python3
ROUNDS ?= 50
SEED ?= 1
VENV_PYTHON := .venv/bin/python
BOOTSTRAP := $(PYTHON) -m lmsp_site.bootstrap
# Checks look at the code and never at a service's data.
MANAGE := LMSP_DATA_DIR=.cache/check-data $(VENV_PYTHON) manage.py

.DEFAULT_GOAL := help
.PHONY: help run test soak check format bench bench-plots screenshots prepare clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  LMSP_DATA_DIR, LMSP_HOST and LMSP_PORT say where 'make run' keeps its data and listens;"
	@echo "  ARGS is passed on: make test ARGS='-k cancel'."

run: ## Start the service, after setting up what is missing
	@exec $(BOOTSTRAP) run

test: prepare ## Run the whole test suite
	@exec $(VENV_PYTHON) -m pytest --numprocesses=2 --dist=loadfile $(ARGS)

soak: prepare ## Kill parts of a service under load: make soak ROUNDS=200 SEED=1, or MINUTES=30 PLOT=1
	@exec $(VENV_PYTHON) -m tests.crash.soak $(if $(MINUTES),--minutes $(MINUTES),--rounds $(ROUNDS)) --seed $(SEED) \
	    $(if $(PLOT),--plot docs/figures/soak_memory_and_handles.svg) $(ARGS)

check: prepare ## Run every check that needs no test: lint, format, types, imports, security, Django
	$(VENV_PYTHON) -m ruff check .
	$(VENV_PYTHON) -m ruff format --check .
	$(VENV_PYTHON) -m mypy
	$(VENV_PYTHON) -c "from importlinter.cli import lint_imports_command as lint; lint()" --no-logo
	$(VENV_PYTHON) -m bandit --quiet --configfile pyproject.toml --recursive \
	    lmsp_site clients_app models_app tasks_app checks bench manage.py
	$(VENV_PYTHON) -m checks.advisories
	$(MANAGE) check --deploy --fail-level WARNING
	$(MANAGE) makemigrations --check --dry-run

format: prepare ## Format the code and apply the safe fixes
	$(VENV_PYTHON) -m ruff check --fix .
	$(VENV_PYTHON) -m ruff format .

bench: prepare ## Measure the service
	@exec $(VENV_PYTHON) -m bench $(ARGS)

bench-plots: prepare ## Draw how costs grow: make bench-plots OUTCOME=FILE, the JSON of a bench
	@exec $(VENV_PYTHON) -m bench.plots "$(OUTCOME)" docs/figures

screenshots: prepare ## Take the pictures of the admin that the documentation shows
	@exec $(VENV_PYTHON) -m bench.screenshots

prepare: # The environment with the tools of development, and the demo model.
	@$(BOOTSTRAP) prepare

clean: ## Remove the environment, the demo model and all caches, and never the service's data
	rm -rf .venv .cache .mypy_cache .pytest_cache .ruff_cache .grimp_cache
	find . -name __pycache__ -type d -prune -not -path './var/*' -exec rm -rf {} +
	@echo "The service's data (var/, or LMSP_DATA_DIR) is kept."
