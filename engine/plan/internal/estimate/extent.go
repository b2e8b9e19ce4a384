package estimate

import (
	"bytes"

	"github.com/kstonedb/kstone/engine/plan/internal/stats"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// extent is what the zones of files say about a column that no index begins with: the least and the
// greatest value as a histogram of one step, and whether there are NULLs. A share of the rows is
// unknown: those in memtables.
type extent struct {
	values  stats.Histogram
	nulls   bool
	unknown float64
	fine    bool // see isFine
}

// extentOf returns the extent of a column, nil if it is not known. It is asked once for a query.
func (e *Estimator) extentOf(ordinal int) *extent {
	if e.live == nil || !e.table.HasZone(ordinal) {
		return nil
	}
	id := columnList{table: e.table, ordinal: ordinal}
	x, ok := e.live.extents[id]
	if !ok {
		x = e.readExtent(ordinal)
		if e.live.extents == nil {
			e.live.extents = map[columnList]*extent{}
		}
		e.live.extents[id] = x
	}
	return x
}

// readExtent looks at files, and at blocks of those that older files lie beneath.
func (e *Estimator) readExtent(ordinal int) *extent {
	column := &e.table.Columns[ordinal]
	var least, most []byte
	x, seen, known := new(extent), false, true
	left, all, ok := e.live.counter.Left(e.table, nil, nil, nil, 0, func(c zone.Columns) bool {
		z, ok := c.Column(e.table.ZoneGroup(), uint64(column.ID))
		seen, known, x.nulls = true, known && ok, x.nulls || z.Nulls
		if z.Values && (least == nil || bytes.Compare(z.Min(), least) < 0) {
			least = bytes.Clone(z.Min())
		}
		if z.Values && bytes.Compare(z.Max(), most) > 0 {
			most = bytes.Clone(z.Max())
		}
		return false
	})
	if !ok || !seen || !known {
		return nil
	}
	if x.unknown = min(1, left/max(1, all)); least != nil {
		var head []byte
		if column.Nullable {
			head = keycodec.AppendNotNull(nil)
		}
		x.fine = isFine(least, most, spans.WidthOf(column.Type))
		most = append(most, 0xff) // values begin with it
		x.values.Bounds = [][]byte{append(head[:len(head):len(head)], least...),
			append(head[:len(head):len(head)], most...)}
	}
	return x
}

// fineSteps is how many steps of their last byte bounds that are cut are apart at least.
const fineSteps = 64

// isFine reports whether bounds, of values that take so many bytes, say where values between them
// are: those around zero have nothing in common, and are cut where they are next to each other.
func isFine(least, most []byte, width int) bool {
	n := min(len(least), len(most))
	steps := 0
	for i := 0; i < n && steps < fineSteps; i++ {
		steps = steps<<8 + int(most[i]) - int(least[i])
	}
	return n == width || steps >= fineSteps
}

// inExtent estimates a range of a column by its extent, if values lie evenly in their encodings.
func (e *Estimator) inExtent(ordinal int, b bounds) (f float64, ok bool) {
	x := e.extentOf(ordinal)
	if x == nil || !x.fine {
		return 0, false
	}
	switch t := e.table.Columns[ordinal].Type; {
	case t == keycodec.TypeTime, t == keycodec.TypeFixed, spans.WidthOf(t) > 0:
	default:
		return 0, false
	}
	key := &schema.Index{Columns: []schema.IndexColumn{{
		KeyColumn: schema.KeyColumn{Ordinal: ordinal}}}}
	lo, hi, ok := e.encodeBounds(make([]byte, 2*shortBytes), key, 0, b)
	if !ok {
		return 0, false
	}
	if !x.values.Outside(lo, hi) {
		f, _ = x.values.Fraction(lo, hi)
		f = max(f, 1/max(1, e.Values(ordinal)))
	}
	return (1-x.unknown)*f + x.unknown*DefaultRange, true
}

// nullsOf estimates the share of NULLs of a column by its extent: of those among values nothing is
// known.
func (e *Estimator) nullsOf(ordinal int) float64 {
	f := defaultNull
	if x := e.extentOf(ordinal); x != nil && len(x.values.Bounds) == 0 {
		f += (1 - x.unknown) * (1 - f)
	} else if x != nil && !x.nulls {
		f *= x.unknown
	}
	return f
}
