# make run: the development stack. make test: everything that must hold before a change is pushed.

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# Debian package of each program that the targets call.
PACKAGES := redis-server=redis-server redis-sentinel=redis-sentinel luacheck=lua-check

.DEFAULT_GOAL := help
.PHONY: help run test lint fmt bench deps

help: ## Show what there is
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

run: deps ## Run the development stack: Redis, API, workers and a demo tenant
	cargo run --quiet --release --bin budget-authority -- dev $(ARGS)

test: lint ## Check format and lints, then run all tests
	cargo test --quiet

lint: deps ## Check format, Rust and Lua
	cargo fmt --check
	cargo clippy --quiet --all-targets -- -D warnings
	luacheck --quiet lua

fmt: ## Format the Rust code
	cargo fmt

bench: deps ## Measure the runtime plane on this machine, beside the bare scripts
	cargo run --quiet --release --bin budget-authority -- bench $(or $(ARGS),--compare)

# Installs what is missing, and nothing when all is there.
deps:
	@missing=; for pair in $(PACKAGES); do \
		command -v $${pair%%=*} >/dev/null 2>&1 || missing="$$missing $${pair##*=}"; \
	done; \
	[ -z "$$missing" ] || { \
		command -v apt-get >/dev/null 2>&1 || { echo "install these first:$$missing" >&2; exit 1; }; \
		$(SUDO) apt-get update -qq && DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -qq -y --no-install-recommends$$missing; \
	}
