package large

import "github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"

// Kind is the page.
var Kind = report.Kind{Tables: []string{"large"}, Notes: "set-up", Body: body}

var sections = []struct{ title, figure string }{
	{"Bytes written by a load, by byte", loadWritten},
	{"Bytes written by overwriting, by byte", overWritten},
	{"Load, MB/s", loadRate},
	{"Overwriting, MB/s", overRate},
	{"Bytes on disk, by live byte", disk},
	{"Scan of all keys, ms", keysMillis},
	{"Read at random, µs of CPU, with the check of the value", getMicros},
}

// body writes a table for each figure.
func body(p *report.Page) {
	for _, s := range sections {
		p.Printf("## %s\n\n", s.title)
		p.Matrix(p.Rows, p.EnginesIn(p.Rows), report.Numbers(report.Key(s.figure, 1)))
	}
}
