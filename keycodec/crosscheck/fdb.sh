#!/bin/sh
# Runs the cross-checks with FoundationDB's tuple layer among the peers. Its Go module is
# bound to a C library; the tuple package alone is not. This script takes that one file out
# of the module, as the Go proxy serves it, and puts it beside a stand-in for the client.
# After it, cmd/kstone-bench can be built with it, too: go build -tags fdb. Arguments are
# passed on to go test.
set -eu
cd "$(dirname "$0")"
version=v0.0.0-20260629183922-51e1c42eb9a8
target=testdata/fdb/src/fdb/tuple
if [ ! -f "$target/tuple.go" ]; then
	dir=$(cd "${TMPDIR:-/tmp}" &&
		go mod download -json "github.com/apple/foundationdb/bindings/go@$version" |
		sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
	mkdir -p "$target"
	cp "$dir/src/fdb/tuple/tuple.go" "$target/tuple.go"
	chmod u+w "$target/tuple.go"
	gofmt -w "$target/tuple.go" # the checks of the tree look at it, too
fi
exec go test -tags fdb "$@" .
