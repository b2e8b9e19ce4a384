#!/usr/bin/env bash
# Prints the packages to test under the race detector: those where the code or the tests
# start goroutines or synchronize. The others are functions of their arguments, or only
# read source (internal/tidy). The engine takes longest and comes first, so that it does
# not run alone at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

echo ./engine
go list -f '{{.Dir}}' ./... | grep -v '/internal/tidy$' | while read -r dir; do
	if grep -qE '^[[:space:]]*go [a-z]|\.Go\(|"sync(/atomic)?"' "$dir"/*.go; then
		echo "$dir"
	fi
done
