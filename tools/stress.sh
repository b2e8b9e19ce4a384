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
# once TEST ENV... runs a test of the engine in full, without the race detector.
once() {
	local test=$1
	shift
	if ! out=$(env "$@" go test -count=1 -timeout 0 -run "^$test\$" ./engine 2>&1); then
		echo "$out"
		exit 1
	fi
	echo "  $test in full ok"
}
# Each goes through everything there is, or runs at its full size, once.
once TestCorruptionMatrix KSTONE_CORRUPTION=full
once 'Test(Reads|Writes)ThatLieAreNoticed' KSTONE_LIES=full
once TestSwampsDryUp KSTONE_SWAMP=1000000
once TestProgramsUnderAllOptions KSTONE_PROGRAM_OPS=10000
once TestPowerCutAtEveryOperation KSTONE_POWERCUT_EVERY=1
round=0
while [ $SECONDS -lt $end ]; do
	round=$((round + 1))
	if ! out=$(go test -race -tags invariants -count=1 -timeout 60m $packages 2>&1); then
		echo "$out"
		exit 1
	fi
	echo "  round $round ok, $((end > SECONDS ? end - SECONDS : 0)) s left"
done
