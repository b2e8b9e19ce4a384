#!/usr/bin/env bash
# The modules of engine/store and engine/ship, and the program with all of them, each with its
# tests, beside what they share and what they implement; then tables and statements over each.
# What measures runs without the race detector. Servers come from the machine: a test that finds
# none is skipped, and says what to install.
set -u
cd "$(dirname "$0")/.."
go=${GO:-go}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check MODULE
check() {
	local out=$work/${1//\//-}.tests begun=$SECONDS skipped
	if ! (cd "$1" && "$go" vet ./... && "$go" test -race -count=1 -v ./... &&
		"$go" test -vet=off -count=1 -run '^(TestPlainClient|TestLongScan)$' ./...) \
		>"$out" 2>&1; then
		grep -avE '^ *(=== |--- PASS|--- SKIP)' "$out"
		return 1
	fi
	skipped=$(grep -c '^--- SKIP' "$out")
	echo "    $((SECONDS - begun)) s, $skipped tests skipped"
	grep -B1 '^--- SKIP' "$out" | sed -n 's/^ *[^ ]*_test.go:[0-9]*: /      /p' | sort -u
}

# Two at a time: most of their tests wait for a server.
modules=(engine/store)
for module in engine/store/*/ engine/ship/s3 cmd/kstone-cli/kstone-cli-stores; do
	[ -f "$module/go.mod" ] && modules+=("${module%/}")
done
running=0
for module in "${modules[@]}"; do
	if [ $running = 2 ]; then
		wait -n
		running=1
	fi
	{ check "$module" || touch "$work/failed"; } >"$work/${module//\//-}" &
	running=$((running + 1))
done
wait
for module in "${modules[@]}"; do
	echo "  $module"
	cat "$work/${module//\//-}"
done
tools/test-tables.sh tikv etcd postgres || touch "$work/failed"
! [ -e "$work/failed" ]
