// Package canary plants bugs into a copy of the source. Each breaks a promise,
// and shows that the test named with it fails: a suite that a planted bug survives proves
// nothing. `make canary` runs it.
package canary
