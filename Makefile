# One file, the same verbs for people and for CI. `make help` lists them.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

# Everything that is not Rust comes from this virtual environment; its bin folder
# is on the PATH so that cargo finds cargo-lambda and cargo-lambda finds zig.
VENV_BIN := $(CURDIR)/.venv/bin
PY := .venv/bin/python
READY := .venv/ready
# The official JavaScript library, which only `make unit` needs.
JAVASCRIPT := examples/node_modules/.package-lock.json
# deliver's job in Node.js, in one file: `make bench` measures it, `make unit` sees that it works.
BASELINE := target/bench/deliver.cjs
BASELINE_PACKAGES := bench/node/node_modules/.package-lock.json
export PATH := $(VENV_BIN):$(PATH)

# sam sends no usage data, and `sam validate` wants to know a region.
export SAM_CLI_TELEMETRY := 0
AWS_DEFAULT_REGION ?= eu-central-1
export AWS_DEFAULT_REGION

# What the end-to-end tests need to find the local stack.
export E2E_PYTHON := $(VENV_BIN)/python

.PHONY: help
help: ## List the verbs
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

# ---- Set up and build ----------------------------------------------------------

.PHONY: setup
setup: $(READY) $(JAVASCRIPT) ## Make .venv with the pinned tools

$(READY): infra/requirements.txt
	@command -v cargo >/dev/null || { echo "Rust is missing: see https://rustup.rs" >&2; exit 1; }
	@for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then \
	    echo "Making .venv with $$python"; \
	    exec $$python -m venv --clear .venv; \
	  fi; \
	done; \
	echo "Python 3.10 or newer is needed; python3 is $$(python3 --version 2>&1)." >&2; exit 1
	@$(PY) -m pip install --quiet --disable-pip-version-check --requirement infra/requirements.txt
	@touch $(READY)

# Without Node.js everything else still works, and the test that needs it says so.
$(JAVASCRIPT): examples/package-lock.json
	@if command -v npm >/dev/null; then \
	  npm ci --prefix examples --ignore-scripts --no-audit --no-fund --silent && touch $@; \
	else \
	  echo "Node.js 18 or newer is missing; without it the test of examples/partner.mjs fails." >&2; \
	fi

$(BASELINE_PACKAGES): bench/node/package-lock.json
	@if command -v npm >/dev/null; then \
	  npm ci --prefix bench/node --ignore-scripts --no-audit --no-fund --silent && touch $@; \
	else \
	  echo "Node.js 20 or newer is missing; without it nothing is measured beside the functions." >&2; \
	fi

