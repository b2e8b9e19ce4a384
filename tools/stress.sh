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
# Once, and without the race detector: nothing in it is random.
KSTONE_CORRUPTION=full go test -count=1 -timeout 60m -run TestCorruptionMatrix ./engine
round=0
while [ $SECONDS -lt $end ]; do
	round=$((round + 1))
	if ! out=$(go test -race -tags invariants -count=1 -timeout 60m $packages 2>&1); then
		echo "$out"
		exit 1
	fi
	echo "  round $round ok, $((end > SECONDS ? end - SECONDS : 0)) s left"
done
