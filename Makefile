# Every target works offline once the Go modules are there. `make` lists them. KSTONE_EFFORT and
# KSTONE_SEED in the environment are the sizes and random numbers of tests: see docs/testing.md.
# Variables: TIME (fuzz, stress, nightly, oracles, soak), CYCLES (powercut), REF (bench-compare),
# ROWS (plan-regret), DIR, FLAGS (sqllogictest), BENCH, COUNT (bench), SEED, N (mutants).

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
.PHONY: FORCE help demo test check fmt-check vet platforms cross portable man tidy-check unit race lint \
	fuzz stress nightly sql-check sqllogictest oracles clients console-check compare migrate-check test-stores test-tikv soak powercut canary mutants scale plan-regret golden bench \
	bench-compare bench-check bench-quick bench-full cover clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

demo: ## import the cities of the world, kill that, and look around
	@echo "compiling kstone-cli, which takes a minute or more the first time"
	@mkdir -p bin && $(GO) build -o bin/kstone-cli ./cmd/kstone-cli
	@rm -rf build/demo && bin/kstone-cli demo build/demo

# Fixed seeds and committed corpora only, so that a failure is one of the code: new random
# numbers are for stress, fuzz and nightly.
test: check unit race ## everything CI runs: check, and each test once
	$(SAY) "all passed"

check: fmt-check vet lint platforms tidy-check ## format, vet, staticcheck, platforms, layers

fmt-check:
	$(SAY) "gofmt: every file is formatted"
	@bad=$$(gofmt -l .); \
	if [ -n "$$bad" ]; then echo "not formatted (run gofmt -w):"; echo "$$bad"; exit 1; fi

# Of the packages behind the tag only those with a file that has it are vetted again, compiled
# as `race` compiles them.
vet:
	$(SAY) "go vet"
	@$(GO) vet ./...
	@$(GO) vet -race -tags invariants $$(grep -rlE --include='*.go' '^//go:build.*invariants' . | \
		xargs -n 1 dirname | sort -u)

# Collecting garbage less often saves a quarter of its time, for 600 MB.
lint: ## staticcheck, pinned in tools/go.mod
	$(SAY) "staticcheck"
	@GOGC=400 $(TOOL) staticcheck ./...

# Why not `cross`: compiling all packages for six platforms takes most of ten minutes of a
# processor. tidy checks their types for each platform; this adds the assembly that no test of
# this machine runs.
platforms:
	$(SAY) "assembly for arm64"
	@CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build \
		$$(find . -name '*_arm64.s' -exec dirname {} + | sort -u)

cross: ## compile everything for six platforms without cgo
	$(SAY) "cross-compile without cgo: $(PLATFORMS)"
	@set -e; for p in $(PLATFORMS); do \
		echo "  $$p"; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build ./...; \
	done

# Databases in files are for PLATFORMS; in memory kstone runs wherever Go does.
portable: ## compile for 32 bits and WebAssembly, and run tests there; needs Linux on amd64, and Node.js
	$(SAY) "32 bits"
	@GOARCH=386 CGO_ENABLED=0 $(GO) vet ./...
	@GOARCH=386 CGO_ENABLED=0 KSTONE_EFFORT=0 $(GO) test -vet=off ./keycodec ./zonemap/... ./memtable \
		./wal ./sst ./stripe ./engine/schema ./engine/plan/spans ./engine/internal/... \
		./engine/store/remote
	$(SAY) "WebAssembly"
	@GOOS=js GOARCH=wasm $(GO) build ./engine/... ./keycodec/... ./zonemap/...
	@GOOS=js GOARCH=wasm $(GO) test -vet=off -run '^Example[A-Z_]' \
		-exec "$$($(GO) env GOROOT)/lib/wasm/go_js_wasm_exec" ./engine ./engine/table/typed

man: ## manual pages and completions of kstone-cli, into build/
	$(SAY) "manual pages and completions"
	@mkdir -p bin build/completions && $(GO) build -o bin/kstone-cli ./cmd/kstone-cli
	@cd cmd/kstone-cli/kstone-cli-man && $(GO) run . '$(CURDIR)/build/man'
	@bin/kstone-cli completion bash > build/completions/kstone-cli.bash
	@bin/kstone-cli completion zsh > build/completions/_kstone-cli
	@bin/kstone-cli completion fish > build/completions/kstone-cli.fish

tidy-check:
	$(SAY) "tidy: import layers, sizes, documentation, links, types on six platforms"
	@$(GO) test -vet=off -count=1 ./internal/tidy

