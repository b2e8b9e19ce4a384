#!/usr/bin/env bash
# The tests of tables and statements over the storage of back ends, beside the same over the engine,
# all of them at the same time:
#
#   tools/test-tables.sh tikv etcd postgres
#
# Left out is what is about the engine: its files, crashes, zones, samples, allocations; and scripts
# with plans, or with rows in no order, which are other ones here.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# run PACKAGE BINARY EFFORT TESTS
run() {
	local begun=$SECONDS out
	out=$(mktemp -p "$work")
	if (cd "$1" && KSTONE_EFFORT=$3 "$2" -test.timeout 30m -test.v -test.run "^($4)\$") \
		>"$out" 2>&1; then
		echo "    $1: $((SECONDS - begun)) s"
		grep -aoE '_test.go:[0-9]+: ([0-9]+ predicates|\{writes|\|| *no PostgreSQL).*' "$out" |
			sed 's/^[^ ]* /      /' | sort -u
	else
		grep -avE '^ *(=== |--- PASS|--- SKIP)' "$out" | tail -100
		touch "$work/failed"
	fi
}

tables=TestTablesAreTheModel'|TestProcessesShareOneSchema|TestBuildIsTakenOver'
tables+='|TestUniqueBetweenProcesses|TestWritersBehind.*|TestReadersBehind.*|TestLeaseEnds'
tables+='|TestN.*OfSeveralProcesses|TestUniqueIsExactAmongGoroutines|TestUpsert.*'
tables+='|TestUniqueValuesMoveBetweenRows'

# over BACKEND
over() {
	local backend=$1 package bin=$work/$1
	mkdir "$bin"
	for package in engine/table engine/sql; do
		tools/store-tests.sh "$backend" "$package" "$bin/$(basename "$package")" || return 1
	done
	run engine/table "$bin/table" "${QUERIES:-4}" TestQueriesAgreeWithEveryOtherWay &
	run engine/table "$bin/table" 1 "$tables" &
	run engine/sql "$bin/sql" 1 'TestRandomStatements|TestOracles|TestRoundTrips' &
	wait
}

# Back ends wait for their servers most of the time, so they run beside each other.
for backend in "$@"; do
	{ over "$backend" || touch "$work/failed"; } >"$work/$backend.out" 2>&1 &
done
wait
for backend in "$@"; do
	echo "  tables and statements over $backend"
	cat "$work/$backend.out"
done
! [ -e "$work/failed" ]
