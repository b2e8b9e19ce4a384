package typed

import (
	"context"
	"sync"
	"time"

	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec"
)

// BufferOptions say when a Buffer writes. The zero value means the defaults.
type BufferOptions struct {
	// Rows is how many rows are written at once; 0 is 1000. They are one commit up to the
	// limits of Table.PutMany.
	Rows int
	// Delay is how long a row waits at most, for others to be written with; 0 is until there
	// are enough of them or until Flush.
	Delay time.Duration
}

// Buffer collects rows and writes many of them as one commit, which costs far less than a
// commit of each. Rows that are added are not seen before they are written, and are lost if
// the program ends before. Of rows with the same key only the last one is written. It may be
// used by any number of goroutines.
type Buffer[T any] struct {
	table *Table[T]
	db    *table.DB
	opt   BufferOptions

	mu    sync.Mutex
	rows  []T            // Guarded by mu
	byKey map[string]int // Guarded by mu; positions in rows
	key   getScratch     // Guarded by mu
	late  bool           // Guarded by mu; a write in the background has failed
	timer *time.Timer    // Guarded by mu; runs while there are rows
	batch int            // Guarded by mu; counts writes
}

// NewBuffer returns a buffer for rows of a table. Flush writes what is in it.
func NewBuffer[T any](db *table.DB, t *Table[T], o *BufferOptions) (*Buffer[T], error) {
	if _, err := t.bind(db); err != nil {
		return nil, err
	}
	b := &Buffer[T]{table: t, db: db, byKey: map[string]int{}}
	if o != nil {
		b.opt = *o
	}
	if b.opt.Rows < 0 || b.opt.Delay < 0 {
		return nil, invalid("a buffer of %d rows for %s", b.opt.Rows, b.opt.Delay)
	}
	if b.opt.Rows == 0 {
		b.opt.Rows = 1000
	}
	return b, nil
}

// Put adds a copy of a row, whose slices and pointers must not be changed until it is
// written. It writes all rows if there are enough, or if a write in the background has failed.
// After an error the row is not in the buffer; the others stay, and the next Put or Flush writes
// them.
func (b *Buffer[T]) Put(ctx context.Context, row *T) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.late {
		if err := b.write(ctx); err != nil {
			return err
		}
	}
	bound, err := b.table.bind(b.db)
	if err != nil {
		return err
	}
	isNew := b.table.makesKey(row)
	if !isNew {
		b.key.blank(len(bound.schema.Columns))
		b.table.fillKey(bound, b.key.row, row)
		key, err := b.key.key(bound.schema)
		if err != nil {
			return err
		}
		b.key.name = keycodec.AppendLengthPrefixed(b.key.name[:0], key)
		if i, ok := b.byKey[string(b.key.name)]; ok {
			b.rows[i] = *row
			return nil
		}
		b.byKey[string(b.key.name)] = len(b.rows)
	}
	b.rows = append(b.rows, *row)
	if n := len(b.rows); n >= b.opt.Rows {
		if err = b.write(ctx); err != nil {
			clear(b.rows[n-1:])
			b.rows = b.rows[:n-1]
			if !isNew {
				delete(b.byKey, string(b.key.name))
			}
		}
		return err
	}
	if len(b.rows) == 1 && b.opt.Delay > 0 {
		batch := b.batch
		b.timer = time.AfterFunc(b.opt.Delay, func() { b.expire(batch) })
	}
	return nil
}

// expire writes the rows of a batch that have waited long enough.
func (b *Buffer[T]) expire(batch int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.batch == batch {
		b.late = b.write(context.Background()) != nil
	}
}

// write writes all rows. They stay in the buffer on an error. Requires: b.mu is held.
func (b *Buffer[T]) write(ctx context.Context) error {
	if len(b.rows) == 0 {
		return nil
	}
	if _, err := b.table.PutMany(ctx, b.db, b.rows); err != nil {
		return err
	}
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	clear(b.rows)
	b.rows = b.rows[:0]
	clear(b.byKey)
	b.late = false
	b.batch++
	return nil
}

// Len returns how many rows wait.
func (b *Buffer[T]) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.rows)
}

// Flush writes all rows. After an error they stay in the buffer.
func (b *Buffer[T]) Flush(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.write(ctx)
}
