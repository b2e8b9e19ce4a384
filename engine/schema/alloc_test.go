package schema_test

import (
	"math"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/testutil"
)

// six is a table of six columns, as many programs have it.
const six = `{"id":1,"name":"orders","columns":[{"name":"user","type":"string"},
	{"name":"at","type":"time","unit":"ms"},{"name":"id","type":"uuid"},
	{"name":"amount","type":"fixed","scale":2},{"name":"status","type":"string","nullable":true},
	{"name":"seq","type":"int64"}],"primary_key":["user"],"sort_key":["at","id"],
	"indexes":[{"name":"by_status","columns":["status",{"column":"at","desc":true}],
	"include":["amount"]}]}`

func sixRow() []expr.Value {
	return []expr.Value{expr.String("USR_12345"), expr.Time(time.Unix(1_800_000_000, 5e6)),
		expr.UUID([16]byte{1, 2, 3}), expr.Scaled(123_45, 2), expr.String("paid"), expr.Int(7)}
}

func TestHotPathsAllocateNothing(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	table, row := parse(t, six), sixRow()
	key, value := keyOf(t, table, row), valueOf(t, table, row)
	x := table.Indexes[0]
	entry := entriesOf(t, x, row)[0]
	pk, sk, buf := make([]byte, 0, 256), make([]byte, 0, 256), make([]byte, 0, 256)
	dst, amount := table.Row(), schema.Columns(3)
	var set schema.Entries
	var changes schema.Changes
	changed := sixRow()
	changed[4] = expr.String("sent")
	for name, f := range map[string]func() error{
		"AppendRow": func() error { _, err := table.AppendRow(buf, row); return err },
		"AppendRowKey": func() error {
			_, _, err := table.AppendRowKey(pk, sk,
				row)
			return err
		},
		"Decode":          func() error { return table.Decode(dst, key, value, nil) },
		"Decode 1 column": func() error { return table.Decode(dst, key, value, &amount) },
		"DecodeEntry": func() error {
			_, _, err := x.DecodeEntry(dst, buf, entry.SK, entry.Value, nil)
			return err
		},
		"AppendEntries": func() error {
			set.Reset()
			return x.AppendEntries(&set, key, row)
		},
		"Compute": func() error { return table.Compute(&changes, key, row, changed, false) },
	} {
		n := testutil.AllocsPerRun(100, func() {
			ok(t, f())
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkRow(b *testing.B) {
	table, row := parse(b, six), sixRow()
	key, value := keyOf(b, table, row), valueOf(b, table, row)
	buf, pk, sk := make([]byte, 0, 256), make([]byte, 0, 256), make([]byte, 0, 256)
	dst, amount := table.Row(), schema.Columns(3)
	x := table.Indexes[0]
	var set schema.Entries
	entry := entriesOf(b, x, row)[0]
	// The time of the fastest of many short rounds: what it takes where nothing else gets in
	// between.
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			const ops = 256
			least := time.Duration(math.MaxInt64)
			for b.Loop() {
				start := time.Now()
				for range ops {
					ok(b, f())
				}
				least = min(least, time.Since(start))
			}
			b.ReportMetric(float64(least)/ops, "best-ns/op")
			b.ReportMetric(0, "ns/op")
		})
	}
	run("encode", func() error { _, err := table.AppendRow(buf, row); return err })
	run("encode-key", func() error { _, _, err := table.AppendRowKey(pk, sk, row); return err })
	run("decode", func() error { return table.Decode(dst, key, value, nil) })
	run("decode-one", func() error { return table.Decode(dst, key, value, &amount) })
	run("entry", func() error { set.Reset(); return x.AppendEntries(&set, key, row) })
	run("decode-entry", func() error {
		_, _, err := x.DecodeEntry(dst, buf, entry.SK, entry.Value, nil)
		return err
	})
}
