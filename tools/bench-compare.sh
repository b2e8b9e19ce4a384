#!/usr/bin/env bash
# Runs the same benchmarks on a commit and on the working tree, in turns so that a
# drifting machine hits both alike, and compares them with benchstat.
#
#   tools/bench-compare.sh REF [REGEXP] [PACKAGES]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ref=${1:-}
if [ -z "$ref" ]; then
	echo "usage: make bench-compare REF=<commit> [BENCH=regexp] [PKG=./sst]" >&2
	exit 2
fi
bench=${2:-.}
pkg=${3:-./...}
rounds=${ROUNDS:-6}

tmp=$(mktemp -d)
trap 'git worktree remove --force "$tmp/ref" >/dev/null 2>&1; rm -rf "$tmp"' EXIT
git worktree add --quiet --detach "$tmp/ref" "$ref"
mkdir -p build
: >build/bench-ref.txt
: >build/bench-new.txt
for i in $(seq "$rounds"); do
	echo "round $i of $rounds"
	(cd "$tmp/ref" && go test -run '^$' -bench "$bench" -benchmem "$pkg") >>build/bench-ref.txt
	go test -run '^$' -bench "$bench" -benchmem "$pkg" >>build/bench-new.txt
done
go tool -modfile=tools/go.mod benchstat "$ref=build/bench-ref.txt" tree=build/bench-new.txt
