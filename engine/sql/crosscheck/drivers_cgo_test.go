//go:build cgo && unix

package crosscheck

import _ "github.com/mattn/go-sqlite3" // the driver "sqlite3", in C

func init() { sqliteDrivers = append(sqliteDrivers, "sqlite3") }
