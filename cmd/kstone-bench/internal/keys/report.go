package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"text/tabwriter"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
)

// Settings say how long to measure.
type Settings struct {
	Rounds         int // of the codecs; one takes less than a millisecond
	DatabaseRounds int
	Records        int // at least 100, so that every user has one
}

func (s Settings) validate() error {
	var errs []error
	for _, c := range []struct {
		name       string
		value, min int
	}{{"rounds", s.Rounds, 1}, {"db-rounds", s.DatabaseRounds, 1}, {"n", s.Records, users}} {
		if c.value < c.min {
			errs = append(errs, fmt.Errorf("-%s is %d, it has to be %d at least", c.name, c.value,
				c.min))
		}
	}
	return errors.Join(errs...)
}

// Result is everything that was measured, and where.
type Result struct {
	Meta          report.Meta      `json:"meta"`
	Rounds        int              `json:"codec_rounds"`
	Codecs        []CodecResult    `json:"codecs"`
	Database      []DatabaseResult `json:"database"`
	Specification DatabaseResult   `json:"specification"`
}

// Run measures. It uses one goroutine; databases are in memory.
func Run(ctx context.Context, s Settings) (*Result, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	r := &Result{Meta: report.NewMeta(nil), Rounds: s.Rounds, Specification: specification}
	r.Meta.Repeats, r.Meta.Records, r.Meta.ValueBytes = s.DatabaseRounds, uint64(s.Records),
		payloadBytes
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			for _, c := range others {
				if c.module == d.Path {
					r.Meta.Versions[c.name] = d.Version
				}
			}
		}
	}
	var err error
	if r.Codecs, err = measureCodecs(ctx, s.Rounds); err != nil {
		return nil, err
	}
	r.Database, err = measureDatabase(ctx, s.Records, s.DatabaseRounds)
	return r, err
}

// WriteJSON writes the result as one JSON object.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the result as tables.
func (r *Result) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(format string, args ...any) { fmt.Fprintf(t, format+"\t\n", args...) }
	m := r.Meta
	fmt.Fprintf(w, "%s, %d cores, load %s, %s, commit %s\n\n", m.CPU, m.Cores, m.Load, m.Go,
		m.Commit)
	fmt.Fprintf(w, "(string, int64 ms, UUID), medians of %d rounds of %d operations:\n\n", r.Rounds,
		opsPerTurn)
	line("codec\tbytes\tencode ns\tratio\tB/op\tallocs\tdecode ns\tratio\tB/op\tallocs")
	hasFDB := false
	for _, c := range r.Codecs {
		hasFDB = hasFDB || c.Name == fdbName
		line("%s\t%d\t%.1f\t%.2f\t%.0f\t%.0f\t%.1f\t%.2f\t%.0f\t%.0f", c.Name, c.KeyBytes,
			c.Encode.NS, c.Encode.Ratio, c.Encode.Bytes, c.Encode.Allocs,
			c.Decode.NS, c.Decode.Ratio, c.Decode.Bytes, c.Decode.Allocs)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if !hasFDB {
		fmt.Fprintln(w, "\nFoundationDB's tuple layer is left out: it needs -tags fdb, after"+
			" keycodec/crosscheck/fdb.sh has fetched it.")
	}
	fmt.Fprintf(w, "\n%d records in memory, medians of %d rounds:\n\n", m.Records, m.Repeats)
	line("\twrites/s\tB/op\tlookups/s\tB/op\tprefix scans/s\tB/op\tµs a scan")
	for _, d := range append([]DatabaseResult{r.Specification}, r.Database...) {
		line("%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f", d.Name, d.Writes.PerSecond,
			d.Writes.Bytes, d.Lookups.PerSecond, d.Lookups.Bytes, d.Scans.PerSecond, d.Scans.Bytes,
			1e6/d.Scans.PerSecond)
	}
	return t.Flush()
}
