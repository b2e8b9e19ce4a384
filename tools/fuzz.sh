#!/usr/bin/env bash
# Runs every fuzz target of the module in turn.
#
#   tools/fuzz.sh 30s     each target for 30 seconds
#
# Each package is built once with coverage instrumentation; `go test -fuzz` would
# link it again for every target. A failing input is written to the package's testdata/fuzz,
# where ordinary `go test` runs replay it, and the command that does is printed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${1:?usage: tools/fuzz.sh TIME}
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
mapfile -t dirs < <(for t in "${targets[@]}"; do dirname "./${t%%:*}"; done | sort -u)
for dir in "${dirs[@]}"; do # one at a time: the flag allows no more
	go test -vet=off -c -fuzz=Fuzz -o "$bin/$(basename "$dir").test" "$dir"
done

# run DIR TARGET fuzzes one target. A binary has the name of its directory.
run() {
	(cd "$1" && "$bin/$(basename "$1").test" -test.run '^$' -test.fuzz "^$2\$" \
		-test.fuzztime "$time" -test.fuzzminimizetime 5s \
		-test.fuzzcachedir "$cache/$1") >"$bin/log" 2>&1
}

# tries DIR TARGET fuzzes one target, again if need be: a busy machine can miss the end
# of the time (golang.org/issue/48591). No input has failed then, and another try tells.
tries() {
	for _ in 1 2 3; do
		if run "$1" "$2"; then
			return 0
		fi
		if grep -q 'Failing input' "$bin/log" || ! grep -q 'deadline exceeded' "$bin/log"; then
			return 1
		fi
	done
	return 1
}

for t in "${targets[@]}"; do
	dir=$(dirname "${t%%:*}")
	name=${t##*:}
	printf '  %-50s %s\n' "$dir $name" "$time"
	if ! tries "$dir" "$name"; then
		cat "$bin/log"
		input=$(sed -n 's|.*testdata/fuzz/\([^ ]*/[^ ]*\)$|\1|p' "$bin/log" | head -n 1)
		if [ -n "$input" ]; then
			echo "The input is $dir/testdata/fuzz/$input. Repeat with:"
			echo "  go test -count=1 -run '^${input%%/*}\$/^${input##*/}\$' ./$dir"
		fi
		exit 1
	fi
done
echo "${#targets[@]} fuzz targets, $time each: ok"
