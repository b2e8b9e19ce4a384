# Every target works offline once the Go modules are there. `make` lists them.
# Variables: TIME (fuzz, stress), REF (bench-compare), BENCH, COUNT (bench).

GO    ?= go
TIME  ?= 30s
BENCH ?= .
COUNT ?= 1
PKG   ?= ./...

# The platforms kstone has to compile for, always without cgo.
PLATFORMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
TOOL      = $(GO) tool -modfile=tools/go.mod
SAY       = @printf '\n==> %s\n'

.DEFAULT_GOAL := help
.PHONY: help demo test check fmt-check vet cross tidy-check unit race lint \
	fuzz fuzz-smoke stress golden bench bench-compare cover clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

demo: ## import the cities of the world into a fresh database and look around
	@$(GO) run ./cmd/kstone-cli demo

test: check unit race fuzz-smoke ## everything CI runs: check, unit tests, race detector, short fuzzing
	$(SAY) "all passed"

check: fmt-check vet cross tidy-check ## format, vet, six platforms, layers and style

fmt-check:
	$(SAY) "gofmt: every file is formatted"
	@bad=$$(gofmt -l .); \
	if [ -n "$$bad" ]; then echo "not formatted (run gofmt -w):"; echo "$$bad"; exit 1; fi

vet:
	$(SAY) "go vet"
	@$(GO) vet ./...
	@$(GO) vet -tags invariants ./...

cross:
	$(SAY) "cross-compile without cgo: $(PLATFORMS)"
	@set -e; for p in $(PLATFORMS); do \
		echo "  $$p"; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build ./...; \
	done

tidy-check:
	$(SAY) "tidy: import layers, sizes, documentation, links"
	@$(GO) test -count=1 ./internal/tidy

unit:
	$(SAY) "unit tests (crash runs included)"
	@$(GO) test -timeout 10m $(PKG)

race: ## all tests under the race detector, with the invariant checks compiled in
	$(SAY) "race detector, with invariant checks"
	@$(GO) test -race -tags invariants -timeout 10m $(PKG)

lint: ## staticcheck, pinned in tools/go.mod
	$(SAY) "staticcheck"
	@$(TOOL) staticcheck $(PKG)

fuzz: ## every fuzz target in turn, TIME=30s each
	$(SAY) "fuzzing every target for $(TIME)"
	@tools/fuzz.sh $(TIME)

fuzz-smoke:
	$(SAY) "fuzz smoke: every target for a moment"
	@tools/fuzz.sh smoke

stress: ## random, crash and concurrency tests again and again with new seeds, TIME=30s
	$(SAY) "stress for $(TIME)"
	@tools/stress.sh $(TIME)

golden: ## rewrite the golden files and show what changed
	@tools/golden.sh

bench: ## Go benchmarks; BENCH=regexp COUNT=n PKG=./sst
	@$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG)

bench-compare: ## compare the benchmarks of REF=<commit> with the working tree (benchstat)
	@tools/bench-compare.sh '$(REF)' '$(BENCH)' '$(PKG)'

cover: ## test coverage by package, and build/coverage.html
	@mkdir -p build
	@$(GO) test -coverprofile=build/cover.out -coverpkg=./... ./...
	@$(GO) tool cover -func=build/cover.out | tail -1
	@$(GO) tool cover -html=build/cover.out -o build/coverage.html

clean: ## remove build output
	rm -rf bin build
