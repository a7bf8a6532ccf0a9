# Each target sets up what it needs and no more; what is done already is not done again.
#   make demo   shows on this machine what works today      make test   the whole suite
#   make setup  everything for development                  make lint   ruff, mypy, pyright
#   make bench  measurements as tables                      make docs   the documentation as pages in site/
#   make native the native kernel, where there is gcc       make wheel  a wheel with it in dist/
#   make wheels for every Python here from 3.11 on, tried   make quick  what PyroMQ runs on and no more: seconds
#   make lock   new locked versions                         make clean  removes what these made
#   make test-sdk-java  the SDK's tests on Apache's broker
#   make sanitize  the kernel's tests with address and undefined-behaviour checks

.DEFAULT_GOAL := setup
.PHONY: setup demo test test-sdk-java interop coverage lint bench docs lock clean peers java native wheel wheels quick sanitize FORCE
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input
POSTGRES := $(firstword $(wildcard /usr/lib/postgresql/*/bin/postgres) postgres)
EXTRAS := --extra fast --extra compress --extra dashboard
T ?= tests
B ?= $(sort $(wildcard bench/*.py))
PYTEST_ARGS ?=
# The whole suite goes to that many processes (tests/workers.py divides it), a part of it to one. 0: all in one.
WORKERS ?= $(shell [ "$$(nproc 2>/dev/null || echo 1)" -gt 1 ] && echo 2 || echo 0)

# Layers: `make demo` needs the first two, and the kernel.
CORE := $(VENV)/.core
SPARK := $(VENV)/.spark
DEV := $(VENV)/.dev
DOCS := $(VENV)/.docs
NATIVE := $(VENV)/.native
# HTTP/2 is served natively where this is, and there is a compiler; else by `h2`.
NGHTTP2 = ! command -v gcc >/dev/null || scripts/debian /usr/include/nghttp2/nghttp2.h=libnghttp2-dev || [ "$(PYROMQ_CI)" != 1 ]
KERNEL := $(wildcard src/pyromq/kernel/native/*.p* src/pyromq/kernel/native/*.h) scripts/native scripts/kernel_build.py

# A copy that `pip install .` has left there is run and tested instead of this tree, and no pull changes it.
COPY := $(firstword $(wildcard $(VENV)/lib/python*/site-packages/pyromq/__init__.py))

setup: $(DEV) $(NATIVE) java

$(VENV)/pyvenv.cfg:
	@scripts/venv $(VENV)

$(CORE): requirements/core.txt pyproject.toml $(if $(COPY),FORCE) | $(VENV)/pyvenv.cfg
	@echo "installing what PyroMQ runs on$(if $(COPY), and this tree in place of the copy in $(dir $(COPY)))"
	@$(INSTALL) --require-hashes -r requirements/core.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(SPARK): requirements/spark.txt $(CORE)
	@echo "installing Spark (a few hundred megabytes)"
	@$(INSTALL) --require-hashes -r requirements/spark.txt
	@touch $@

# Spark runs on Java 17 or later. Who may not install it is told what to type; all but Spark works without.
java:
	@scripts/debian java=openjdk-17-jre-headless || [ "$(PYROMQ_CI)" != 1 ]

