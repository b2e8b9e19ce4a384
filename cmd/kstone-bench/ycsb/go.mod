module github.com/kstonedb/kstone/cmd/kstone-bench/ycsb

go 1.26.0

replace github.com/kstonedb/kstone => ../../..

replace github.com/kstonedb/kstone/cmd/kstone-bench => ..

require (
	github.com/kstonedb/kstone v0.0.0-00010101000000-000000000000
	github.com/kstonedb/kstone/cmd/kstone-bench v0.0.0-00010101000000-000000000000
	github.com/magiconair/properties v1.18.13
	github.com/pingcap/go-ycsb v1.0.3
)

require (
	github.com/AndreasBriese/bbloom v0.0.0-20180913140656-343706a395b7 // indirect
	github.com/FastFilter/xorfilter v0.5.1 // indirect
	github.com/HdrHistogram/hdrhistogram-go v1.1.2 // indirect
	github.com/boltdb/bolt v1.3.1 // indirect
	github.com/clipperhouse/uax29/v2 v2.7.0 // indirect
	github.com/dgraph-io/badger v1.5.4 // indirect
	github.com/dgryski/go-farm v0.0.0-20190423205320-6a90982ecee2 // indirect
	github.com/golang/protobuf v1.5.3 // indirect
	github.com/google/btree v1.1.3 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/mattn/go-runewidth v0.0.31 // indirect
	github.com/olekukonko/tablewriter v0.0.5 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/pingcap/errors v0.11.5-0.20211224045212-9687c2b0f87c // indirect
	github.com/pkg/errors v0.9.1 // indirect
	go.uber.org/atomic v1.9.0 // indirect
	golang.org/x/net v0.27.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	google.golang.org/protobuf v1.36.7 // indirect
)
