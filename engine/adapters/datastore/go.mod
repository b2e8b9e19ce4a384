module github.com/kstonedb/kstone/engine/adapters/datastore

go 1.26.0

replace github.com/kstonedb/kstone => ../../..

require (
	github.com/ipfs/go-datastore v0.9.2
	github.com/kstonedb/kstone v0.0.0-00010101000000-000000000000
)

require (
	github.com/FastFilter/xorfilter v0.5.1 // indirect
	github.com/google/btree v1.1.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/ipfs/go-detect-race v0.0.1 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