$(DEV): requirements/dev.txt $(SPARK)
	@echo "installing what development needs"
	@$(INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

$(DOCS): requirements/docs.txt $(CORE)
	@echo "installing what the documentation needs"
	@$(INSTALL) --require-hashes -r requirements/docs.txt
	@touch $@

# Without a compiler it says so, and the Python kernel serves; once there is one, the next `make` builds it.
$(NATIVE): $(KERNEL) $(CORE) $(if $(wildcard src/pyromq/kernel/native/kernel.*.so),,FORCE)
	@$(NGHTTP2)
	@$(BIN)/python scripts/native
	@touch $@

FORCE:

# Whatever is there already: who is told to run it has a kernel that is damaged or of other sources.
native: $(CORE)
	@$(NGHTTP2)
	@$(BIN)/python scripts/native
	@touch $(NATIVE)

wheel: $(NATIVE)
	@$(BIN)/hatchling build -t wheel

# What a release has: wheels of all Pythons that are here (PYTHONS names others), and the sources.
wheels:
	@$(NGHTTP2)
	@scripts/wheels

# For who wants to use it: servers, SDK and command lines. Spark and what development needs come with their targets.
quick: $(NATIVE)
	@echo "PyroMQ is ready: .venv/bin/pyromq up"

# The tests that compare both kernels and the mutated frames, on a kernel built with ASan and UBSan.
sanitize: $(DEV)
	@$(NGHTTP2)
	@scripts/sanitize $(BIN)/python

demo: $(SPARK) $(NATIVE) java
	@$(BIN)/pyromq demo

# `make test T=tests/protocol PYTEST_ARGS=-x` runs a part.
test: $(DEV) $(NATIVE) java peers
	$(BIN)/pytest $(T) $(if $(filter tests,$(T)),-n $(WORKERS)) $(PYTEST_ARGS)

# Every program that we did not write, every case; make test runs the ones that are not marked slow.
interop: $(DEV) $(NATIVE) java peers
	$(BIN)/pytest tests/interop -m interop $(PYTEST_ARGS)

# The SDK's tests that talk to a broker, on Apache's name server and broker 5.5.0 instead of ours.
test-sdk-java: $(DEV) $(NATIVE) java peers
	PYROMQ_TEST_BROKER=java $(BIN)/pytest tests/client tests/app $(PYTEST_ARGS)

# The same tests as make test, watched: about half as fast.
coverage: $(DEV) $(NATIVE) java peers
	$(BIN)/coverage run -m pytest $(T) $(PYTEST_ARGS)
	@$(BIN)/coverage report --skip-covered --skip-empty

# Programs that tests/interop talks to. Without PYROMQ_CI=1 tests that miss one say so and are skipped.
peers:
ifeq ($(PYROMQ_CI),1)
	@scripts/debian java=openjdk-17-jdk-headless javac=openjdk-17-jdk-headless mvn=maven node=nodejs npm=npm go=golang-go openssl=openssl mkfs.ext4=e2fsprogs mkfs.xfs=xfsprogs etcd=etcd-server promtool=prometheus ip=iproute2 nft=nftables nsenter=util-linux gcc=gcc mariadbd=mariadb-server redis-server=redis-server $(POSTGRES)=postgresql chromium=chromium
endif

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/basedpyright --pythonpath $(BIN)/python --level error

# `make bench B=bench/frame.py` runs one.
bench: $(DEV) $(NATIVE)
	@scripts/debian gcc=gcc /usr/include/nghttp2/nghttp2.h=libnghttp2-dev
	@for script in $(B); do echo "== $$script"; PYTHONPATH=. $(BIN)/python $$script || exit 1; done

docs: $(DOCS)
	@$(BIN)/mkdocs build --strict
	@echo "documentation: site/index.html"

# Exact versions with hashes for every platform and Python that we support; run it to move to newer ones. After a new
# dependency `make lock UPGRADE=` keeps the versions of all others.
UPGRADE ?= --upgrade
lock: $(DEV)
	@$(INSTALL) uv
	@compile="$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes $(UPGRADE)"; \
	export UV_CUSTOM_COMPILE_COMMAND="make lock"; \
	$$compile pyproject.toml requirements/build.in $(EXTRAS) -o requirements/core.txt && \
	$$compile pyproject.toml $(EXTRAS) -c requirements/core.txt -o requirements/run.txt && \
	$$compile pyproject.toml $(EXTRAS) --extra spark -c requirements/core.txt -o requirements/spark.txt && \
	$$compile pyproject.toml $(EXTRAS) --extra spark --extra dev -c requirements/spark.txt -c requirements/core.txt -o requirements/dev.txt && \
	$$compile requirements/docs.in -c requirements/dev.txt -o requirements/docs.txt

clean:
	rm -f src/pyromq/kernel/native/*.so
	rm -rf $(VENV) build dist site htmlcov .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} +
