// Package compare has the same program over three tables written with several libraries, to count
// lines and measure queries: see docs/tables.md. It is a module of its own, so that programs with
// kstone do not get them.
//
// Those with the build tag generated need code that `make compare` writes first.
package compare
