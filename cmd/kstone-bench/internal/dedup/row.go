package dedup

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
)

// Row is one figure: what a contestant took in a case.
type Row struct {
	Table      string  `json:"table"`
	Case       string  `json:"case"`
	Contestant string  `json:"contestant"`
	Rows       int     `json:"rows"`
	Segments   int     `json:"segments,omitempty"`
	Unit       string  `json:"unit"`
	Value      float64 `json:"value"` // median over the rounds
	// Ratio is the loop's figure divided by this one's, the median over the rounds.
	Ratio    float64 `json:"ratio,omitempty"`
	Positive float64 `json:"positive,omitempty"` // share of the keys called present
	Document float64 `json:"document,omitempty"` // what the study says
	// WantRatio is the least ratio, WantValue the largest value aimed at; 0 for none. They are
	// those of the aims for a run of this size, see judge.
	WantRatio float64 `json:"want_ratio,omitempty"`
	WantValue float64 `json:"want_value,omitempty"`
}

// Reached reports whether a row with an aim has reached it.
func (r *Row) Reached() bool {
	return (r.WantRatio == 0 || r.Ratio >= r.WantRatio) &&
		(r.WantValue == 0 || r.Value <= r.WantValue)
}

func (r *Row) hasAim() bool { return r.WantRatio != 0 || r.WantValue != 0 }

// writer writes raw output: the machine, then rows, each as soon as it is known.
type writer struct {
	out      *json.Encoder
	progress io.Writer
	rows     []Row
}

func newWriter(w, progress io.Writer, meta report.Meta) (*writer, error) {
	out := json.NewEncoder(w)
	return &writer{out: out, progress: progress}, out.Encode(map[string]report.Meta{"meta": meta})
}

func (w *writer) add(r Row) error {
	r.judge()
	w.rows = append(w.rows, r)
	ratio := ""
	if r.Ratio > 0 {
		ratio = fmt.Sprintf("  %.2f x", r.Ratio)
	}
	fmt.Fprintf(w.progress, "%s: %s: %s: %.4g %s%s\n", r.Table, r.Case, r.Contestant, r.Value,
		r.Unit, ratio)
	return w.out.Encode(r)
}

// Read reads raw output. Rows are judged by the aims of this program, not of the one that
// has measured them.
func Read(in io.Reader) (meta report.Meta, rows []Row, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for first := true; lines.Scan(); first = false {
		if first {
			var head struct{ Meta report.Meta }
			if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
				return meta, nil, fmt.Errorf("first line of raw output: %w", err)
			}
			meta = head.Meta
			continue
		}
		var r Row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return meta, nil, fmt.Errorf("raw output: %w", err)
		}
		r.judge()
		rows = append(rows, r)
	}
	return meta, rows, lines.Err()
}

// median sorts values. Of an even number it returns the upper of the two in the middle.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
