//go:build cgo && unix

package crosscheck

import _ "github.com/mattn/go-sqlite3" // the driver "sqlite3", in C

func init() {
	peers = append(peers,
		peer{driver: "sqlite3", dsn: "file::memory:", set: "SELECT 1", values: raw})
}
