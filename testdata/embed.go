// Package testdata holds the bundled data sets for programs that have to run without
// the source tree around them. See README.md for their content and licences.
package testdata

import _ "embed" // for the directive

// Cities is cities.jsonl.gz. Do not modify it.
//
//go:embed cities.jsonl.gz
var Cities []byte
