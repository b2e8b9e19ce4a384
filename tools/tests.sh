#!/usr/bin/env bash
# Divides the tests among the runs of `make test`, so that each runs once.
#
#   tools/tests.sh race      packages to test under the race detector
#   tools/tests.sh plain     the other packages
#   tools/tests.sh norace    arguments of go test for what the race run leaves out
#
# Under the race detector are packages whose code or tests start goroutines, or whose tests need
# the invariant checks. The others are used by one goroutine at a time, or tested under the race
# detector through those. Out of either is internal/tidy, which `make check` runs. The engine and
# its suite take longest and come first, so that they do not run alone at the end.
#
# The race run leaves out tests that call SkipUnderRace or SlowUnderRace of internal/testutil;
# tidy sees to it that the functions of the tests themselves do so, as found here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all() {
	local first='./engine/internal/suite
./engine'
	echo "$first"
	go list -f '{{.Dir}}' ./... | sed "s|^$PWD|.|" | grep -vxF "$first
./internal/tidy"
}

race() {
	local concurrent='^[[:space:]]*go [a-z]|\.Go\(|^//go:build invariants'
	for dir in $(all); do
		if grep -qE "$concurrent" "$dir"/*.go; then
			echo "$dir"
		fi
	done
}

plain() {
	all | grep -vxF "$(race)"
}

# skipping prints "PACKAGE TEST" for the tests of packages that the race run leaves out.
skipping() {
	for dir in $(race); do
		find "$dir" -maxdepth 1 -name '*_test.go' -exec awk -v dir="$dir" '
			/^func / { name = $2; sub(/\(.*/, "", name) }
			/^\t+testutil\.(Skip|Slow)UnderRace\(t, / { print dir, name }' {} +
	done | sort -u
}

case ${1:-} in
race | plain) "$1" ;;
norace)
	list=$(skipping)
	echo "-run ^($(cut -d ' ' -f 2 <<<"$list" | sort -u | paste -sd '|'))\$"
	cut -d ' ' -f 1 <<<"$list" | uniq
	;;
*)
	echo "usage: tools/tests.sh race|plain|norace" >&2
	exit 2
	;;
esac
