package keys

import (
	"context"
	"fmt"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// Settings say how long to measure.
type Settings struct {
	CodecRounds int // one takes less than a millisecond
	Repeat      int // rounds of the database
	Records     int // at least 100, so that every user has one
}

// Full are the settings of the measurements in the documents.
func Full() *Settings { return &Settings{CodecRounds: 2001, Repeat: 9, Records: 10_000} }

// Quick takes a tenth of the rounds.
func (s *Settings) Quick() { s.CodecRounds, s.Repeat = 201, 1 }

// Check returns an error if a number makes no sense.
func (s *Settings) Check() error {
	if s.CodecRounds < 1 || s.Repeat < 1 || s.Records < users {
		return fmt.Errorf("-codec-repeat %d -repeat %d -n %d: want at least 1, 1 and %d",
			s.CodecRounds, s.Repeat, s.Records, users)
	}
	return nil
}

// Meta describes the machine and the codecs.
func (s *Settings) Meta() result.Meta {
	m := result.NewMeta("keys")
	m.Rounds, m.Records, m.ValueBytes = s.Repeat, uint64(s.Records), payloadBytes
	for _, c := range others {
		m.Describe(c.name, c.module, "")
	}
	return m
}

// Run measures. It uses one goroutine; databases are in memory.
func (s *Settings) Run(ctx context.Context, emit func(result.Record) error) error {
	if err := measureCodecs(ctx, s.CodecRounds, emit); err != nil {
		return err
	}
	if err := emit(specification); err != nil {
		return err
	}
	return measureDatabase(ctx, s.Records, s.Repeat, emit)
}

// Tables.
const (
	tableCodecs   = "codecs"
	tableDatabase = "database"
)

// Figures, after the name of an operation.
const (
	figNanos  = "_ns"
	figRatio  = "_ratio" // of its time to that of the first codec: the median of the rounds
	figRate   = "_per_second"
	figBytes  = "_bytes" // allocated by one
	figAllocs = "_allocs"
	keyBytes  = "key_bytes"
)

// Kind is the page.
var Kind = report.Kind{Tables: []string{tableCodecs, tableDatabase}, Body: body}

func body(p *report.Page) {
	codecs := p.In(tableCodecs)
	p.Printf("## Codecs\n\n(string, int64 ms, UUID), medians of rounds of %d operations; B/op and "+
		"objects are allocated.\n\n", opsPerTurn)
	columns := []report.Column{whole("bytes", keyBytes)}
	for _, op := range []string{"encode", "decode"} {
		columns = append(columns, report.Value(op+" ns", op+figNanos, 1),
			report.Value("ratio", op+figRatio, 1), whole("B/op", op+figBytes),
			whole("objects", op+figAllocs))
	}
	p.List(codecs, columns...)
	if len(codecs) > 0 && !p.Has(report.Cell{Row: codecs[0], Engine: fdbName}) {
		p.Printf("FoundationDB's tuple layer is left out: it needs -tags fdb, after " +
			"keycodec/crosscheck/fdb.sh has fetched it.\n\n")
	}
	p.Printf("## Records in memory\n\n")
	columns = nil
	for _, op := range operations {
		columns = append(columns, report.Value(op+"/s", op+figRate, 1), whole("B/op", op+figBytes))
	}
	p.List(p.In(tableDatabase), append(columns, report.Column{Head: "µs a scan",
		Of: func(_ report.Cell, r result.Record) string {
			return report.Number(1e6 / r.Figures["scans"+figRate])
		}})...)
}

// whole is a column of a figure where 0 is a good one.
func whole(head, name string) report.Column { return report.Text(head, "%.0f", name) }
