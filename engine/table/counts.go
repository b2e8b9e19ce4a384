package table

import (
	"bytes"
	"math"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// countsOf implements plan.Counter: planning asks how many entries conditions find.
type countsOf struct{ db *DB }

// counter returns what counts entries, nil if the store cannot.
func (db *DB) counter() plan.Counter {
	if _, ok := db.store.(store.Estimator); ok {
		return countsOf{db}
	}
	return nil
}

func (s countsOf) about(r store.Range, enough float64, parts int) (float64, error) {
	return s.db.store.(store.Estimator).CountAbout(r, enough, parts)
}

const (
	// Rows of a table are counted in as many stripes as have enoughRows, and again when a part
	// of them, countAgain, and some have been written since.
	enoughRows = 1000
	countAgain = 0.1
	countSlack = 20
	// Ranges that are spread over partitions are counted in enoughEntries of them, at most
	// spreadParts.
	enoughEntries = 64
	spreadParts   = 16
	allStripes    = 256
	// missedRows is how many rows may be in a range although no stripe that is looked at has any.
	missedRows = 4
)

// rowCount is a number of rows, and how many had been written when it was counted.
type rowCount struct {
	rows  float64
	again int64 // from how many written rows on to count again
}

// Rows implements plan.Counter.
func (s countsOf) Rows(t *schema.Table) (float64, bool) {
	core := s.db.tables.Load().byID[t.ID]
	if core == nil {
		return 0, false
	}
	written := core.fresh.written.Load()
	if c := core.counted.Load(); c != nil && written < c.again {
		return c.rows, true
	}
	rg := rowio.Rows(t)
	n, err := s.about(rg, enoughRows, allStripes)
	if err != nil {
		return 0, false
	}
	core.counted.Store(&rowCount{n, written + countSlack + int64(countAgain*n)})
	return n, true
}

// Range implements plan.Counter.
func (s countsOf) Range(t *schema.Table, x *schema.Index, lo, hi []byte, points int) (float64,
	bool) {
	if x == nil {
		return s.rows(t, lo, hi, points)
	}
	span := keycodec.Span{Start: lo, End: hi}
	first, step, ok := bucketsOf(x, lo, points, spreadParts)
	n, looked := 0.0, 0
	for b := first; ok && b < x.Buckets() && looked < spreadParts && n < enoughEntries; b += step {
		m, err := s.about(store.Partition(x.BucketPK(nil, b), span), enoughEntries, 1)
		if err != nil {
			return 0, false
		}
		n, looked = n+m, looked+1
	}
	if step < x.Buckets() { // the buckets that are not looked at are like the others
		n *= float64(x.Buckets()) / float64(looked)
	}
	return n, ok
}

// rows counts the rows of a range.
func (s countsOf) rows(t *schema.Table, lo, hi []byte, points int) (float64, bool) {
	rg, parts, ok := rowsIn(t, lo, hi, points)
	if !ok {
		return 0, false
	}
	n, err := s.about(rg, enoughEntries, parts)
	if parts > 1 {
		n = max(n, missedRows)
	}
	return n, err == nil
}

// rowsIn returns a range of rows, and in how many stripes it is looked at; ok is false if it is one
// row, or none.
func rowsIn(t *schema.Table, lo, hi []byte, points int) (rg store.Range, parts int, ok bool) {
	prefix := t.AppendRowPrefix(nil)
	from := append(prefix[:len(prefix):len(prefix)], lo...)
	if points < len(t.PK) {
		to, _ := keycodec.PrefixEnd(nil, prefix)
		if hi != nil {
			to = append(prefix[:len(prefix):len(prefix)], hi...)
		}
		return store.Interval(from, to), spreadParts, true
	}
	if len(t.SK) == 0 {
		return rg, 0, false
	}
	pk, start := spans.SplitFields(lo, t.SearchKey(nil).Fields[:len(t.PK)])
	span := keycodec.Span{Start: start}
	if bytes.HasPrefix(hi, pk) {
		span.End = hi[len(pk):]
	}
	return store.Partition(from[:len(prefix)+len(pk)], span), 1, true
}

// zonedParts is in how many stripes, or buckets, blocks are tested for their zones.
const zonedParts = 8

// Left implements plan.Counter.
func (s countsOf) Left(t *schema.Table, x *schema.Index, lo, hi []byte, points int,
	mayHold func(zone.Columns) bool) (left, all float64, ok bool) {
	if x == nil {
		return s.leftOfRows(t, lo, hi, points, mayHold)
	}
	first, step, ok := bucketsOf(x, lo, points, zonedParts)
	for b := first; ok && b < x.Buckets(); b += step {
		rg := store.Partition(x.BucketPK(nil, b), keycodec.Span{Start: lo, End: hi})
		n, err := s.about(rg, enoughEntries, 1)
		rg.MayHold = mayHold
		m, failed := s.about(rg, enoughEntries, 1)
		if err != nil || failed != nil {
			return 0, 0, false
		}
		left, all = left+m, all+n
	}
	return left, all, ok
}

// leftOfRows is Left for rows.
func (s countsOf) leftOfRows(t *schema.Table, lo, hi []byte, points int,
	mayHold func(zone.Columns) bool) (left, all float64, ok bool) {
	rg, parts, ok := rowsIn(t, lo, hi, points)
	if !ok {
		return 0, 0, false
	}
	var err error
	parts = min(parts, zonedParts)
	if lo == nil && hi == nil {
		all, ok = s.Rows(t)
	} else {
		all, err = s.about(rg, math.Inf(1), parts)
	}
	if !ok || err != nil {
		return 0, 0, false
	}
	rg.MayHold = mayHold
	left, err = s.about(rg, math.Inf(1), parts)
	return left, all, err == nil
}

// bucketsOf returns the bucket of a range, or the first one of about so many that stand for all,
// and how far the next one is: hashes spread entries evenly.
func bucketsOf(x *schema.Index, lo []byte, points, parts int) (first, step int, ok bool) {
	if x.Buckets() > 1 && x.Sharded() && points >= max(1, x.ShardColumns) {
		bucket, err := x.BucketOf(lo)
		return bucket, x.Buckets(), err == nil
	}
	return 0, max(1, x.Buckets()/parts), true
}
