package estimate

import (
	"bytes"
	"encoding/binary"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// Counter counts roughly what is in a table now. Implementations may be called concurrently.
type Counter interface {
	// Rows returns the number of rows of a table; ok is false if it is not known.
	Rows(t *schema.Table) (n float64, ok bool)
	// Range returns the number of entries of an index, or of rows if it is nil, with keys from
	// lo on and below hi; a nil hi is no bound. All of them have the same values of so many
	// first columns. ok is false if it is not known.
	Range(t *schema.Table, x *schema.Index, lo, hi []byte, points int) (n float64, ok bool)
	// Left returns, in some partitions, how many of the rows, or entries, of a Range are in blocks
	// with such zones, or in none.
	Left(t *schema.Table, x *schema.Index, lo, hi []byte, points int,
		mayHold func(zone.Columns) bool) (left, all float64, ok bool)
}

// Live remembers what was counted for one query. Statistics say how values are distributed, and
// may be of another time, or there may be none; what a condition finds in an index can be looked
// up there, for some microseconds. It belongs to one goroutine.
type Live struct {
	counter Counter
	counts  map[string]float64
	left    int
	key     []byte
	common  map[[2]listID]expr.In // what lists have in common
	shares  map[columnList]float64
	extents map[columnList]*extent // of columns, without a list
}

const (
	// maxCounted bounds the ranges that are counted for a query.
	maxCounted = 200
	// maxCountedItems bounds the items of a list that are counted: others are like them.
	maxCountedItems = 64
	// leastCounted is how many rows a table has to have for ranges to be counted. Of smaller
	// ones any plan is fast. Without statistics they are expected to grow to defaultRows.
	leastCounted = 1000
	// maxDrift is up to which factor the number of rows may have changed since statistics were
	// made for them to be taken for fresh.
	maxDrift = 1.4
	// surelyFew is how many integers a range may have whose rows are not counted.
	surelyFew = 64
)

// NewLive returns the memory of a query; nil without a counter.
func NewLive(c Counter) *Live { return new(Live).Begin(c) }

// Begin makes l the memory of a query and returns it; nil without a counter.
func (l *Live) Begin(c Counter) *Live {
	if c == nil {
		return nil
	}
	*l = Live{counter: c, left: maxCounted}
	return l
}

// WithLive lets the estimator count ranges where that is worth it.
func (e *Estimator) WithLive(l *Live) *Estimator {
	if l == nil || e.table == nil {
		return e
	}
	n, ok := l.counter.Rows(e.table)
	few := n < leastCounted
	switch {
	case !ok:
		return e
	case e.stats != nil && e.stats.Rows > maxDrift*n: // however few are left
		e.rows = max(1, n)
	case few:
	case e.stats == nil:
		e.rows = max(n, defaultRows)
	case n > maxDrift*e.stats.Rows:
		e.rows = n
	}
	if !few {
		e.live = l
	}
	return e
}

// refreshed returns the estimator for another time.
func (e *Estimator) refreshed(count bool) Estimator {
	out := *e
	if e.live != nil {
		out.live, out.rows = nil, 0
		out.WithLive(NewLive(e.live.counter))
		if out.rows == 0 && !count {
			out.live = nil
		}
	}
	return out
}

// growth is how many times as many rows there are as when the statistics were made.
func (e *Estimator) growth() float64 {
	if e.rows == 0 || e.stats == nil {
		return 1
	}
	return e.rows / max(1, e.stats.Rows)
}

// counted returns the share of the entries of a key that are in a range.
func (e *Estimator) counted(x *schema.Index, lo, hi []byte, points int) (f float64, ok bool) {
	l := e.live
	if l == nil {
		return 0, false
	}
	id := uint32(0)
	if x != nil {
		id = x.ID
	}
	key := binary.LittleEndian.AppendUint32(l.key[:0], e.table.ID)
	key = binary.LittleEndian.AppendUint32(key, id)
	key = append(key, byte(points))
	key = binary.LittleEndian.AppendUint32(key, uint32(len(lo)))
	begin := len(key)
	l.key = append(append(key, lo...), hi...)
	n, known := l.counts[string(l.key)]
	if !known {
		if l.left == 0 {
			return 0, false
		}
		l.left--
		// The copies, so that callers may have their bounds on the stack.
		end := begin + len(lo)
		from, to := l.key[begin:end:end], []byte(nil)
		if hi != nil {
			to = l.key[end:len(l.key):len(l.key)]
		}
		if n, ok = l.counter.Range(e.table, x, from, to, points); !ok {
			n = -1
		}
		if l.counts == nil {
			l.counts = map[string]float64{}
		}
		l.counts[string(l.key)] = n
	}
	if n < 0 {
		return 0, false
	}
	entries := max(n, e.Entries(x))
	return max(n, leastFound) / entries, true
}

// leastFound stands for nothing: entries may come after they were counted.
const leastFound = 0.1

// Left returns the share of the entries of an index, or of the rows, in some spans that are read if
// blocks are tested for their zones: all of them if that is not known.
func (e *Estimator) Left(x *schema.Index, in []spans.Span,
	mayHold func(zone.Columns) bool) float64 {
	if e.live == nil {
		return 1
	}
	left, all := 0.0, 0.0
	for _, s := range in {
		l, n, ok := e.live.counter.Left(e.table, x, s.Lo, s.Hi, s.Points, mayHold)
		if !ok {
			return 1
		}
		left, all = left+l, all+n
	}
	return min(1, left/max(1, all))
}

// Counts reports whether it counts what is there.
func (e *Estimator) Counts() bool { return e.live != nil }

// Vague reports whether nothing is known of where the rows are that satisfy terms: there are no
// statistics, or fewer than one such row is expected in the sample that they are of.
func (e *Estimator) Vague(terms []expr.Expr) bool {
	if e.stats == nil {
		return true
	}
	n := e.stats.Sampled
	return n > 0 && float64(n)*e.Selectivity(terms) < 1
}

// Fresh reports whether there are statistics, and of about the rows that there are.
func (e *Estimator) Fresh() bool { return e.stats != nil && e.rows == 0 }

// countedValue returns the share of the entries whose first column has a value.
func (e *Estimator) countedValue(x *schema.Index, value []byte) (f float64, ok bool) {
	if e.live == nil {
		return 0, false
	}
	hi, _ := keycodec.PrefixEnd(nil, value)
	return e.counted(x, value, hi, 1)
}

// countedPrefix returns the share of the entries whose first columns have values.
func (e *Estimator) countedPrefix(x *schema.Index, n int, equals equalities) (f float64, ok bool) {
	if e.live == nil {
		return 0, false
	}
	key, ok := e.prefix(nil, x, n, equals)
	if !ok {
		return 0, false
	}
	hi, _ := keycodec.PrefixEnd(nil, key)
	return e.counted(x, key, hi, n)
}

// prefix appends the values of the first columns of a key.
func (e *Estimator) prefix(key []byte, x *schema.Index, n int, equals equalities) ([]byte, bool) {
	for i := range n {
		operand, ok := equals.of(keyColumn(e.table, x, i).Ordinal)
		if !ok {
			return nil, false
		}
		v, known := e.known(operand)
		var room [shortBytes]byte
		b, ok := e.encode(room[:0], x, i, v)
		if !known || !ok {
			return nil, false
		}
		key = append(key, b...)
	}
	return key, true
}

// countedRange returns the share of the entries with values of the first columns and a range of
// the next one.
func (e *Estimator) countedRange(x *schema.Index, n int, equals equalities, b bounds) (f float64,
	ok bool) {
	if e.live == nil || b.loOpen || b.hiOpen || n >= keyLen(e.table, x) {
		return 0, false
	}
	var room [2 * shortBytes]byte
	lo, hi, ok := e.encodeBounds(room[:], x, n, b)
	if !ok {
		return 0, false
	}
	lo, hi = e.withoutNulls(x, n, lo, hi)
	if n == 0 {
		return e.counted(x, lo, hi, 0)
	}
	head, ok := e.prefix(nil, x, n, equals)
	if !ok {
		return 0, false
	}
	end, _ := keycodec.PrefixEnd(nil, head)
	if hi != nil {
		end = append(bytes.Clone(head), hi...)
	}
	return e.counted(x, append(head, lo...), end, n)
}

// withoutNulls takes NULLs, which no comparison is true of, out of a range of column i of a key.
func (e *Estimator) withoutNulls(x *schema.Index, i int, lo, hi []byte) (lo2, hi2 []byte) {
	null, ok := e.null(x, i)
	switch {
	case !ok:
	case lo == nil && bytes.Compare(null, hi) < 0:
		lo, _ = keycodec.PrefixEnd(nil, null)
	case hi == nil && bytes.Compare(null, lo) > 0:
		hi = null
	}
	return lo, hi
}

// null returns NULL as column i of a key holds it.
func (e *Estimator) null(x *schema.Index, i int) (b []byte, ok bool) {
	column := keyColumn(e.table, x, i)
	if !e.table.Columns[column.Ordinal].Nullable {
		return nil, false
	}
	field := e.table.Columns[column.Ordinal].Field(column)
	return schema.AppendKeyField(nil, &field, expr.Value{})
}
