// Package api holds the exported API of the stable packages in files, testdata, so that a
// change of it is seen: the test fails until `make golden` has rewritten them. What may change
// is in docs/compatibility.md.
package api
