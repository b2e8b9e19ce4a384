#!/usr/bin/env bash
# Prints the packages with files, tests aside, that belong to some platforms only: by
# their name, by a build tag, or as assembly.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

oses='linux|darwin|windows|unix'
go list -f '{{.Dir}}' ./... | while read -r dir; do
	files=$(find "$dir" -maxdepth 1 \( -name '*.go' -o -name '*.s' \) ! -name '*_test.go')
	if grep -qE "_($oses|amd64|arm64)\.go$|\.s$" <<<"$files" ||
		grep -qE "^//go:build.*\b($oses|amd64|arm64)\b" $files; then
		echo "$dir"
	fi
done