# Each test runs once: those of packages that start goroutines or synchronize under the race
# detector, with the invariant checks, and all others without, among them those that leave the
# race run by testutil.SkipUnderRace or SlowUnderRace. `check` has vetted everything and has run
# tidy.
unit: ## tests of packages without goroutines, and those that the race detector would disturb
	$(SAY) "tests without the race detector"
	@set -e; packages=$$(tools/tests.sh plain); rest=$$(tools/tests.sh norace); \
		$(GO) test -vet=off -timeout 30m $$rest; \
		$(GO) test -vet=off -timeout 30m $$packages

# A program under the race detector sleeps for a second at its end, unless GORACE says otherwise.
race: ## all other tests, under the race detector and with the invariant checks
	$(SAY) "tests under the race detector, with invariant checks"
	@set -e; packages=$$(tools/tests.sh race); \
		GORACE="atexit_sleep_ms=0 $$GORACE" \
		$(GO) test -vet=off -race -tags invariants -timeout 30m $$packages

fuzz: ## every fuzz target in turn, TIME=30s each; a failing input stays in testdata/fuzz
	$(SAY) "fuzzing every target for $(TIME)"
	@tools/fuzz.sh $(TIME)

stress: ## all tests under the race detector, and in full, with random seeds, TIME=30s
	$(SAY) "stress for $(TIME)"
	@tools/stress.sh $(TIME)

# Needs what `race` needs, the modules of engine/sql/crosscheck, and, for real file systems,
# root on Linux. However short TIME is, a round of stress and canary have no shorter form.
nightly: ## all tests in full: stress, fuzz, sql-check, powercut, canary, and cross; TIME=30s
	@MAKE='$(MAKE)' tools/nightly.sh $(TIME)

sql-check: ## the query language beside SQLite, on generated queries
	$(SAY) "queries beside SQLite"
	@cd engine/sql/crosscheck && $(GO) test -count=1 -v -timeout 0 .

sqllogictest: ## the corpus of sqllogictest; DIR=<its folder test>, FLAGS="-files 4"
	@test -n '$(DIR)' || { echo "make $@ DIR=<folder>: the corpus is not part of kstone;" \
		"get one from https://www.sqlite.org/sqllogictest"; exit 1; }
	@cd engine/sql/sqllogictest && $(GO) test -count=1 . && $(GO) run . $(FLAGS) '$(abspath $(DIR))'

oracles: ## queries that check each other over random tables, with new seeds, TIME=30s
	$(SAY) "oracles for $(TIME)"
	@bash -c '. tools/lib.sh; KSTONE_SEED=$$(new_seed) KSTONE_ORACLES=$(TIME) \
		$(GO) test -tags invariants -count=1 -v -timeout 0 -run "^TestOracles$$" ./engine/sql'

clients: ## sqlx, goose, GORM, squirrel, sqlc and bun over the driver of database/sql, and OpenTelemetry
	$(SAY) "clients of database/sql"
	@cd engine/sql/driver/clients && $(GO) test -count=1 .
	$(SAY) "OpenTelemetry"
	@cd engine/monitor/otel && $(GO) test -count=1 .

# Why not in `make test`: it downloads the code of other engines.
migrate-check: ## readers of other engines, and adapters for interfaces of others, each a module
	$(SAY) "what comes from elsewhere"
	@set -e; for module in cmd/kstone-cli/kstone-cli-migrate engine/adapters/ethdb \
		engine/adapters/datastore; do echo "  $$module"; \
		(cd $$module && $(GO) vet ./... && $(GO) test -race -count=1 ./...); done

console-check: ## the console in a real browser, Chromium, which it does not install; a module of its own
	@command -v chromium chromium-browser google-chrome headless-shell >/dev/null || { \
		echo "make $@ needs Chromium or Chrome in PATH: on Debian, apt-get install chromium"; exit 1; }
	$(SAY) "the console in a browser"
	@cd engine/console/browser && $(GO) test -count=1 .

test-stores: ## stores on other machines, each a module; installs nothing, says what is missing
	$(SAY) "stores on other machines, with the race detector"
	@GO='$(GO)' tools/test-stores.sh

test-tikv: ## the same over a real cluster; TIKV=tikv://host:2379/NAME, a database that may be emptied
	@test -n '$(TIKV)' || { echo "make $@ TIKV=tikv://HOST:PORT/NAME: see docs/stores.md"; exit 1; }
	@cd engine/store/tikv && KSTONE_TIKV='$(TIKV)' $(GO) test -count=1 -v -run '^TestRealCluster$$' .
	@KSTONE_TIKV='$(TIKV)' GO='$(GO)' tools/test-tables.sh tikv

