# make setup | demo | test | test-brokers | test-networks | cluster-test | check | bench | pin | clean
#
# Everything happens in .venv below the project's root; results go to results/.
# Works from any directory: `make -C brokerlab demo` and `make -f brokerlab/Makefile demo` are the same.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

root := $(patsubst %/,%,$(dir $(realpath $(lastword $(MAKEFILE_LIST)))))
targets := help setup demo test test-brokers test-networks cluster-test check bench pin clean
.PHONY: $(targets)

ifneq ($(realpath $(CURDIR)),$(root))

$(targets):
	@$(MAKE) -C $(root) $@

else

python := .venv/bin/python
# By another name, so that `make -n` only shows what it would do.
make := $(MAKE)
pytest = $(python) -m pytest --durations=10
# Tests that `make check` runs, so `make test` need not.
checked := tests/unit/test_imports.py tests/unit/test_sizes.py
made_of := requirements.txt requirements-dev.txt pyproject.toml tools/make-venv

help:
	@echo "make setup   .venv with everything pinned, and a Java for Spark"
	@echo "make demo    a small real comparison of brokers: table, results/first-light/report.html"
	@echo "make test    check, then all tests"
	@echo "make test-brokers   installs every broker that takes less than five minutes, then the contract suite on all"
	@echo "make test-networks  links over a grid of claims, measured with ping and iperf3; needs root"
	@echo "make cluster-test   the pipeline and a load on a real Spark cluster of this machine, classic and Connect"
	@echo "make check   lint, format, types, direction of imports"
	@echo "make bench   our generator beside its peers, and against what it promises"
	@echo "make pin     requirements*.txt again, from pyproject.toml"
	@echo "make clean   removes .venv and caches; results stay"

setup: .venv/.ready
	@tools/ensure-java
	@tools/keep-classes || echo "Spark's Java classes could not be kept: analyses will start some seconds later."

# The stamp is touched last, so a set-up that was cut off is finished by the next call.
.venv/.ready: $(made_of)
	@tools/make-venv

# Exit codes 1 and 2 say that a run does not count or a contract is not kept, which is a result too: a demo shows it.
demo: setup
	@.venv/bin/brokerlab run first-light --fresh --out results/first-light || [ $$? -le 2 ]

# Three at a time on two cores, for much of tests/brokers and tests/e2e is waiting; what takes longest comes first.
# Runs of some e2e modules are analysed together.
together := $(shell grep -l "^def planned" tests/e2e/*.py)
test: setup
	@tools/ensure-debian mosquitto mosquitto-clients chromium iproute2 iputils-ping tcpdump
	@tools/timed "check and tests" tools/side-by-side 3 \
		"tools/try-again tests/brokers" \
		"$(pytest) tests/pipeline" \
		"$(make) check" \
		"tools/try-again tests/e2e $(addprefix --ignore=,$(together))" \
		"$(pytest) tests/unit $(addprefix --ignore=,$(checked) tests/unit/report tests/unit/load tests/unit/lab)" \
		"tools/try-again $(together)" \
		"$(pytest) tests/unit/load" \
		"$(pytest) tests/unit/lab tests/networks/test_networks.py" \
		"$(pytest) tests/unit/report"

# Apart from `make test`, because measuring a grid of links takes minutes.
test-networks: setup
	@tools/ensure-debian iperf3 iproute2 iputils-ping
	@tools/timed "networks" $(python) -m pytest --durations=10 tests/networks

# The contract suite alone, on every broker that can be had: one that could not be installed is named, and left out.
test-brokers: setup
	@tools/ensure-debian mosquitto mosquitto-clients docker.io redis-server
	@tools/timed "installs" .venv/bin/brokerlab brokers install --all || [ $$? -eq 1 ]
	@tools/timed "contract suite" $(python) tools/contract

# Six Java processes at once: too much of two cores to be part of `make test`.
cluster-test: setup
	@tools/timed "cluster" $(python) -m pytest -x --durations=10 tests/cluster

check: .venv/.ready
	@tools/timed "ruff check" .venv/bin/ruff check src tests $(wildcard bench)
	@tools/timed "ruff format" .venv/bin/ruff format --check src tests $(wildcard bench)
	@tools/timed "mypy --strict" .venv/bin/mypy --strict src
	@tools/timed "imports and sizes" $(python) -m pytest -q -s $(checked)

bench: setup
	@tools/ensure-debian mosquitto mosquitto-clients iproute2 tcpdump tshark
	@$(python) -m bench

pin: .venv/.ready
	@tools/pin

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis spark-warehouse src/brokerlab.egg-info
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

endif
