#!/usr/bin/env bash
# Runs the tests with random seeds until the time is over, at least one round: all tests of the
# layers below the command line under the race detector, with three times the effort of `make
# test`, then those that know an effort in full, package by package.
#
#   tools/stress.sh 10m
#
# KSTONE_SEED=n repeats the random numbers of a run that has failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/lib.sh

time=${1:?usage: tools/stress.sh TIME}
end=$((SECONDS + $(seconds "$time")))
packages=$(go list -f '{{.Dir}}' ./... | sed "s|^$PWD|.|" | grep -vE '/cmd/|/tidy$|/testdata$')
sized=$(find $packages -maxdepth 1 -name '*_test.go' -exec grep -l 'testutil\.Effort' {} + |
	xargs -n 1 dirname | sort -u)

# A round runs to its end, whatever fails in it.
failed=0
while [ $failed = 0 ]; do
	seeded "race detector" env KSTONE_EFFORT=3 \
		go test -race -tags invariants -count=1 -timeout 120m $packages || failed=1
	for package in $sized; do
		seeded "$package in full" env KSTONE_EFFORT=nightly \
			go test -count=1 -timeout 0 "$package" || failed=1
	done
	if [ $SECONDS -ge $end ]; then
		break
	fi
done
exit $failed
