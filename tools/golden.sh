#!/usr/bin/env bash
# Rewrites expected outputs and shows the difference: datadriven scripts take
# -rewrite, tests that declare an `update` flag take -update. Review the diff before
# committing it; files of an old format version are never rewritten.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# dirs_with prints the package folders whose tests contain a pattern.
dirs_with() {
	go list -f '{{.Dir}}' ./... | sed "s|^$PWD/||" | while read -r dir; do
		if grep -Eqs "$1" "$dir"/*_test.go; then echo "$dir"; fi
	done
}
for d in $(dirs_with '^	"github.com/cockroachdb/datadriven"$'); do
	go test -count=1 "./$d" -rewrite
done
for d in $(dirs_with 'flag\.Bool\("update"'); do
	go test -count=1 "./$d" -update
done
git --no-pager diff --stat -- '*testdata*' docs/promises.md