# Why not in `make test`: it downloads the libraries and generators, and takes two minutes.
compare: ## the same program with kstone, bstore, ent, GORM and sqlc: answers, lines, mistakes, speed
	$(SAY) "generate what ent and sqlc need, and compare"
	@cd engine/table/typed/compare && $(GO) run \
		entgo.io/ent/cmd/ent@v0.14.5 generate --feature sql/modifier ./testdata/ent/schema
	@cd engine/table/typed/compare/testdata/sqlc && CGO_ENABLED=0 $(GO) run \
		github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate
	@cd engine/table/typed/compare && $(GO) test -count=1 -tags generated . \
		-page ../../../../docs/tables.md

soak: ## full load on a disk: memory, descriptors, stalls and debts stay bounded, TIME=30m
	$(SAY) "soak for $(TIME)"
	@KSTONE_SOAK=$(TIME) $(GO) test -count=1 -v -timeout 0 -run '^TestSoak$$' ./engine

CYCLES ?= 100
powercut: ## power cuts, failing syncs, full disks on real ext4 and XFS (root, Linux), CYCLES=100
	$(SAY) "real file systems, $(CYCLES) cycles each"
	@KSTONE_POWERCUT_CYCLES=$(CYCLES) $(GO) test -count=1 -v -timeout 120m ./internal/powercut

canary: ## break one promise after the other in a copy, and see a test fail for each
	$(SAY) "planted bugs: each must be caught by its test"
	@KSTONE_CANARY=1 $(GO) test -count=1 -v -timeout 60m ./internal/canary

# A mutant may ask for any memory: the limit keeps it from that of others.
SEED ?= 1
N    ?= 60
mutants: ## change N places drawn by SEED, and list the changes that no test notices; PKG=./wal
	@mkdir -p build
	@ulimit -v 16000000; $(GO) run ./internal/mutants -seed $(SEED) -n $(N) \
		-out build/mutants-$(SEED).jsonl $(filter-out ./...,$(PKG))

scale: ## ten million items: times and memory, as docs/limits.md quotes; minutes, 4 GB of disk
	@KSTONE_SCALE=10000000 $(GO) test -count=1 -v -timeout 60m -run '^TestScale' ./engine ./internal/planregret

ROWS ?= 200000
plan-regret: ## generated queries beside every index hint: what plans read too much; ROWS=200000
	@KSTONE_REGRET_ROWS=$(ROWS) $(GO) test -count=1 -v -timeout 60m ./internal/planregret

golden: ## rewrite the golden files and show what changed
	@tools/golden.sh

bench: ## Go benchmarks; BENCH=regexp COUNT=n PKG=./sst
	@$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG)

bench-compare: ## compare the benchmarks of REF=<commit> with the working tree (benchstat)
	@tools/bench-compare.sh '$(REF)' '$(BENCH)' '$(PKG)'

# The benchmark against other databases is a module of its own, cmd/kstone-bench, and in
# none of the targets above. PEERS=-tags=rocksdb,lmdb adds the two that need cgo and the
# packages librocksdb-dev and liblmdb-dev. FULL="-skip bbolt/stall" passes flags on.
PEERS ?=
FULL  ?=
BENCH_OUT = -out build/$@.jsonl -page build/$@.md -charts build/$@-charts && echo "build/$@.md"

bin/kstone-bench: FORCE
	@mkdir -p bin build
	@cd cmd/kstone-bench && $(GO) build $(PEERS) -o ../../bin/kstone-bench .
FORCE:

bench-check: ## vet and test the modules of the comparison with other databases
	@cd cmd/kstone-bench && $(GO) vet $(PEERS) ./... && $(GO) test $(PEERS) ./...
	@cd cmd/kstone-bench/ycsb && $(GO) vet . && $(GO) test .

bench-quick: bin/kstone-bench ## compare with other databases, 200,000 records, minutes
	@bin/kstone-bench -quick $(BENCH_OUT)

bench-full: bin/kstone-bench ## the same in full: 2 million records, every chain, a night
	@bin/kstone-bench $(FULL) $(BENCH_OUT)

cover: ## test coverage by package, and build/coverage.html
	@mkdir -p build
	@$(GO) test -coverprofile=build/cover.out -coverpkg=./... ./...
	@$(GO) tool cover -func=build/cover.out | tail -1
	@$(GO) tool cover -html=build/cover.out -o build/coverage.html

clean: ## remove build output
	rm -rf bin build
