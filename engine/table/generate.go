package table

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// Numbers of identity columns.
//
// A counter that every insert changes would be one hot item, and a conflict of any two
// transactions. So a DB takes ranges of numbers: the catalogue has the end of the last one, durable
// before a number of it is given out, and what is left of a range when the process ends is never
// given out. A transaction that is rolled back leaves a gap, too. Ranges begin with one number and
// double, so that a process leaves out fewer numbers than it has taken.
//
// In shared storage a range begins where the last one of all processes ends.
//
// Writers may give numbers of their own, in any order. A commit with such a number raises the end
// above it first, so no number is ever made that a row has or had, unless another process has taken
// it before with a range that it has not used up.

// maxRange is how many numbers a range has at most: one durable commit for as many rows.
const maxRange = 1024

// numbers are those of a table.
type numbers struct {
	next atomic.Int64 // the next to give out; 0 is 1
	mu   mutex
	// Guarded by mu:
	end  int64 // the one in the catalogue: no number from it on was given out
	more int64 // numbers of the next range, without the one that is wanted
}

// storedNumbers is the item of the catalogue.
type storedNumbers struct {
	End int64 `json:"end"`
}

func (q *numbers) load(data []byte) error {
	var s storedNumbers
	if err := json.Unmarshal(data, &s); err != nil || s.End < 1 {
		return damaged("numbers of an identity", "a positive end", string(data))
	}
	q.end = s.End
	q.next.Store(s.End)
	return nil
}

// take returns the next number.
func (q *numbers) take(ctx context.Context, db *DB, id uint32) (int64, error) {
	if err := q.mu.lock(ctx); err != nil {
		return 0, err
	}
	defer q.mu.unlock()
	if db.fences > 0 && q.next.Load() >= q.end {
		if err := q.lease(ctx, db, id, 1); err != nil {
			return 0, err
		}
	}
	n := max(1, q.next.Load())
	if n == math.MaxInt64 {
		return 0, invalid("the numbers of the identity column are used up")
	}
	if err := q.raise(ctx, db, id, n+1); err != nil {
		return 0, err
	}
	q.next.Store(n + 1)
	return n, nil
}

// pass makes sure that n, which a row has that is about to be written, is not given out.
func (q *numbers) pass(ctx context.Context, db *DB, id uint32, n int64) error {
	if n < q.next.Load() || n < 1 {
		return nil
	}
	if err := q.mu.lock(ctx); err != nil {
		return err
	}
	defer q.mu.unlock()
	after := n
	if n < math.MaxInt64 {
		after++
	}
	if db.fences > 0 && after > q.end {
		return q.lease(ctx, db, id, after)
	}
	if err := q.raise(ctx, db, id, after); err != nil || after <= q.next.Load() {
		return err
	}
	q.next.Store(after)
	return nil
}

// raise stores an end from end on, if the present one is below it. Requires: mu.
func (q *numbers) raise(ctx context.Context, db *DB, id uint32, end int64) error {
	if end <= q.end {
		return nil
	}
	if end += q.more; end < 0 {
		end = math.MaxInt64
	}
	data, err := json.Marshal(storedNumbers{end})
	if err != nil {
		return err
	}
	var set store.WriteSet
	set.Put(catalogueKey(markNumbers, id), data)
	if err := db.saveCatalogue(ctx, &set); err != nil {
		return err
	}
	q.end, q.more = end, min(2*q.more+1, maxRange-1)
	return nil
}

// lease takes a range of the numbers that no process has taken, from next on, if so many were not
// taken before. Requires: mu.
func (q *numbers) lease(ctx context.Context, db *DB, id uint32, next int64) error {
	key := catalogueKey(markNumbers, id)
	for attempt := 0; ; attempt++ {
		taken, cond := storedNumbers{1}, store.Absent()
		raw, err := db.store.Get(ctx, nil, key)
		if err == nil {
			cond, err = store.ValueIs(raw), json.Unmarshal(raw, &taken)
		}
		if absent(err) != nil {
			return err
		}
		if next > 1 && next <= taken.End {
			return nil
		}
		from := max(next, taken.End)
		end := from + q.more + 1
		if end < from {
			end = math.MaxInt64
		}
		data, err := json.Marshal(storedNumbers{end})
		if err != nil {
			return err
		}
		set := store.WriteSet{Durability: store.Sync}
		set.PutIf(key, data, cond)
		err = db.store.Commit(ctx, &set)
		if err == nil {
			q.next.Store(from)
			q.end, q.more = end, min(2*q.more+1, maxRange-1)
			return nil
		}
		if !errors.Is(err, store.ErrConditionFailed) && !errors.Is(err, ErrConflict) {
			return err
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
}

// Generate puts values into those places of a row that are NULL and that their columns generate
// values for: see schema.Column.Generated. The values are used up, also if the row is not written.
func (t *Table) Generate(ctx context.Context, row []expr.Value) error {
	s := t.Schema()
	for i := range min(len(row), len(s.Columns)) {
		c := &s.Columns[i]
		if c.Generated == schema.NotGenerated || c.Dropped || c.Nullable || !row[i].IsNull() {
			continue // NULL is a value of a time that may be NULL
		}
		var err error
		if row[i], err = t.NextValue(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// NextValue returns a new value of a column that generates its values.
func (t *Table) NextValue(ctx context.Context, column int) (expr.Value, error) {
	s := t.Schema()
	if column < 0 || column >= len(s.Columns) {
		return expr.Value{}, invalid("there is no column %d", column)
	}
	c := &s.Columns[column]
	switch c.Generated {
	case schema.Identity:
		n, err := t.core.numbers.take(ctx, t.db, s.ID)
		if err != nil {
			return expr.Value{}, err
		}
		return c.Convert(expr.Int(n))
	case schema.RandomUUID:
		return expr.UUID(newUUID(t.db.opt.Clock())), nil
	case schema.CurrentTime:
		return c.Convert(expr.Time(t.db.opt.Clock()))
	}
	return expr.Value{}, invalid("column %s of %s does not generate its values", c.Name, s.Name)
}

// NextNumber returns the number that the next row without one gets in an identity column. In
// shared storage another process may take it before.
func (t *Table) NextNumber() int64 { return max(1, t.core.numbers.next.Load()) }

// SkipNumbers makes sure that an identity column gets no number below next.
func (t *Table) SkipNumbers(ctx context.Context, next int64) error {
	s := t.Schema()
	if s.IdentityColumn() < 0 {
		return invalid("table %s has no identity column", s.Name)
	}
	q := &t.core.numbers
	if err := q.mu.lock(ctx); err != nil {
		return err
	}
	q.more = 0 // exactly next, so that a dump of what a dump makes is the same
	q.mu.unlock()
	return q.pass(ctx, t.db, s.ID, next-1)
}

// newUUID returns a UUID of version 7 (RFC 9562, 5.7): 48 bits of milliseconds, 12 bits of the
// fraction of the millisecond, and 62 random bits.
func newUUID(at time.Time) (u [16]byte) {
	rand.Read(u[8:]) // it never fails
	ms := uint64(at.UnixMilli())
	fraction := uint64(at.Nanosecond()%1e6) << 12 / 1e6
	binary.BigEndian.PutUint64(u[:8], ms<<16|7<<12|fraction)
	u[8] = u[8]&0x3f | 0x80
	return u
}
