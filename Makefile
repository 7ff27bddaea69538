# All set-up lives in .venv, made from pyproject.toml with the versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
# One process a core and one thread a process: small matrices have no use for more.
TEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest
# Least share of the package's lines and branches that `make coverage` accepts, in per cent.
FLOOR := 67

.PHONY: demo serve digits compare audit attack exposure figures reproduce reproduce-full cifar10 cifar10-quick truth test coverage test-slow test-browser test-deploy test-sources mutants docs docs-serve docs-links bench bench-quick bench-growth bench-peers lint types dist changelog audit-dependencies clean

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# What the demo needs, and on top of it everything else.
.venv/desk: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) -e ".[desk]"
	touch $@

.venv/service: .venv/desk
	$(PIP) -e ".[serve]"
	touch $@

.venv/ready: .venv/desk
	$(PIP) -e ".[dev]"
	touch $@

.venv/docs: .venv/desk
	$(PIP) -e ".[docs]"
	touch $@

demo: .venv/desk
	rm -rf demo-output
	$(BIN)/pilu demo --out demo-output

# The service, with made-up customers; the address and a token are printed.
serve: .venv/service
	$(BIN)/pilu serve --demo serve-output

digits: .venv/ready
	$(BIN)/python examples/digits.py --out digits-output

compare: .venv/ready
	$(BIN)/python examples/compare.py --out compare-output

audit: .venv/ready
	$(BIN)/python examples/audit.py --out audit-output

attack: .venv/ready
	$(BIN)/python examples/attack.py --out attack-output

exposure: .venv/ready
	$(BIN)/python examples/exposure.py --out exposure-output

figures: .venv/ready
	$(BIN)/python -m experiments --figures

reproduce: .venv/ready
	$(BIN)/python -m experiments --size quick

reproduce-full: .venv/ready
	$(BIN)/python -m experiments --size full

# Certificates of pilu and of others on small problems whose laws are known.
truth: .venv/ready
	$(BIN)/python -m experiments.truth

cifar10-quick: .venv/ready
	$(BIN)/python -m experiments.cifar10 --size quick

cifar10: .venv/ready
	$(BIN)/python -m experiments.cifar10 --size full

test: .venv/ready lint types
	$(TEST) -n auto --dist worksteal

# Branches too. Not in `make test`: on Python 3.11 the tests then take 1.5 to 2.3 times as long.
coverage: .venv/ready
	$(TEST) -n auto --dist worksteal --cov --cov-report=term:skip-covered --cov-fail-under=$(FLOOR)

test-slow: .venv/ready
	$(TEST) -n auto --dist worksteal -m slow

# Needs Debian's packages chromium and chromium-driver. Of the package with axe, only the script is
# used: its other dependency would be a browser.
test-browser: .venv/ready docs
	$(PIP) --no-deps axe-playwright-python
	$(TEST) tests/browser -m browser

# Adds MLflow: 100 MB for five tests, which `make test` skips.
test-deploy: .venv/ready
	$(PIP) -e ".[deploy]"
	$(TEST) tests/refit/test_deploy.py tests/test_pages.py -k deploy

# Needs Debian's package postgresql; the tests start a server of their own on a socket.
test-sources: .venv/ready
	$(PIP) -e ".[sources,serve-postgres]"
	$(TEST) tests/sources -m sources

# The site, in build/site. A warning is an error: links that lead nowhere, pages that are in no menu,
# files that a page would load from another host.
docs: .venv/docs
	$(BIN)/sphinx-build -W -q -b html -c docs . build/site

docs-serve: docs
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000

# Asks every address outside; not a part of any test.
docs-links: .venv/docs
	$(BIN)/sphinx-build -q -b linkcheck -c docs . build/links

# Changes the code a little, many times, and counts how often a test fails (CONTRIBUTING.md).
SIZE ?= 220
SEED ?= 1
JOBS ?= 2
mutants: .venv/ready
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tools.mutants --size $(SIZE) --seed $(SEED) --jobs $(JOBS)

bench: .venv/ready
	$(BIN)/python -m benchmarks --plot

bench-quick: .venv/ready
	$(BIN)/python -m benchmarks --sizes small small-cyclic small-desk small-cluster small-softmax small-refit small-living small-serve --repeats 1 --no-growth

bench-growth: .venv/ready
	$(BIN)/python -m benchmarks --sizes --plot --name growth

# Adds river, which nothing else needs.
bench-peers: .venv/ready
	$(PIP) -e ".[peers]"
	$(BIN)/python -m benchmarks.peers

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/mypy

# What builds and checks a release has an environment of its own.
.venv/tools/ready: release/requirements.txt constraints.txt
	$(PYTHON) -m venv .venv/tools
	.venv/tools/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r release/requirements.txt
	touch $@

# Builds the last commit twice, byte for byte the same, and tries the wheel in four new environments.
dist: .venv/tools/ready
	.venv/tools/bin/python -m release.dist

# The changes since the last release. `make changelog VERSION=1.2.0` moves them into CHANGELOG.md.
changelog: .venv/tools/ready
	.venv/tools/bin/towncrier build $(if $(VERSION),--yes --version $(VERSION),--draft --version next)

# Known vulnerabilities of the pinned versions, from a database on the network; then the licences.
audit-dependencies: .venv/ready .venv/tools/ready
	$(PIP) -e ".[deploy,peers,sources,serve-postgres]"
	$(BIN)/python -m release.dependencies .venv/lib/*/site-packages .venv/tools/lib/*/site-packages
	.venv/tools/bin/python -m pip_audit --strict --no-deps --disable-pip --requirement constraints.txt

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage build demo-output digits-output compare-output audit-output attack-output exposure-output bench-output mutants-output serve-output dist
