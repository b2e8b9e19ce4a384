//go:build sqlite && cgo

package tables

import (
	"slices"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3", in C
)

func init() {
	c := engine{name: "sqlite cgo", module: "github.com/mattn/go-sqlite3",
		open: opener("sqlite3"), tuning: "As sqlite, with the library in C."}
	engines = slices.Insert(engines, 2, c)
}
