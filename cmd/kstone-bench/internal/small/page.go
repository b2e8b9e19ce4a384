package small

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
)

// Read reads raw output.
func Read(in io.Reader) (meta report.Meta, rows []Row, err error) {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return meta, nil, fmt.Errorf("raw output is empty: %w", io.ErrUnexpectedEOF)
	}
	var head struct{ Meta report.Meta }
	if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
		return meta, nil, fmt.Errorf("first line of raw output: %w", err)
	}
	for lines.Scan() {
		var r Row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return meta, nil, fmt.Errorf("raw output: %w", err)
		}
		rows = append(rows, r)
	}
	return head.Meta, rows, lines.Err()
}

// WritePage writes the generated part of a page.
func WritePage(file string, meta report.Meta, rows []Row) error {
	var text bytes.Buffer
	Markdown(&text, meta, rows)
	return report.UpdatePage(file, text.Bytes())
}

// Markdown writes a table of each case.
func Markdown(w io.Writer, meta report.Meta, rows []Row) {
	fmt.Fprintf(w, "%s, %d cores, Linux %s, %s, load at the start %s. Times are the tenth "+
		"percentile and the median.\n\n", meta.CPU, meta.Cores, meta.Kernel, meta.Go, meta.Load)
	for _, c := range contestants {
		fmt.Fprintf(w, "- %s: %s\n", c.name, c.settings)
	}
	last := Case{}
	for _, r := range rows {
		if c := (Case{r.Items, r.Opens}); c != last {
			last = c
			fmt.Fprintf(w, "\n## %d items by %d openings\n\n", c.Items, c.Opens)
			fmt.Fprint(w, "| | files | bytes | open, ms | put, ms | close, ms |\n",
				"|---|---|---|---|---|---|\n")
		}
		reserve := ""
		if r.Reserve > 0 {
			reserve = fmt.Sprintf(", %d of them reserved", r.Reserve)
		}
		fmt.Fprintf(w, "| %s | %d | %d%s | %s | %s | %s |\n", r.Database, r.Files, r.Bytes, reserve,
			r.Open, r.Put, r.Close)
	}
}

// String returns the tenth percentile and the median.
func (t Time) String() string { return fmt.Sprintf("%.2f, %.2f", t.Low, t.Median) }
