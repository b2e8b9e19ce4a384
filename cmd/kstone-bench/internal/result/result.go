// Package result keeps measurements: records, as JSON lines after a line that says where and
// how they were taken.
package result

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// Record holds the figures of one engine in one round of one case.
type Record struct {
	Table      string  `json:"table"` // a chain of workloads, or a group of cases
	Case       string  `json:"case"`
	Engine     string  `json:"engine"`
	Goroutines int     `json:"goroutines,omitempty"`
	Round      int     `json:"round"`
	Figures    Figures `json:"figures,omitempty"`
	// Error is set instead of the figures if the case failed.
	Error string `json:"error,omitempty"`
}

// Figures are values by names that end in their units. A figure that is absent is 0.
type Figures map[string]float64

// The figures of chains. Latencies of reads are sampled, one in 8; those of writes are not.
const (
	Ops       = "ops" // or rows
	Seconds   = "seconds"
	PerSecond = "per_second"

	// CPU is processor time of the whole process per operation while the work runs,
	// SettledCPU until background work is done too.
	CPU        = "cpu_ns_per_op"
	SettledCPU = "settled_cpu_ns_per_op"

	// RestSeconds and RestBytes are what a workload that writes leaves to be done: the time from
	// its end until the process is idle, with 0.3 s of idleness, and what it writes then.
	RestSeconds = "rest_seconds"
	RestBytes   = "rest_bytes"

	P50  = "p50_us"
	P99  = "p99_us"
	P999 = "p999_us"
	Max  = "max_us" // of several rounds: the largest

	// UserBytes are keys and values given to the engine, WrittenBytes what the process then
	// makes dirty until it settles.
	UserBytes    = "user_bytes"
	WrittenBytes = "written_bytes"
	DiskBytes    = "disk_bytes"
	LiveBytes    = "live_bytes"
	PeakRSSBytes = "peak_rss_bytes"
)

// The figures of objects and bytes that Go allocates for an operation.
const (
	Allocs         = "allocs_per_op"
	AllocatedBytes = "bytes_per_op"
)

// Subject is the engine whose ratios to the others are reported, Harness the one that does
// nothing.
const (
	Subject = "kstone"
	Harness = "harness"
)

// Second ends the name of a peer with other settings. Reports have the better of both.
const Second = "-small"

// String names the row with its figures.
func (r Record) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "round %d, %s: %s: %s", r.Round+1, r.Table, r.Case, r.Engine)
	if r.Goroutines > 1 {
		fmt.Fprintf(&b, " ×%d", r.Goroutines)
	}
	if r.Error != "" {
		b.WriteString(" failed: " + r.Error)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
		fmt.Fprintf(&b, ", %s %.4g", name, r.Figures[name])
	}
	return b.String()
}

// Writer writes raw output.
type Writer struct {
	enc     *json.Encoder
	records int
}

// line is a line of raw output: what a run is about, one of its records, or the number of them,
// which ends it.
type line struct {
	Meta *Meta `json:"meta,omitempty"`
	*Record
	End *int `json:"end,omitempty"`
}

// NewWriter starts raw output with m.
func NewWriter(w io.Writer, m Meta) (*Writer, error) {
	out := &Writer{enc: json.NewEncoder(w)}
	out.enc.SetEscapeHTML(false)
	m.Ends = true
	return out, out.enc.Encode(line{Meta: &m})
}

// Add writes one record through.
func (w *Writer) Add(r Record) error {
	w.records++
	return w.enc.Encode(line{Record: &r})
}

// End says that nothing is missing.
func (w *Writer) End() error { return w.enc.Encode(line{End: &w.records}) }

// Run is one measurement: the records that share a Meta.
type Run struct {
	Meta    Meta
	Records []Record
	// Torn is set if the end is missing: the program was stopped.
	Torn bool
}

// Read reads raw output, which may hold several runs, one after the other. A last line
// without its end is left out.
func Read(in io.Reader) (runs []Run, err error) {
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if err == io.EOF {
			if len(text) > 0 && len(runs) > 0 {
				runs[len(runs)-1].Torn = true
			}
			return runs, nil
		}
		if err == nil {
			runs, err = readLine(runs, text)
		}
		if err != nil {
			return nil, fmt.Errorf("raw output, line %d: %w", n, err)
		}
	}
}

func readLine(runs []Run, text []byte) ([]Run, error) {
	var l line
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return nil, err
	}
	if l.Meta != nil {
		return append(runs, Run{Meta: *l.Meta, Torn: l.Meta.Ends}), nil
	}
	if len(runs) == 0 {
		return nil, errors.New("a record before the first meta line")
	}
	run := &runs[len(runs)-1]
	switch r := l.Record; {
	case l.End != nil:
		if run.Torn = false; *l.End != len(run.Records) {
			return nil, fmt.Errorf("%d records of %d", len(run.Records), *l.End)
		}
	case r == nil || r.Table == "" || r.Case == "" || r.Engine == "" ||
		(r.Error == "") == (r.Figures == nil):
		return nil, errors.New("neither figures nor a failure of a case")
	case slices.ContainsFunc(run.Records, r.twice):
		return nil, fmt.Errorf("a second record of %s", r)
	default:
		run.Records = append(run.Records, *r)
	}
	return runs, nil
}

// twice reports whether two records are of the same turn.
func (r *Record) twice(o Record) bool {
	return r.Table == o.Table && r.Case == o.Case && r.Engine == o.Engine && r.Round == o.Round &&
		r.Goroutines == o.Goroutines
}

// ReadFiles reads files whose runs are of one kind, and from one machine with the same
// budgets, so that their figures may stand in one table.
func ReadFiles(names ...string) ([]Run, error) {
	var all []Run
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		runs, err := Read(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, runs...)
	}
	return all, sameConditions(all)
}

// sameConditions returns an error if runs cannot stand in one table.
func sameConditions(runs []Run) error {
	if len(runs) == 0 {
		return errors.New("no runs in raw output")
	}
	first := runs[0].Meta.conditions()
	for i, r := range runs[1:] {
		if c := r.Meta.conditions(); c != first {
			return fmt.Errorf("runs are from different machines or with different budgets: %+v "+
				"and %+v", first, c)
		}
		for _, o := range runs[:i+1] {
			if r.Meta.Time.Equal(o.Meta.Time) && slices.Equal(r.Meta.Command, o.Meta.Command) {
				return fmt.Errorf("the run that began at %v is there twice", r.Meta.Time)
			}
		}
	}
	return nil
}
