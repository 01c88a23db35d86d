.DEFAULT_GOAL := help
.PHONY: help setup run build test lint bench fuzz modules gcc redis install-redis

GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT := .tools/bin/golangci-lint-$(GOLANGCI_LINT_VERSION)

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo development)
SUDO := $(if $(filter-out 0,$(shell id -u)),sudo)

# Without it debug pages of gRPC, which traces may travel by, add 12 MB that nothing uses.
TAGS := grpcnotrace

# Of the tests, or the benchmarks, of one package.
TIMEOUT := 10m

# Where git will not speak, as in a checkout that another user owns, Go would fail to build.
ifeq ($(shell git log -1 --format=%H 2>/dev/null),)
export GOFLAGS += -buildvcs=false
endif

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s  %s\n", $$1, $$2 }' Makefile

# Without inlining the first build takes a third less time; a machine that never built Go waits for it.
run: ## Serve on this machine, with a store and a key of its own
	CGO_ENABLED=0 go build -tags $(TAGS) -gcflags=all=-l -o .tools/bin/gateway ./cmd/gateway
	.tools/bin/gateway dev

test: gcc redis modules ## Run all tests, with the race detector
	CGO_ENABLED=1 go test -race -shuffle=on -count=1 -timeout=$(TIMEOUT) ./...

lint: $(GOLANGCI_LINT) ## Look for mistakes and wrong formatting
	$(GOLANGCI_LINT) run

bench: redis modules ## Run all benchmarks
	go test -run='^$$' -bench=. -timeout=$(TIMEOUT) ./...

# Package:target. Each runs for FUZZTIME; what it finds becomes a seed in testdata/fuzz.
FUZZTIME := 1m
FUZZ := auth:FuzzVerify auth:FuzzSignedClaims configs:FuzzParsePolicy middleware:FuzzDecodeKey \
	middleware:FuzzDecodeTTL middleware:FuzzSpellingsOfLocks lockcore/store/redisstore:FuzzReply

fuzz: modules ## Feed each decoder with made-up input, a minute each
	@for t in $(FUZZ); do echo $$t; \
		go test ./$${t%:*} -run='^$$' -fuzz="^$${t#*:}$$" -fuzztime=$(FUZZTIME) || exit 1; done

build: ## Build the static binary ./gateway
	CGO_ENABLED=0 go build -tags $(TAGS) -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o gateway ./cmd/gateway

setup: redis modules $(GOLANGCI_LINT) ## Install now what the other targets would install later

modules:
	go mod download

gcc:
	@command -v $$(go env CC) >/dev/null || { \
		echo 'The race detector needs a C compiler. Install gcc, for example: apt-get install gcc libc6-dev' >&2; exit 1; }

# Tests start servers of their own and never use one that already runs.
redis:
	@command -v redis-server >/dev/null || $(MAKE) --no-print-directory install-redis

install-redis:
	@for tool in apt-get $(SUDO); do command -v $$tool >/dev/null || { \
		echo "The tests need redis-server, and without $$tool it cannot be installed here. Put one on the PATH." >&2; exit 1; }; done
	$(SUDO) apt-get update
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends redis-server

# The name with the version comes last, so a file of that name is complete.
$(GOLANGCI_LINT):
	GOBIN='$(CURDIR)/.tools/bin' go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv .tools/bin/golangci-lint $@
