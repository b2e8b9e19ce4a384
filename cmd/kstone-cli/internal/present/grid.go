package present

import (
	"bufio"
	"io"
)

// Grid writes a table of any text, cells fitted to o.Width. The first columns, left of them,
// are never taken for numbers.
func Grid(w io.Writer, head []string, rows [][]string, left int, o Options) error {
	out := bufio.NewWriter(w)
	p := &boxPainter{w: out, o: o, style: roundBox, keys: left}
	p.begin(head, rows)
	for _, row := range rows {
		p.row(row)
	}
	p.end()
	return out.Flush()
}
