# make run: the development stack. make test: everything that must hold before a change is pushed.

.DEFAULT_GOAL := help
.PHONY: help run install test lint clients advisories fmt docs screenshots signatures bench kills chart

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 13

# Files for incremental builds cost a fifth of the first build. They are kept from the first `cargo build` or `make test` on.
UNTIL_THEN := $(if $(wildcard $(or $(CARGO_TARGET_DIR),target)/debug/incremental/*),,CARGO_INCREMENTAL=0)
run: ## Run the development stack: Redis, API, workers and a demo tenant
	@.ci/need cargo cc curl redis-server
	$(UNTIL_THEN) cargo run --bin budget-authority -- dev $(ARGS)

PREFIX ?= $(HOME)/.local
install: ## Install the two binaries into PREFIX/bin, by default ~/.local/bin
	@.ci/need cargo cc
	cargo install --path . --locked --root "$(PREFIX)"

# Most tests mostly wait: for another process, a lease, a clock.
export RUST_TEST_THREADS ?= $(shell expr 3 \* $$(getconf _NPROCESSORS_ONLN))

# What is `_timed` needs a free processor, so it does not run beside the others.
test: ## Check format and lints, then run all tests
	@.ci/need cargo cc rustfmt clippy curl redis-server redis-sentinel luacheck python openssl promtool cargo-deny chromium chromedriver
	@$(MAKE) --no-print-directory -j2 lint clients
	helm/check --if-installed
	cargo test --quiet -- --skip _timed
	RUST_TEST_THREADS=2 cargo test --quiet --test it -- _timed

lint: ## Check format, Rust, Lua and the crates
	@.ci/need cargo cc rustfmt clippy luacheck cargo-deny
	cargo fmt --check
	cargo fmt --check --manifest-path tests/clients/rust/Cargo.toml
	cargo fmt --check --manifest-path examples/rust/Cargo.toml
	luacheck --quiet lua
	.ci/deny
	$(CLIPPY)

CLIPPY ?= cargo clippy --quiet --all-targets -- -D warnings

clients:
	tests/clients/prepare

advisories: ## Update the copy of the advisories, over the network
	@.ci/need cargo cc cargo-deny
	.ci/deny fetch

fmt: ## Format the Rust code
	@.ci/need cargo rustfmt
	cargo fmt
	cargo fmt --manifest-path tests/clients/rust/Cargo.toml
	cargo fmt --manifest-path examples/rust/Cargo.toml

docs: ## Regenerate the generated documents
	@.ci/need cargo cc python redis-server
	UPDATE_SNAPSHOTS=1 cargo test --quiet --test it -- the_examples_are_what
	UPDATE_SNAPSHOTS=1 cargo test --quiet --test it -- the_document_matches_the_help the_description_changes the_document_of_keys the_schema_of_files
	helm/generate

screenshots: ## Take the pictures of the console in docs/console
	@.ci/need cargo cc redis-server chromium chromedriver
	UPDATE_SNAPSHOTS=1 cargo test --quiet --test it -- every_page_has_its_pictures

signatures: ## Rewrite the headers of the scripts
	@.ci/need cargo cc
	UPDATE_SNAPSHOTS=1 cargo test --quiet --test it -- script_headers_match

bench: ## Measure the runtime plane on this machine, beside the bare scripts
	@.ci/need cargo cc redis-server
	cargo run --release --bin budget-authority -- bench $(or $(ARGS),--compare)

kills: ## Kill processes and Redis, cut files, fill memory and move slots for minutes (KILL_SECONDS=300), then check every sum
	@.ci/need cargo cc redis-server
	KILL_SECONDS=$(or $(KILL_SECONDS),300) cargo test --quiet --test it -- failing_kills chaos

chart: ## Check the Helm chart; builds its tools with Go
	@.ci/need python promtool
	helm/generate --check
	helm/check $(ARGS)
