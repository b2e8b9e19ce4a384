module github.com/kstonedb/kstone/keycodec/crosscheck

go 1.26.0

replace github.com/kstonedb/kstone => ../..

// The tuple layer of FoundationDB's client, without the client: see fdb.sh.
replace github.com/apple/foundationdb/bindings/go => ./testdata/fdb

require (
	github.com/apple/foundationdb/bindings/go v0.0.0-00010101000000-000000000000
	github.com/google/orderedcode v0.0.1
	github.com/kstonedb/kstone v0.0.0
	github.com/tikv/client-go/v2 v2.0.4
	pgregory.net/rapid v1.3.0
)

require github.com/pkg/errors v0.9.1 // indirect
