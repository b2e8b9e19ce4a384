#!/usr/bin/env bash
# The modules of engine/store and engine/ship, and the program with all of them, each with its
# tests, beside what they share and what they implement; then tables and statements over each.
# What measures runs without the race detector. Servers come from the machine: a test that finds
# none is skipped, and says what to install.
set -u
cd "$(dirname "$0")/.."
go=${GO:-go} failed=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for module in engine/store engine/store/*/ engine/ship/s3 cmd/kstone-cli/kstone-cli-stores; do
	module=${module%/}
	[ "$module" = engine/store ] || [ -f "$module/go.mod" ] || continue
	echo "  $module"
	if ! (cd "$module" && "$go" vet ./... && "$go" test -race -count=1 -v ./... &&
		"$go" test -vet=off -count=1 -run '^(TestPlainClient|TestLongScan)$' ./...) \
		>"$out" 2>&1; then
		grep -avE '^ *(=== |--- PASS|--- SKIP)' "$out"
		failed=1
		continue
	fi
	skipped=$(grep -c '^--- SKIP' "$out")
	if [ "$skipped" -gt 0 ]; then
		echo "    $skipped tests skipped:"
		grep -B1 '^--- SKIP' "$out" | sed -n 's/^ *[^ ]*_test.go:[0-9]*: /      /p' | sort -u
	fi
done
tools/test-tables.sh tikv etcd postgres || failed=1
exit $failed
