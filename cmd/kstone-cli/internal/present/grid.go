package present

import (
	"bufio"
	"io"
)

// Grid writes a table of any text, cells fitted to o.Width. The first columns, left of them,
// are never taken for numbers.
func Grid(w io.Writer, head []string, rows [][]string, left int, o Options) error {
	t := &tableWriter{w: bufio.NewWriter(w), o: o}
	t.draw(head, rows, left)
	return t.w.Flush()
}
