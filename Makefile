# One verb for each thing; the same on a desk and in CI. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/sh
VENV ?= .venv
PY := $(VENV)/bin/python

# Of a stack: how many of each, where the pages listen (empty: where they did before), the folder that holds it.
NODES ?= 1
BROKERS ?= 3
WORKERS ?= 1
PORT ?=
MUSTER_HOME ?= .muster
# Of the demo: days a second, how many flights (0: all), stop after the summary.
SPEED ?= 8
FLIGHTS ?= 0
EXIT ?=
SEEDS ?= 300
WORLDS ?= groups log admin
FRAMES ?= 100000
MINUTES ?= 10
ROUNDS ?= 1
SEED ?= 0
BESIDE ?=
WHAT ?=
# Of the tests: what to hand to pytest, such as TESTS=tests/unit, and how many files of them at a time: whole
# stacks often wait, and two cores are through a fifth sooner with three.
TESTS ?= tests
JOBS ?= 3
# Hundreds of processes are started here: each would compile its modules anew where no bytecode may be kept.
export PYTHONDONTWRITEBYTECODE :=
export VENV NODES BROKERS WORKERS PORT MUSTER_HOME SPEED FLIGHTS EXIT SEEDS BESIDE

.PHONY: help setup imported ready runtime compiled plain jars browser built-clients demo up stop start status login test lint bench sim \
	beside clients fuzz soak chaos accept docs lock clean

help:  ## list the verbs
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup:  ## make .venv with everything that running and testing need
	@sh .ci/setup dev

runtime:
	@sh .ci/setup runtime

jars:
	@sh .ci/jars

browser:
	@sh .ci/browser

built-clients:
	@sh .ci/clients

demo: runtime jars  ## replay the year 2013 through a whole stack (EXIT=1 SPEED=8 FLIGHTS=0)
	@exec $(PY) manage.py demo

up: runtime  ## run a stack in front until Ctrl-C (NODES=1 BROKERS=3 WORKERS=1 PORT= MUSTER_HOME=.muster)
	@exec $(PY) manage.py up

stop: runtime  ## stop one process of a running stack (WHAT=broker-2)
	@$(PY) manage.py stop_process "$(WHAT)"

start: runtime  ## start it again (WHAT=broker-2)
	@$(PY) manage.py start_process "$(WHAT)"

status: runtime  ## show the processes of a running stack
	@$(PY) manage.py status

login: runtime  ## print a link that signs in to the pages of a running stack, once
	@$(PY) manage.py login_link

lint: setup  ## ruff, mypy, import contracts
	$(PY) -m ruff check .
	$(PY) -m mypy .
	$(VENV)/bin/lint-imports --no-cache

# Three who run tests would each compile all of them, and what they import, at the same time.
imported: setup
	@test -d tests/__pycache__ || $(PY) -m pytest --collect-only -qq > /dev/null 2>&1 || true

# Each of them mostly waits for somebody: a registry, a compiler's single thread.
ready: setup jars browser built-clients lint imported

test:  ## everything: lint, then all tests with one summary (TESTS=tests)
	@$(MAKE) --no-print-directory -j 4 ready
	$(PY) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(TESTS)

clients: setup jars built-clients  ## run members by every Kafka client, each with 10,000 records, kills and drains
	WHOLE=1 $(PY) -m pytest tests/acceptance/test_kafka_consumers_share_a_group.py tests/acceptance/test_kafka_connect_works_here.py

compiled: setup  ## compile the hot modules with mypyc, for brokers and nodes that start from now on (needs gcc)
	@$(PY) .ci/compiled.py

plain:  ## take away what `make compiled` compiled
	rm -rf build/compiled

bench: setup jars  ## measure beside Apache Kafka in the same run, with BESIDE=FOLDER also beside another checkout
	$(PY) -m tests.benchmarks

sim: setup  ## more seeds of the simulation (SEEDS=300)
	$(PY) -m tests.simulation.run --seeds $(SEEDS)

beside: setup built-clients  ## walk at random at Muster and at Apache Kafka, which must answer alike (WORLDS='groups log admin' SEEDS=300 BROKERS=3)
	$(PY) -m tests.beside_kafka.run $(WORLDS) --seeds $(SEEDS) --brokers $(BROKERS)

fuzz: setup  ## throw spoilt frames at every door (FRAMES=100000 SEED=0)
	$(PY) -m tests.fuzz.run --frames $(FRAMES) --seed $(SEED)

soak: setup  ## 200 members of every kind, and faults, on a whole stack (MINUTES=10 SEED=0)
	@exec $(PY) -m tests.soak.run --minutes $(MINUTES) --seed $(SEED)

chaos: setup built-clients  ## do everything bad to a cluster that is written to (ROUNDS=1 SEED=0)
	CHAOS=$(ROUNDS) SEED=$(SEED) $(PY) -m pytest -s tests/acceptance/test_acknowledged_records_outlive_chaos.py

accept: setup  ## write the transcripts of tests/scenarios anew, as the rules now run; read the diff
	$(PY) -m tests.scenarios.native.transcripts
	-@git diff --stat -- tests/scenarios/native

docs: setup  ## write docs/settings.md and docs/openapi.json anew, as the code declares them
	$(PY) manage.py settings_page > docs/settings.md.new
	mv docs/settings.md.new docs/settings.md
	$(PY) manage.py spectacular --format openapi-json --file docs/openapi.json

lock: setup  ## write requirements*.txt anew from pyproject.toml
	@sh .ci/lock

clean:  ## remove caches, and what stopped stacks left in MUSTER_HOME
	@if [ -x $(PY) ]; then $(PY) manage.py remove_stack; fi
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