$(BASELINE): bench/node/package.json $(BASELINE_PACKAGES) $(wildcard bench/node/src/*.mjs)
	@if command -v npm >/dev/null; then \
	  npm run --prefix bench/node --silent build -- --log-level=warning --outfile=$(CURDIR)/$@; \
	fi

.PHONY: build
build: $(READY) ## Compile the two functions for this machine
	@$(PY) infra/local_stack.py build

# ---- See it run -----------------------------------------------------------------

.PHONY: demo
# Read before the build starts, so that the demo can tell the whole time.
demo: export DEMO_STARTED := $(shell date +%s)
demo: build ## Deploy to a local AWS and watch four partners get a webhook
	@$(PY) demo/demo.py

.PHONY: up
up: build ## Start a local AWS with the service in it, to play with
	@$(PY) infra/local_stack.py up

.PHONY: down
down: $(READY) ## End what `make up` started
	@$(PY) infra/local_stack.py down

# ---- Check ----------------------------------------------------------------------

# The quick checks come first, the end-to-end tests last.
.PHONY: test
test: fmt-check template lint docs unit e2e ## Everything that CI checks

.PHONY: fmt-check
fmt-check: ## Is the code formatted?
	cargo fmt --all -- --check

.PHONY: lint
lint: ## clippy, every warning an error
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@# "All" leaves out what a plain `cargo test` leaves out, see tests/Cargo.toml.
	cargo clippy --workspace --test stack --test soak --locked -- -D warnings

.PHONY: docs
docs: ## Does the documentation build without a warning?
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

.PHONY: template
template: $(READY) ## Are the templates valid SAM templates?
	.venv/bin/sam validate --lint --template infra/template.yaml
	.venv/bin/sam validate --lint --template infra/receiver/template.yaml

.PHONY: unit
unit: $(READY) $(JAVASCRIPT) $(BASELINE) ## Every test that needs no local stack
	cargo test --workspace --locked -- --quiet

# Most of the time they wait, so all of them run at once, however few the cores.
# `--workspace` again, or cargo would settle the features of the dependencies for
# one package and compile them anew.
.PHONY: e2e
e2e: $(READY) ## End-to-end tests on the deployed templates
	@$(PY) infra/local_stack.py build --with-receiver
	@# Operators' command and a partner's server come with the tests of their crates, which `make
	@# unit` has built. `cargo build` would settle other features and compile most of it anew.
	cargo test --workspace --locked --no-run --quiet
	@# A minute of it, and always the same one.
	SOAK_SEED=7 SOAK_SECONDS=12 cargo test --workspace --locked --test soak
	RUST_TEST_THREADS=32 cargo test --workspace --locked --test stack

# SEED is drawn if it is not given. PLAN carries out again what a run has kept, and JUDGE makes the
# account of it once more. docs/soak.md
MINUTES ?= 3
.PHONY: soak
soak: $(if $(JUDGE),,build) ## Faults, kills and bad partners, then an account: SEED=7 MINUTES=10
	@SOAK_SEED='$(SEED)' SOAK_SECONDS=$$(( $(MINUTES) * 60 )) \
	  SOAK_PLAN='$(abspath $(PLAN))' SOAK_JUDGE='$(abspath $(JUDGE))' \
	  cargo test --workspace --locked --test soak --quiet

# `make bench ARGS="--quick"` only shows that it works, `ARGS="--only base"` measures one part;
# docs/measuring.md tells of both.
.PHONY: bench
bench: build $(BASELINE) ## What the functions cost: CPU, memory, time, beside Node.js
	@# Like the functions, or it would be compiled for an older processor than they are.
	cargo lambda build --release --locked --package bench --bin floor
	cargo build --release --locked --package bench --bin bench
	target/release/bench $$(test -f $(BASELINE) && command -v node | sed 's/^/--node /') $(ARGS)

# Targets are in crates/fuzzing, docs/fuzzing.md tells about them. `make unit` runs them too, shortly.
FUZZ_SECONDS ?= 60

.PHONY: fuzz-smoke
fuzz-smoke: ## Search for inputs that break a property, by chance, FUZZ_SECONDS for each target
	cargo test --workspace --locked --test any_bytes --no-run --quiet
	FUZZ_SECONDS=$(FUZZ_SECONDS) cargo test --workspace --locked --test any_bytes -- --nocapture

.PHONY: fuzz
fuzz: ## The same with cargo fuzz, for one TARGET; needs nightly and cargo-fuzz
	@cargo +nightly fuzz --version >/dev/null 2>&1 || { \
	  echo "cargo-fuzz and a nightly compiler are needed, see docs/fuzzing.md; make fuzz-smoke needs neither." >&2; \
	  exit 1; }
	@test -n "$(TARGET)" || { echo "Which one? make fuzz TARGET=batch; there are:" >&2; ls fuzz/corpus >&2; exit 2; }
	@# What it finds goes into the first folder; the second has the seeds, which `make unit` runs.
	@mkdir -p target/fuzz-corpus/$(TARGET)
	cargo +nightly fuzz run $(TARGET) $(CURDIR)/target/fuzz-corpus/$(TARGET) \
	  $(CURDIR)/fuzz/corpus/$(TARGET) -- -max_total_time=$(FUZZ_SECONDS)

# ---- Production -----------------------------------------------------------------

# Your own AWS credentials and region are used. sam shows the changes and asks.
# The first time, `sam deploy --guided` in infra/ writes your parameters down.
.PHONY: deploy
deploy: $(READY) ## Build for AWS and deploy with `sam deploy`
	cd infra && sam build && sam deploy

# A partner's side, a stack of its own.
.PHONY: deploy-receiver
deploy-receiver: $(READY) ## Build a partner's receiver for AWS and deploy it
	cd infra/receiver && sam build && sam deploy

.PHONY: clean
clean: ## Remove everything that was built, also .venv
	@if [ -x $(PY) ]; then $(PY) infra/local_stack.py down; fi
	rm -rf .venv .local infra/.aws-sam infra/receiver/.aws-sam examples/node_modules bench/node/node_modules fuzz/target target
