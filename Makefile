# VStream. `make help` lists the targets.

CARGO ?= cargo
MVN ?= mvn -B -ntp
JOB ?= examples/mixed.yaml

JAVA := $(MVN) -f java/pom.xml
VSTREAM := dist/bin/vstream
SOURCES := $(shell find Cargo.toml Cargo.lock rust-toolchain.toml crates java \
	-name target -prune -o -type f \( -name '*.rs' -o -name '*.toml' -o -name '*.lock' \
	-o -name '*.java' -o -name 'pom.xml' -o -path '*/resources/*' \) -print)

.PHONY: help build native java demo test lint bench run data clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

build: dist/.built ## everything a user needs, in dist/

# One cargo call for both, so that their common crates are built once.
native: ## the vstream command and the native library, in target/release
	$(CARGO) build --release -p vstream-cli -p vstream-native

java: native ## the jars, with the native library inside
	rm -rf java/flink/target/lib
	$(JAVA) -q package -DskipTests

dist/.built: $(SOURCES)
	$(MAKE) java
	rm -rf dist
	mkdir -p dist/bin dist/lib
	cp target/release/vstream dist/bin/
	cp java/flink/target/lib/*.jar java/flink/target/vstream-flink-*.jar dist/lib/
	touch $@

data: build ## the data set of the demo
	$(VSTREAM) data

demo: build ## index real word vectors while they stream, and watch the answers
	$(VSTREAM) demo

run: build ## one job: make run JOB=examples/mixed.yaml
	$(VSTREAM) run $(JOB)

test: native ## every test
	$(CARGO) test --workspace
	$(JAVA) verify

lint: ## formatting and lints, as CI checks them
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(JAVA) -q spotless:check

bench: build ## the benchmarks
	$(CARGO) run --release -p vstream-bench

clean: ## remove what was built, keep the data
	$(CARGO) clean
	rm -rf dist java/target java/native/target java/flink/target
