package exec

import (
	"errors"
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
	index  string // that the keys are from; none: rows may be missing
	actual *plan.Actual

	first int // the size of the first batch
	size  int // when a batch is full
	keys  []store.Key
	arena []byte // what the keys refer to

	results store.Results
	value   []byte                          // of a row that is read alone
	count   int                             // of the rows that were found
	found   func(i int, it store.Item) bool // nil: no more are wanted
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
	f.count, f.found = 0, found
	err := f.read()
	missing := len(f.keys) - f.count
	f.reset()
	f.size = min(2*f.size, maxFetch)
	if err == nil && missing > 0 && !f.mayMiss() {
		return fmt.Errorf("%w: %d of them, table %s, index %s", ErrDangling, missing,
			f.table.Name, f.index)
	}
	return err
}

// read reads the rows on the list.
func (f *fetcher) read() (err error) {
	if len(f.keys) == 1 {
		f.value, err = f.reader.Get(f.ctx, f.value[:0], f.keys[0])
		switch {
		case err == nil:
			f.take(0, store.Item{Key: f.keys[0], Value: f.value})
		case errors.Is(err, store.ErrNotFound):
			err = nil
		}
		return err
	}
	all, ok := f.reader.(store.ResultsReader)
	if !ok {
		return f.reader.MultiGet(f.ctx, f.keys, f.take)
	}
	f.results.Expected = f.index != ""
	defer f.results.Release()
	if err = all.MultiGetResults(f.ctx, f.keys, &f.results); err != nil {
		return err
	}
	for i := range f.keys {
		if it, ok := f.results.Item(i); ok {
			f.take(i, it)
		}
	}
	return nil
}

// take takes a row that was found.
func (f *fetcher) take(i int, it store.Item) {
	if f.count++; f.found == nil {
		return
	}
	f.actual.Keys++
	f.actual.Bytes += int64(len(it.Value))
	if !f.found(i, it) {
		f.found = nil
	}
}

// mayMiss reports whether an entry without a row is possible without damage: the row may
// have expired since the entry was read, or, if the reader is the store itself, have been
// deleted.
func (f *fetcher) mayMiss() bool {
	_, live := f.reader.(store.Store)
	return live || f.index == "" || f.table.MayExpire()
}

// fetchRows replaces row keys by rows.
type fetchRows struct {
	access // without a node: keys come from input
	input  operator
}

func (r *runner) fetch(n *plan.Fetch) (operator, error) {
	input, err := r.compile(n.Input)
	if err != nil {
		return nil, err
	}
	f := &fetchRows{access{runner: r, counts: r.actual(n), meter: r.meter,
		decoder: newDecoder(n.Source.Table, n.Layout(), n.Filter)}, input}
	f.meter.watch(f.counts)
	f.fetches(n.Source.Table, "union")
	f.residual, err = r.condition(n.Filter)
	return f, err
}

func (f *fetchRows) run(yield func([]expr.Value) bool) error {
	s, list := f.begin(yield, -1), &f.fetch
	list.reset()
	list.size = list.first
	err := f.input.run(func(row []expr.Value) bool {
		pk, _ := row[len(row)-2].AsBytes()
		key := store.Key{PK: bytesOf(pk)}
		if sk, ok := row[len(row)-1].AsBytes(); ok {
			key.SK = bytesOf(sk)
		}
		if s.later(key); list.len() == 0 {
			if err := f.meter.check(0); err != nil {
				s.fail(err)
			}
		}
		return !s.done
	})
	if err == nil {
		s.finish()
	}
	return first(s.err, err)
}
