package present

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

const (
	// minCellCols is how narrow a column may become before the table is allowed to
	// be wider than the terminal.
	minCellCols = 8
	// maxCellCols is the widest cell where the width of the table is not limited.
	maxCellCols = 200
)

func allNumbers(cells [][]string, col int) bool {
	some := false
	for _, line := range cells {
		c := line[col]
		if c == "" || c == "⋮" || c == "NULL" {
			continue
		}
		if c[0] != '-' && (c[0] < '0' || c[0] > '9') || strings.Trim(c, "0123456789+-.eE") != "" {
			return false
		}
		some = true
	}
	return some
}

// fitColumns returns the widths of the columns: their own, with the widest cut down
// until the table fits.
func fitColumns(head []string, cells [][]string, width int) []int {
	widths := make([]int, len(head))
	for i := range head {
		widths[i] = runewidth.StringWidth(head[i])
		for _, line := range cells {
			widths[i] = max(widths[i], runewidth.StringWidth(line[i]))
		}
		widths[i] = min(widths[i], maxCellCols)
	}
	if width <= 0 {
		return widths
	}
	total := 1 // each column takes two spaces and a line
	for _, w := range widths {
		total += w + 3
	}
	for total > width {
		widest := 0
		for i := range widths {
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= minCellCols {
			break
		}
		widths[widest]--
		total--
	}
	return widths
}

// shorten cuts the middle out of text that is wider than width.
func shorten(s string, width int) string {
	if runewidth.StringWidth(s) <= width {
		return s
	}
	left := (width - 1 + 1) / 2
	head := runewidth.Truncate(s, left, "")
	tail := runewidth.TruncateLeft(s,
		runewidth.StringWidth(s)-(width-1-runewidth.StringWidth(head)), "")
	return head + "…" + tail
}

// leastWidth returns how wide a table is whose columns are as narrow as they may become.
func leastWidth(head []string, cells [][]string) int {
	total := 1
	for _, w := range fitColumns(head, cells, 0) {
		total += min(w, minCellCols) + 3
	}
	return total
}
