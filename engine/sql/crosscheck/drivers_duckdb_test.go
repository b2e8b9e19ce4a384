//go:build cgo && unix && duckdb

package crosscheck

import (
	"fmt"
	"runtime"

	_ "github.com/duckdb/duckdb-go/v2" // the driver "duckdb", with a library of 70 MB
)

// DuckDB has as many threads as kstone has processors. Its sums are big integers.
func init() {
	peers = append(peers, peer{driver: "duckdb",
		set:    fmt.Sprintf("SET threads = %d", runtime.GOMAXPROCS(0)),
		values: func() any { return new(any) }})
}
