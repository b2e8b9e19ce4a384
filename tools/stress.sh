#!/usr/bin/env bash
# Runs the tests with random seeds until the time is over: all tests of the layers below the
# command line in full under the race detector, with more kills and power cuts than `make
# test`, then single tests at sizes that take minutes, and again from the beginning. What has
# begun is finished, so that a short time means one round under the race detector.
#
#   tools/stress.sh 10m
#
# KSTONE_SEED=n repeats the random numbers of a run that has failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/lib.sh

time=${1:?usage: tools/stress.sh TIME}
end=$((SECONDS + $(seconds "$time")))
packages=$(go list ./... | grep -vE '/cmd/|/tidy$|/testdata$')

race() {
	seeded "race detector, everything in full" \
		env KSTONE_CRASH_RUNS=20 KSTONE_TORTURE_FOR=60s \
		go test -race -tags invariants -count=1 -timeout 90m $packages
}

# full PACKAGE TEST SETTING... runs a test at a size that the settings give.
full() {
	local package=$1 test=$2
	shift 2
	seeded "$test with $*" env "$@" go test -count=1 -timeout 0 -run "^$test\$" "$package"
}

# More than a million queries are in it: 600,000 conditions against the whole table, 100,000
# random queries with up to four choices of indexes and joins each, 15,000 conditions asked in
# some 17 ways each, and random statements over a table with and without indexes.
steps=(
	"race"
	"full ./engine TestProgramsUnderAllOptions KSTONE_PROGRAM_OPS=10000"
	"full ./engine TestPowerCutsOfTheWholeEngine KSTONE_POWERCUT_RUNS=200"
	"full ./engine TestPowerCutAtEveryOperation KSTONE_POWERCUT_EVERY=1"
	"full ./engine TestCorruptionMatrix KSTONE_CORRUPTION=full"
	"full ./engine Test(Reads|Writes)ThatLieAreNoticed KSTONE_LIES=full"
	"full ./engine TestSwampsDryUp KSTONE_SWAMP=1000000"
	"full ./engine/plan TestSpansAgainstFullScan KSTONE_PLAN_RUNS=600000"
	"full ./engine/plan TestQueriesMatchOracle KSTONE_PLAN_WORLDS=1000"
	"full ./engine/exec TestRandomQueries KSTONE_QUERY_RUNS=100000"
	"full ./engine/table TestQueriesAgreeWithEveryOtherWay KSTONE_QUERY_RUNS=15000"
	"full ./engine/table TestPowerCutsLeaveIndexesWhole KSTONE_TABLE_CRASHES=100"
	"full ./engine/sql TestRandomStatements KSTONE_SQL_WORLDS=400"
	"full ./engine/sql TestMutatedStatements KSTONE_SQL_MUTATIONS=100000"
)
n=0
while [ $n = 0 ] || [ $SECONDS -lt $end ]; do
	set -f # the patterns of tests are none of files
	${steps[n % ${#steps[@]}]}
	set +f
	n=$((n + 1))
done
if [ $n -lt ${#steps[@]} ]; then
	echo "  no time for $((${#steps[@]} - n)) of ${#steps[@]} steps"
fi
