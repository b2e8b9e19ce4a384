#!/usr/bin/env bash
# Runs every fuzz target of the module in turn.
#
#   tools/fuzz.sh 30s     each target for 30 seconds
#   tools/fuzz.sh smoke   half a minute in all, beside the builds
#
# Each package is built once with coverage instrumentation; `go test -fuzz` would
# link it again for every target. A failing input is written to the package's
# testdata/fuzz, where ordinary `go test` runs replay it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${1:?usage: tools/fuzz.sh TIME|smoke}
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
cache="$(go env GOCACHE)/fuzz/$(go list -m)"

# file:target of every fuzz target of this module; nested modules have their own.
mapfile -t targets < <(go list -f '{{.Dir}}' ./... | sed "s|^$PWD/||" |
	while read -r dir; do
		grep -Eos '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go /dev/null || true
	done | sed 's/:func /:/' | sort)
if [ ${#targets[@]} -eq 0 ]; then
	echo "no fuzz targets"
	exit 0
fi
if [ "$time" = smoke ]; then
	time=$((30000 / ${#targets[@]}))ms
fi

# run DIR TARGET fuzzes one target.
run() {
	(cd "$1" && "$bin/fuzz.test" -test.run '^$' -test.fuzz "^$2\$" \
		-test.fuzztime "$time" -test.fuzzminimizetime 5s \
		-test.fuzzcachedir "$cache/$1") >"$bin/log" 2>&1
}

built=
for t in "${targets[@]}"; do
	dir=$(dirname "${t%%:*}")
	name=${t##*:}
	if [ "$dir" != "$built" ]; then
		go test -c -fuzz=Fuzz -o "$bin/fuzz.test" "./$dir"
		built=$dir
	fi
	printf '  %-50s %s\n' "$dir $name" "$time"
	if run "$dir" "$name"; then
		continue
	fi
	# A busy machine can miss the end of the time (golang.org/issue/48591): no
	# input has failed then, and a second try tells.
	if grep -q 'Failing input' "$bin/log" || ! grep -q 'deadline exceeded' "$bin/log" ||
		! run "$dir" "$name"; then
		cat "$bin/log"
		exit 1
	fi
done
echo "${#targets[@]} fuzz targets, $time each: ok"
