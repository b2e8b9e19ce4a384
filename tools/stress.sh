#!/usr/bin/env bash
# Repeats all tests of the layers below the command line under the race detector, with
# fresh seeds and more kills, power cuts and random programs than `make test`, until the
# time is over. A failing run prints its seed.
#
#   tools/stress.sh 10m
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${1:?usage: tools/stress.sh TIME}
case $time in
*h) seconds=$((${time%h} * 3600)) ;;
*m) seconds=$((${time%m} * 60)) ;;
*) seconds=${time%s} ;;
esac
export KSTONE_CRASH_RUNS=20 KSTONE_TORTURE_FOR=60s
packages=$(go list ./... | grep -vE '/cmd/|/tidy$|/testdata$')
end=$((SECONDS + seconds))
# once PACKAGE TEST ENV... runs a test in full, without the race detector.
once() {
	local package=$1 test=$2
	shift 2
	if ! out=$(env "$@" go test -count=1 -timeout 0 -run "^$test\$" "$package" 2>&1); then
		echo "$out"
		exit 1
	fi
	echo "  $test in full ok"
}
# Each goes through everything there is, or runs at its full size, once.
once ./engine TestCorruptionMatrix KSTONE_CORRUPTION=full
once ./engine 'Test(Reads|Writes)ThatLieAreNoticed' KSTONE_LIES=full
once ./engine TestSwampsDryUp KSTONE_SWAMP=1000000
once ./engine TestProgramsUnderAllOptions KSTONE_PROGRAM_OPS=10000
once ./engine TestPowerCutAtEveryOperation KSTONE_POWERCUT_EVERY=1
# More than a million queries: 600,000 conditions against the whole table, 100,000 random
# queries with up to four choices of indexes and joins each, 15,000 conditions asked in some
# 17 ways each, and random statements over a table with and without indexes.
once ./engine/plan TestSpansAgainstFullScan KSTONE_PLAN_RUNS=600000
once ./engine/exec TestRandomQueries KSTONE_QUERY_RUNS=100000
once ./engine/table TestQueriesAgreeWithEveryOtherWay KSTONE_QUERY_RUNS=15000
once ./engine/sql TestRandomStatements KSTONE_SQL_WORLDS=400
round=0
while [ $SECONDS -lt $end ]; do
	round=$((round + 1))
	if ! out=$(go test -race -tags invariants -count=1 -timeout 60m $packages 2>&1); then
		echo "$out"
		exit 1
	fi
	echo "  round $round ok, $((end > SECONDS ? end - SECONDS : 0)) s left"
done
