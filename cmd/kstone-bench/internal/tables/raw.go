package tables

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
)

// Sample is what one engine did in one turn.
type Sample struct {
	Group      string  `json:"group"`
	Case       string  `json:"case"`
	Engine     string  `json:"engine"`
	Goroutines int     `json:"goroutines"`
	Round      int     `json:"round"`
	Ops        int64   `json:"ops"` // of insertions: rows
	Seconds    float64 `json:"seconds"`
	Allocs     float64 `json:"allocs_per_op"`
	Bytes      float64 `json:"bytes_per_op"`
	Spread     *Spread `json:"spread,omitempty"`
}

// Spread says how the entries of an index lie in the 256 stripes of the database.
type Spread struct {
	Min    int64   `json:"min"`
	Median int64   `json:"median"`
	Max    int64   `json:"max"`
	Share  float64 `json:"busiest_share"` // of the busiest stripe in all entries
	Used   int     `json:"stripes_used"`
}

// rate is operations a second.
func (s *Sample) rate() float64 {
	if s.Seconds == 0 {
		return 0
	}
	return float64(s.Ops) / s.Seconds
}

// Result is everything that was measured, and where.
type Result struct {
	Meta    report.Meta
	Samples []Sample
}

// writer writes raw output: the machine, then samples, each as soon as it is known.
type writer struct {
	out      *json.Encoder
	progress io.Writer
	result   Result
}

func newWriter(w, progress io.Writer, meta report.Meta) (*writer, error) {
	out := &writer{out: json.NewEncoder(w), progress: progress, result: Result{Meta: meta}}
	out.out.SetEscapeHTML(false)
	return out, out.out.Encode(map[string]report.Meta{"meta": meta})
}

func (w *writer) add(s Sample) error {
	w.result.Samples = append(w.result.Samples, s)
	fmt.Fprintf(w.progress, "%d %s: %s, %d: %s: %.5g/s\n", s.Round, s.Group, s.Case, s.Goroutines,
		s.Engine, s.rate())
	return w.out.Encode(s)
}

// Read reads raw output. Of a line that is not complete, the last one, it says nothing.
func Read(in io.Reader) (*Result, error) {
	r := &Result{}
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if err == io.EOF {
			if n == 1 {
				return nil, fmt.Errorf("raw output without a first line: %w", io.ErrUnexpectedEOF)
			}
			return r, nil
		}
		if err != nil {
			return nil, err
		}
		if n == 1 {
			head := struct{ Meta *report.Meta }{&r.Meta}
			if err := json.Unmarshal(text, &head); err != nil {
				return nil, fmt.Errorf("raw output, line 1: %w", err)
			}
			continue
		}
		var s Sample
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, fmt.Errorf("raw output, line %d: %w", n, err)
		}
		r.Samples = append(r.Samples, s)
	}
}
