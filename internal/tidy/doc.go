// Package tidy holds no code, only tests about the source tree as a whole: which
// package may import which, how long files, functions and lines may get, what has to
// be documented, which calls are reserved to which layer, how long the documents may get,
// and that links in them lead somewhere.
//
// Each rule is a function from sources to findings, so that planted_test.go can show
// every rule a violation and see it complain. To make an exception, add it to the
// list beside the rule, with the reason.
package tidy
