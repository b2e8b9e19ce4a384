package small

import (
	"fmt"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// Figures of a record: what is left in the directory, and times over the openings, median and
// tenth percentile: the latter says more on a machine that is busy with other work.
const (
	files     = "files"
	bytes     = "bytes"   // sizes of the files
	reserve   = "reserve" // of these, space that is reserved for a full disk
	millis    = "_ms"
	lowMillis = "_low_ms"
)

// stepNames are the steps of an opening; what is put are its items, in one commit.
var stepNames = []string{"open", "put", "close"}

// Kind is the page.
var Kind = report.Kind{Tables: []string{"small"}, Notes: "set-up", Body: body}

// body writes a table for each case.
func body(p *report.Page) {
	columns := []report.Column{
		{Head: "files", Of: func(_ report.Cell, r result.Record) string {
			return fmt.Sprintf("%.0f", r.Figures[files])
		}},
		{Head: "bytes", Of: func(_ report.Cell, r result.Record) string {
			text := fmt.Sprintf("%.0f", r.Figures[bytes])
			if v := r.Figures[reserve]; v > 0 {
				text += fmt.Sprintf(", %.0f of them reserved", v)
			}
			return text
		}}}
	for _, step := range stepNames {
		columns = append(columns, report.Column{Head: step + ", ms",
			Of: func(_ report.Cell, r result.Record) string {
				return fmt.Sprintf("%.2f, %.2f", r.Figures[step+lowMillis], r.Figures[step+millis])
			}})
	}
	p.Printf("Times are the tenth percentile and the median.\n\n")
	for _, row := range p.Rows {
		p.Printf("## %s\n\n", row)
		p.List([]report.Row{row}, columns...)
	}
}
