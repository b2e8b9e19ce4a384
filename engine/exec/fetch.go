package exec

import (
	"fmt"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

const (
	// Batches of rows that are fetched begin small, for queries that end early, and double.
	minFetch = 32
	maxFetch = 512
	// usualFetch is how many keys the first memory of a list is for.
	usualFetch = 16
)

// fetcher collects keys of rows and reads the rows in batches, in the order of the keys.
type fetcher struct {
	*runner
	table  *schema.Table
	index  string
	actual *plan.Actual

	first int // the size of the first batch
	size  int // when a batch is full
	keys  []store.Key
	arena []byte // what the keys refer to
}

func newFetcher(r *runner, t *schema.Table, index string, actual *plan.Actual) *fetcher {
	first := r.firstBatch(minFetch, maxFetch)
	return &fetcher{runner: r, table: t, index: index, actual: actual, first: first, size: first}
}

func (f *fetcher) len() int { return len(f.keys) }

func (f *fetcher) reset() { f.keys, f.arena = f.keys[:0], f.arena[:0] }

// add copies a key onto the list.
func (f *fetcher) add(key store.Key) {
	if cap(f.keys) == 0 {
		f.keys = make([]store.Key, 0, usualFetch)
		f.arena = make([]byte, 0, usualFetch*(len(key.PK)+len(key.SK)))
	}
	start := len(f.arena)
	f.arena = append(append(f.arena, key.PK...), key.SK...)
	// If the arena moves, earlier keys keep the memory they were written to.
	mid, end := start+len(key.PK), len(f.arena)
	own := store.Key{PK: f.arena[start:mid:mid]}
	if key.SK != nil {
		own.SK = f.arena[mid:end:end]
	}
	f.keys = append(f.keys, own)
}

// flush reads the rows on the list and calls found, in the order of the list, until it
// returns false. An item is valid during the call.
func (f *fetcher) flush(found func(i int, it store.Item) bool) error {
	f.actual.Fetch(len(f.keys))
	stopped, count := false, 0
	err := f.reader.MultiGet(f.ctx, f.keys, func(i int, it store.Item) {
		if count++; !stopped {
			f.actual.Keys++
			f.actual.Bytes += int64(len(it.Value))
			stopped = !found(i, it)
		}
	})
	missing := len(f.keys) - count
	f.reset()
	f.size = min(2*f.size, maxFetch)
	if err == nil && missing > 0 && !f.mayMiss() {
		return fmt.Errorf("%w: %d of them, table %s, index %s", ErrDangling, missing,
			f.table.Name, f.index)
	}
	return err
}

// mayMiss reports whether an entry without a row is possible without damage: the row may
// have expired since the entry was read, or, if the reader is the store itself, have been
// deleted.
func (f *fetcher) mayMiss() bool {
	_, live := f.reader.(store.Store)
	return live || f.table.MayExpire()
}

// fetchRows replaces row keys by rows.
type fetchRows struct {
	*runner
	input   operator
	cond    condition
	decoder decoder
	fetch   *fetcher
}

func (r *runner) fetch(n *plan.Fetch) (operator, error) {
	input, err := r.compile(n.Input)
	if err != nil {
		return nil, err
	}
	r.meter.watch(r.actual(n))
	cond, err := r.condition(n.Filter)
	return &fetchRows{r, input, cond, newDecoder(n.Source.Table, n.Layout(), nil),
		newFetcher(r, n.Source.Table, "union", r.actual(n))}, err
}

func (f *fetchRows) run(yield func([]expr.Value) bool) error {
	f.fetch.reset()
	f.fetch.size = f.fetch.first
	var failed error
	stopped := false
	found := func(_ int, it store.Item) bool {
		row, err := f.decoder.decodeRow(it.Key, it.Value)
		ok := false
		if err == nil {
			ok, err = f.cond.holds(row)
		}
		if err != nil {
			failed = err
			return false
		}
		stopped = ok && !yield(row)
		return !stopped
	}
	err := f.input.run(func(row []expr.Value) bool {
		pk, _ := row[len(row)-2].AsBytes()
		key := store.Key{PK: bytesOf(pk)}
		if sk, ok := row[len(row)-1].AsBytes(); ok {
			key.SK = bytesOf(sk)
		}
		if f.fetch.add(key); f.fetch.len() >= f.fetch.size {
			err := f.fetch.flush(found)
			failed = first(failed, err, f.meter.check(0))
		}
		return failed == nil && !stopped
	})
	if err := first(failed, err); err != nil || stopped || f.fetch.len() == 0 {
		return err
	}
	err = f.fetch.flush(found)
	return first(failed, err)
}
